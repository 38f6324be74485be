"""A lexicon of Chinese words for the encoder's `lexicon`: word vectors beside what a dictionary says of each word.

python -m experiments.lexicon --vectors words.vector.bin --dictionary dict.txt --encoders DIR

Vectors are in any form that `encoder.vectors` reads (word2vec's, say, as the package synonyms 3.9 brings them); the
dictionary has lines of word, frequency and part of speech (jieba's dict.txt). Writes DIR/lexicon-zh.npz; one that is
there already is left as it is.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.command import command, parser_for
from maskedcrf.encoders.vectors import Vectors, read_vectors
from maskedcrf.errors import DataError

NAME = "lexicon-zh.npz"
LONGEST = 12
"""Characters of a word; longer ones are phrases."""
KINDS = (
    "nr nrt nrfg",
    "ns",
    "nt",
    "nz",
    "n ng g",
    "v vn vg vd",
    "a ad an z b d",
    "i l",
    "m q",
    "t",
    "r p c u f s k y o e",
)
"""Parts of speech that share a column: persons, places, organisations, other names, nouns, verbs and so on."""
COLUMNS = {kind: column for column, kinds in enumerate(KINDS) for kind in kinds.split()}
MARK, KNOWN = 3.0, 2.0
"""What stands in a word's column, and in that of words with a vector; vectors have a standard deviation of 1."""


def entries(lines: Iterable[str], name: str) -> dict[str, tuple[int, str]]:
    """Frequency and part of speech of each word of a dictionary."""
    found: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines, start=1):
        word, frequency, kind = (*line.split(), "", "", "")[:3]
        if not frequency.isdigit():
            raise DataError(f"{name}:{number}: expected word, frequency and part of speech, got {line.strip()[:40]!r}")
        found.setdefault(word, (int(frequency), kind))
    return found


def together(vectors: Vectors, dictionary: dict[str, tuple[int, str]]) -> tuple[list[str], NDArray[np.float16]]:
    """All words of both, and of each its vector (or none), part of speech, frequency, and whether it has a vector."""
    rows = {word: row for row, word in enumerate(vectors.words) if len(word) <= LONGEST}
    words = [*rows, *(word for word in dictionary if word not in rows and len(word) <= LONGEST)]
    table = np.zeros((len(words), vectors.width + len(KINDS) + 2), dtype=np.float32)
    scaled = vectors.array.astype(np.float32)
    table[: len(rows), : vectors.width] = (scaled / scaled.std())[list(rows.values())]
    table[: len(rows), -1] = KNOWN
    for row, word in enumerate(words):
        frequency, kind = dictionary.get(word, (0, ""))
        table[row, -2] = math.log10(1 + frequency)
        if kind in COLUMNS:
            table[row, vectors.width + COLUMNS[kind]] = MARK
    return words, table.astype(np.float16)


@command
def main(given: Sequence[str] | None = None) -> int:
    """The command."""
    parser = parser_for(__doc__, "encoders")
    parser.add_argument("--vectors", required=True, help="file of word vectors")
    parser.add_argument("--dictionary", required=True, help="file of words, frequencies and parts of speech")
    options = parser.parse_args(given)
    target = Path(options.encoders, NAME)
    if target.exists():
        print(f"{target}: is there already", file=sys.stderr)
        return 0
    with Path(options.dictionary).open(encoding="utf-8") as lines:
        words, table = together(read_vectors(options.vectors), entries(lines, options.dictionary))
    np.savez_compressed(target, words=np.array(words), vec=table)
    print(f"{target}: {len(words)} words", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
