"""Fifteen ways and more in which a file of each format is damaged: refused in one line with file and place."""

from __future__ import annotations

import gzip
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from format_damages import ANY_TEXT, OWN, Damage
from format_examples import EXAMPLES, TAGS, TOKENS

from maskedcrf.cli import main
from maskedcrf.data.formats import FORMATS, read_sentences
from maskedcrf.errors import MaskedCRFError


def require_refusal(path: Path, format: str, expected: str) -> None:
    with pytest.raises(MaskedCRFError) as caught:
        list(read_sentences(path, format=format))
    message = str(caught.value)
    assert message.startswith(str(path))
    assert all(part in message for part in expected.split(" ... "))
    assert "\n" not in message


@pytest.mark.parametrize("name", OWN)
def test_damaged_text_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    format, file, write = EXAMPLES[name]
    raw = write(tmp_path / file).read_bytes()
    damages = [*ANY_TEXT.values(), *OWN[name]]
    assert len(damages) >= 15
    for damage, expected in damages:
        (tmp_path / file).write_bytes(damage(raw))
        require_refusal(tmp_path / file, format, expected)
    (tmp_path / file).unlink()
    require_refusal(tmp_path / file, format, "No such file")


def test_a_damaged_file_is_one_line_and_exit_code_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, damages in OWN.items():
        _, file, write = EXAMPLES[name]
        path = write(tmp_path / file)
        damage, expected = damages[1]
        path.write_bytes(damage(path.read_bytes()))
        output = tmp_path / "out"
        command = ["convert", str(path), "--input-format", EXAMPLES[name][0], "--to-format", "jsonl", "-o", str(output)]
        assert main(command) == 2
        errors = capsys.readouterr().err.strip().split("\n")
        assert len(errors) == 1
        assert expected.split(" ... ")[-1] in errors[0]
        assert not output.exists()


BRAT_DAMAGES = [
    ("ann", "T1\tPER 0 7\tAnn Lee", "T1\tPER 0 3;4 7\tAnn Lee", ":1: a discontinuous entity"),
    ("ann", "PER 0 7", "PER 0 6", ":1: 'Ann Lee' is not what stands at 0:6"),
    ("ann", "PER 0 7", "PER 0 7000", ":1: span 0:7000 PER leaves the text"),
    ("ann", "PER 0 7", "PER 7", ":1: "),
    ("ann", "PER 0 7", "PER x 7", ":1: "),
    ("ann", "T2\tLOC", "T2 LOC", ":2: "),
    ("ann", "T2\tLOC", "X2\tLOC", ":2: 'X2"),
    ("ann", "#1\tAnn", "?\tAnn", ":6: "),
    ("ann", "PER 0 7\tAnn Lee", "PER 1 7\tnn Lee", "cuts the token 'Ann'"),
    ("ann", "LOC 16 20\tOslo", "LOC 13 21\tto Oslo.", None),
    ("ann", "LOC 16 20\tOslo", "LOC 0 3\tAnn", "LOC and PER both cover 'Ann'"),
    ("ann", "PER 30 35\tBo Ek", "PER 16 26\tOslo. She", "crosses a sentence break"),
    ("ann", "Oslo", "\xff", "not UTF-8"),
    ("ann", "Oslo", "\0", "a NUL character"),
    ("txt", "Ann", "Anna", "is not what stands at"),
    ("txt", "Oslo", "\xff", "not UTF-8"),
    ("txt", "Oslo", "\0", "a NUL character"),
]


@pytest.mark.parametrize(("ending", "old", "new", "expected"), BRAT_DAMAGES)
def test_a_damaged_brat_folder_is_refused(
    tmp_path: Path, ending: str, old: str, new: str, expected: str | None
) -> None:
    folder = EXAMPLES["BRAT"][2](tmp_path / "brat")
    path = folder / f"travel.{ending}"
    raw = path.read_bytes()
    assert old.encode() in raw
    path.write_bytes(raw.replace(old.encode(), new.encode("latin-1"), 1))
    if expected is None:  # a longer name is no damage
        assert len(list(read_sentences(folder))) == 2
        return
    require_refusal(folder, "brat", expected)


def test_half_a_brat_document_is_refused(tmp_path: Path) -> None:
    folder = EXAMPLES["BRAT"][2](tmp_path / "brat")
    (folder / "more.txt").write_text("Bo.")
    require_refusal(folder, "brat", "no more.ann beside it")
    (folder / "more.txt").unlink()
    (folder / "travel.txt").unlink()
    require_refusal(folder, "brat", "no travel.txt beside it")


TRIPLES_DAMAGES = [
    ("seq.in", b"Ann Lee", b"Ann", ":1: 5 tokens but 6 tags"),
    ("seq.in", b"She met", b"She", ":2: 7 tokens but 8 tags"),
    ("seq.in", b"She", b"She\nmet", ":2: 1 tokens but 8 tags"),
    ("seq.in", b"\nShe", b" She", ":1: 14 tokens but 6 tags"),
    ("seq.in", b"Oslo", b"\xff", ":1: not UTF-8"),
    ("seq.in", b"Oslo", b"\0", ":1: a NUL"),
    ("seq.in", b"Oslo", b"Os\rlo", ":1: a carriage return"),
    ("seq.out", b"B-PER", b"B-PER O", ":1: 6 tokens but 7 tags"),
    ("seq.out", b"B-LOC", b"", ":1: 6 tokens but 5 tags"),
    ("seq.out", b"\n", b" ", ":1: 6 tokens but 14 tags"),
    ("seq.out", b"\n", b"\n\n", ":2: 8 tokens but 0 tags"),
    ("seq.out", b"B-LOC", b"\xff", ":1: not UTF-8"),
    ("seq.out", b"B-LOC", b"\0", ":1: a NUL"),
    ("label", b"flight\n", b"", "the file ends here"),
    ("label", b"flight", b"\xff", ":1: not UTF-8"),
    ("label", b"flight", b"a\n\nb", "the file ends here"),
]


