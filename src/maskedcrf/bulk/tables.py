"""Tables: Parquet files, cut into Arrow streams and written back with columns added."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

from maskedcrf.bulk.rows import (
    Options,
    Piece,
    Row,
    added_fields,
    field_of,
    reject,
    require_free_names,
    require_taggable,
)
from maskedcrf.errors import DataError

if TYPE_CHECKING:
    from maskedcrf.tagger.prediction import Prediction


def cut_parquet(path: str, options: Options) -> Iterator[Piece]:
    """Pieces of rows, each an Arrow stream; at least one, since an empty table has columns too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
            name = field_of(schema.names, options)
            is_text = _is_text(schema.field(name).type, path, name)
            require_free_names(schema.names, options, text=is_text)
            yield Piece(1, arrow_bytes(schema.empty_table()))
            about = sum(file.metadata.row_group(n).total_byte_size for n in range(file.num_row_groups))
            size = max(1, options.piece * file.metadata.num_rows // max(about, 1))
            first = 1
            for batch in file.iter_batches(batch_size=min(size, 1 << 16)):
                yield Piece(first, arrow_bytes(pa.Table.from_batches([batch])))
                first += len(batch)
    except pa.ArrowException as error:
        raise DataError(f"{path}: not a Parquet file that can be read ({str(error).splitlines()[0]})") from error
    except DataError as error:
        raise DataError(f"{path}: {str(error).removeprefix('row: ').removeprefix(f'{path}: ')}") from error


def _is_text(kind: Any, path: str, name: str) -> bool:
    """Whether the column holds texts; if not, it must hold lists of tokens."""
    import pyarrow.types as is_a

    def string(kind: Any) -> bool:
        return bool(is_a.is_string(kind) or is_a.is_large_string(kind) or is_a.is_string_view(kind))

    value = kind.value_type if is_a.is_dictionary(kind) else kind
    if string(value):
        return True
    if (is_a.is_list(kind) or is_a.is_large_list(kind)) and string(kind.value_type):
        return False
    raise DataError(f"{path}: the column {name} is {kind}; it must be a string or a list of strings")


def parquet_rows(piece: Piece, path: str, options: Options, rejects: list[dict[str, Any]]) -> Iterator[Row]:
    """The rows of a piece that can be tagged; the others go to `rejects` with their reason."""
    table = arrow_table(piece.content)
    name = field_of(table.schema.names, options)
    for number, cell in enumerate(table.column(name)):
        try:
            value = cell.as_py()
            if value is None:
                raise DataError(f"row: {name} is null")
            yield Row(require_taggable(value, name, options), piece.first + number, (table, number))
        except UnicodeDecodeError:
            rejects.append(reject(DataError(f"row: {name} is not UTF-8"), path, piece.first + number, ""))
        except DataError as error:
            rejects.append(reject(error, path, piece.first + number, describe_row((table, number))))


def describe_row(content: tuple[Any, int]) -> str:
    """A row as JSON, for the file of rejected rows."""
    table, number = content
    return json.dumps(table.slice(number, 1).to_pylist()[0], ensure_ascii=False, default=str)


def format_parquet(piece: Piece, answered: Sequence[tuple[Row, Prediction]], options: Options) -> bytes:
    """The answered rows as an Arrow stream: their columns as they were, and those added."""
    import pyarrow as pa

    table = arrow_table(piece.content)
    is_text = _is_text(table.schema.field(field_of(table.schema.names, options)).type, "", "")
    kept = table.take(pa.array([row.content[1] for row, _ in answered], pa.int64()))
    fields = [added_fields(row.text, answer, options) for row, answer in answered]
    words = pa.list_(pa.string())
    entity = {"type": pa.string(), "text": pa.string(), "start": pa.int32(), "end": pa.int32()}
    entity |= {"tokens": pa.list_(pa.int32())} | ({"probability": pa.float64()} if options.probabilities else {})
    for name in options.added_fields(text=is_text):
        kind = pa.list_(pa.struct(entity)) if name == options.prefix + "entities" else words
        kept = kept.append_column(name, pa.array([each[name] for each in fields], kind))
    return arrow_bytes(kept)


def arrow_bytes(table: Any) -> bytes:
    """A table as an Arrow stream."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def arrow_table(content: bytes) -> Any:
    """The table of an Arrow stream."""
    import pyarrow as pa

    return pa.ipc.open_stream(content).read_all()


class TableSink:
    """A Parquet file out of Arrow streams; small pieces are gathered into row groups that read well."""

    ROW_GROUP = 1 << 25

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._size = 0

    def write(self, content: bytes) -> None:
        """Add a piece."""
        table = arrow_table(content)
        self._waiting.append(table)
        self._size += table.nbytes
        if self._writer is None or self._size >= self.ROW_GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is left and the end of the file."""
        if self._waiting:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables(self._waiting)
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._raw, _without_features(table.schema))
        if len(table):
            self._writer.write_table(table.cast(self._writer.schema))
        self._waiting, self._size = [], 0


def _without_features(schema: Any) -> Any:
    """The schema without Hugging Face's list of its columns, which would no longer be true."""
    return schema.with_metadata({k: v for k, v in (schema.metadata or {}).items() if k != b"huggingface"})
