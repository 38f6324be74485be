"""Files for bulk tagging: a row of every kind that can go wrong, beside rows that cannot."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

TEXTS = ["Ann Lee flew to Oslo.", "Oslo", "", "to  Ann, Lee", "wer weiß 東京"]
# line of a JSON lines file -> what the reason must say
BAD_LINES = {
    b"{]": "not JSON",
    b"[1]": "list where an object",
    b'{"id": 1}': "no tokens and no text",
    b'{"text": 3}': "text must be a list of strings",
    b'{"tokens": ["a", null]}': "tokens[1] must be a string",
    b'{"text": "\xff"}': "not UTF-8",
    b'{"text": "\\ud800"}': "half a character",
    b'{"text": "a", "tags": []}': "a field tags already",
    b"[" * 100_000: "not JSON",
}


def json_lines(size: int) -> bytes:
    """Good lines, with whatever else a line may hold."""
    rows = (f'{{"id": {n}, "text": {json.dumps(TEXTS[n % 5])}, "x": 1.10, "x": null }}' for n in range(size))
    return "".join(row + "\n" for row in rows).encode()


def columns(size: int) -> bytes:
    """Sentences with comments, marks of documents, and line ends of both kinds."""
    return b"-DOCSTART- -X-\n\n" + b"# id 7\nAnn NNP\nflew VB\n\n\nto TO\r\nOslo NNP\r\n\r\n" * size


def table(size: int) -> pa.Table:
    """Tokens beside other columns, a null among them."""
    tokens = [text.split() for text in TEXTS]
    return pa.table(
        {
            "id": pa.array(range(size), pa.int16()),
            "tokens": pa.array([None if n == 7 else tokens[n % 5] for n in range(size)], pa.list_(pa.string())),
            "when": pa.array([n * 1000 for n in range(size)], pa.timestamp("ms", "UTC")),
        }
    )


def write_all(folder: Path) -> None:
    """One folder with every kind of file."""
    (folder / "a").mkdir(parents=True)
    (folder / "b").mkdir()
    (folder / "a" / "same.jsonl").write_bytes(json_lines(50))
    (folder / "b" / "same.jsonl").write_bytes(json_lines(7) + b"\n".join(BAD_LINES) + b"\n\n" + json_lines(3))
    (folder / "packed.jsonl.gz").write_bytes(gzip.compress(json_lines(20)))
    (folder / "cut.jsonl.gz").write_bytes(gzip.compress(json_lines(2000))[:-40])
    (folder / "empty.jsonl").write_bytes(b"")
    (folder / "empty.conll").write_bytes(b"")
    (folder / "words.conll").write_bytes(columns(30))
    pq.write_table(table(100), folder / "rows.parquet", row_group_size=30)
    pq.write_table(table(100).slice(0, 0), folder / "empty.parquet")
    (folder / "broken.parquet").write_bytes(b"PAR1 is how it begins")
    (folder / "notes.txt").write_text("not ours")
    (folder / "_SUCCESS").write_text("")
