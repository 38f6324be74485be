"""The two pages on the paper, their tables and figures, and the statement that other pages share.

python -m experiments.page

writes docs/paper.md and docs/paper-tables.md, a CSV file a table, the figures, and what stands between markers in the
README, the front page, the questions and two guides. All of it comes from results files and paper.json; the
prose around it is in experiments/templates.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from experiments import sentences
from experiments.choice import Trial
from experiments.claims import Evidence
from experiments.command import command, folder, parser_for
from experiments.decoded import read_lines
from experiments.defaults import default_sentence, default_tables
from experiments.figures import example_lattice, write_figures
from experiments.result_files import RESULTS, read_results
from experiments.table_format import Table, as_csv, markdown
from experiments.tables import all_tables, readme_table
from experiments.thresholds_by_type import FOLDER as BY_TYPE
from experiments.thresholds_by_type import by_type_sentence

ROOT = Path(__file__).parents[1]
TEMPLATES = Path(__file__).parent / "templates"
PAGES = ("paper.md", "paper-tables.md")
SHARED = ("README.md", "docs/index.md", "docs/faq.md", "docs/guides/training.md", "docs/guides/decoding.md")
"""Pages with a place between markers."""
PLACE = re.compile(r"\{\{(\w+) ?([\w-]*)\}\}")


def write_pages(evidence: Evidence, root: Path) -> None:
    """Write everything below a root that has the repository's layout."""
    docs = root / "docs"
    first, behind = all_tables(evidence)
    defaults = default_tables(evidence)
    tables = {table.key: table for table in (*first, *behind, *defaults)}
    where = docs / "tables" / "paper"
    where.mkdir(parents=True, exist_ok=True)
    for former in where.iterdir():
        former.unlink()
    for table in tables.values():
        (where / f"{table.key}.csv").write_text(as_csv(table), encoding="utf-8")
    captions = write_figures(evidence, docs / "images" / "paper")
    (docs / "images" / "lattice.svg").write_text(example_lattice() + "\n", encoding="utf-8")
    for name in PAGES:
        template = (TEMPLATES / name).read_text(encoding="utf-8")
        (docs / name).write_text(fill(template, evidence, tables, captions), encoding="utf-8")
    blocks = {
        "paper": readme_table(evidence),
        "masking": sentences.statement(evidence),
        "advice": sentences.advice(evidence),
        "decoding": sentences.decoding(evidence),
        "by-type": by_type_sentence(evidence.by_type),
        "defaults": "\n\n".join(
            [*(f"{markdown(table).strip()}\n\n{table.note}" for table in defaults), default_sentence(evidence)]
        ),
    }
    for name in SHARED:
        path = root / name
        if path.exists():
            path.write_text(between_markers(path.read_text(encoding="utf-8"), blocks), encoding="utf-8")


def fill(template: str, evidence: Evidence, tables: Mapping[str, Table], captions: Mapping[str, str]) -> str:
    """The template with `{{table KEY}}`, `{{figure KEY}}` and `{{sentence NAME}}` in their places."""

    def put(found: re.Match[str]) -> str:
        kind, key = found.groups()
        if kind == "table":
            table = tables[key]
            if not table.rows:
                return "Not run yet."
            return f"{markdown(table)}\n{table.note} [CSV](tables/paper/{key}.csv)"
        if kind == "figure":
            return (
                f"![{captions[key]}](images/paper/{key}.svg)"
                if key in captions
                else "Figure not drawn: no corpus is done yet."
            )
        return str(getattr(sentences, key)(evidence))

    return PLACE.sub(put, template)


def between_markers(text: str, blocks: Mapping[str, str]) -> str:
    """The text with what is between the markers of each block replaced; without markers it stays as it is."""
    for name, block in blocks.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        # A function's result is taken as it is, where a string's backslashes would be read.
        text = pattern.sub(partial(_same, f"{begin}\n{block.strip()}\n{end}"), text)
    return text


def _same(text: str, _: re.Match[str]) -> str:
    return text


@command
def main(given: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = parser_for(__doc__)
    parser.add_argument("--results", type=folder, default=RESULTS, help="folder of the results files")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder with docs/ and README.md, to be written in")
    options = parser.parse_args(given)
    results = Path(options.results)
    trial = Trial(read_results(results))
    evidence = Evidence(trial, decoded=read_lines(results), by_type=read_lines(results, BY_TYPE))
    write_pages(evidence, options.root)
    print(f"{options.root / 'docs' / 'paper.md'}: from {len(trial.entries)} trainings", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