@pytest.mark.parametrize(("file", "old", "new", "expected"), TRIPLES_DAMAGES)
def test_damaged_parallel_files_are_refused(tmp_path: Path, file: str, old: bytes, new: bytes, expected: str) -> None:
    folder = EXAMPLES["parallel files"][2](tmp_path / "atis")
    path = folder / file
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new, 1))
    require_refusal(folder, "triples", expected)


CUT: dict[str, Damage] = {
    "empty": lambda raw: b"",
    "a quarter": lambda raw: raw[: len(raw) // 4],
    "a half": lambda raw: raw[: len(raw) // 2],
    "three quarters": lambda raw: raw[: 3 * len(raw) // 4],
    "one byte short": lambda raw: raw[:-1],
    "without its beginning": lambda raw: raw[10:],
    "without its first byte": lambda raw: raw[1:],
    "zeros": lambda raw: bytes(len(raw)),
    "text": lambda raw: b"Ann Lee O\n" * 20,
    "text behind its mark": lambda raw: raw[:4] + b"Ann Lee O\n" * 20,
    "reversed": lambda raw: raw[::-1],
    "HTML instead": lambda raw: b"<!doctype html><p>404: not found</p>",
    "a hole in the middle": lambda raw: raw[: len(raw) // 3] + bytes(len(raw) // 3) + raw[2 * len(raw) // 3 :],
    "packed and cut": lambda raw: gzip.compress(raw)[:-9],
}


@pytest.mark.parametrize("damage", CUT)
@pytest.mark.parametrize("name", ["DocBin", "Parquet"])
def test_damaged_binary_files_are_refused(tmp_path: Path, name: str, damage: str) -> None:
    format, file, write = EXAMPLES[name]
    path = write(tmp_path / file)
    path.write_bytes(CUT[damage](path.read_bytes()))
    require_refusal(path, format, "; " if format == "spacy" else "")


def test_a_docbin_of_something_else_is_refused(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    import srsly

    path = tmp_path / "a.spacy"
    for content in (b"text", srsly.msgpack_dumps({}), srsly.msgpack_dumps([1]), srsly.msgpack_dumps({"attrs": []})):
        path.write_bytes(zlib.compress(content))
        require_refusal(path, "spacy", "a damaged DocBin")
    doc = spacy.blank("en")("Ann left")
    doc.set_ents([spacy.tokens.Span(doc, 0, 1, "PER")], default="missing")
    path.write_bytes(spacy.tokens.DocBin(docs=[doc]).to_bytes())
    require_refusal(path, "spacy", "document 1: some tokens have no entity annotation")


def parquet_of(**columns: Any) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), path)

    return write


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (parquet_of(terms=TOKENS, tags=TAGS), "no column tokens, words, text"),
        (parquet_of(tokens=TOKENS, tags=TAGS[::-1]), "row 1: 6 tokens but 8 tags"),
        (parquet_of(tokens=TOKENS, ner_tags=[[0] * 6, [0] * 8]), "row 1: the tags are numbers"),
        (parquet_of(tokens=["Ann", "Bo"], tags=TAGS), "row 1: tokens must be a list of strings"),
        (parquet_of(text=["Ann", "Bo"], spans=["x", "y"]), "row 1: spans must be a list of objects"),
    ],
)
def test_a_parquet_table_of_something_else_is_refused(tmp_path: Path, write: Any, expected: str) -> None:
    write(tmp_path / "a.parquet")
    require_refusal(tmp_path / "a.parquet", "parquet", expected)


def test_damaged_datasets_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    good = EXAMPLES["Dataset"][2](tmp_path / "good")
    [arrow] = good.glob("*.arrow")
    cuts = {key: damage for key, damage in CUT.items() if key not in ("one byte short", "a hole in the middle")}
    spoilt: list[tuple[str, Damage]] = [(arrow.name, damage) for damage in cuts.values()]
    for file in ("state.json", "dataset_info.json"):
        spoilt += [(file, lambda raw: raw[: len(raw) // 2]), (file, lambda raw: b"\xff"), (file, lambda raw: b"[]")]
    assert len(spoilt) >= 15
    for number, (file, damage) in enumerate(spoilt):
        folder = Path(shutil.copytree(good, tmp_path / str(number)))
        (folder / file).write_bytes(damage((folder / file).read_bytes()))
        require_refusal(folder, "huggingface", "save")


def test_of_a_dict_of_several_splits_one_is_asked_for(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    part = datasets.load_from_disk(str(EXAMPLES["Dataset"][2](tmp_path / "good")))
    datasets.DatasetDict(train=part, test=part).save_to_disk(tmp_path / "both")
    require_refusal(tmp_path / "both", "huggingface", f"give the folder of one split: {tmp_path / 'both' / 'train'}, ")
    assert len(list(read_sentences(tmp_path / "both" / "train"))) == 2


def test_every_format_is_in_these_tables() -> None:
    damaged = {EXAMPLES[name][0] for name in (*OWN, "BRAT", "parallel files", "DocBin", "Parquet", "Dataset")}
    assert damaged == set(FORMATS) - {"text"}
