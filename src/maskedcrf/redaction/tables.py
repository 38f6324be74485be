"""Parquet tables with the entities of their texts hidden: one column is written anew, all others stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from maskedcrf.data.formats.parquet import import_pyarrow
from maskedcrf.errors import DataError
from maskedcrf.redaction.files import Entry, row_piece
from maskedcrf.redaction.redactor import Redactor

BATCH_ROWS = 4096


def redact_parquet(redactor: Redactor, path: str, target: BinaryIO) -> Iterator[list[Entry]]:
    """Write the table with its `text`, or its `tokens`, redacted; each row is a document. What was hidden, by row."""
    pa, pq = import_pyarrow()
    try:
        with pq.ParquetFile(path) as table:
            schema = table.schema_arrow
            column = _column(schema, path)
            first = 1
            with pq.ParquetWriter(target, schema) as writer:
                for batch in table.iter_batches(batch_size=BATCH_ROWS):
                    values, entries = _redact(redactor, batch.column(column).to_pylist(), path, first)
                    cells = pa.array(values, type=schema.field(column).type)
                    writer.write_batch(batch.set_column(column, schema.field(column), cells))
                    first += len(batch)
                    yield from entries
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or str(error).splitlines()[0]:.80}; give a readable file") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not a Parquet file that can be redacted ({reason:.80})") from error


def _column(schema: Any, path: str) -> int:
    """The number of the column that holds the words: one of strings, or of lists of strings."""
    there = [name for name in ("text", "tokens") if name in schema.names]
    if len(there) != 1:
        raise DataError(f"{path}: needs a column text or a column tokens, one of them; rename yours, or take one out")
    kind = schema.field(there[0]).type
    words = str(kind.value_type if hasattr(kind, "value_type") else kind)
    if words not in ("string", "large_string") or str(kind).startswith("dictionary"):
        raise DataError(f"{path}: the column {there[0]} is {kind}; it must be a string or a list of strings")
    return int(schema.get_field_index(there[0]))


def _redact(
    redactor: Redactor, rows: list[Any], path: str, first: int
) -> tuple[list[str | list[str] | None], list[list[Entry]]]:
    """The cells of some rows anew, an empty one as it was."""
    pieces = (
        row_piece(redactor, row, f"{path}: row {number}", number)
        for number, row in enumerate(rows, first)
        if row is not None
    )
    found = redactor.each(pieces)
    redacted = [(None, []) if row is None else next(found) for row in rows]
    return [value for value, _ in redacted], [entries for _, entries in redacted]
