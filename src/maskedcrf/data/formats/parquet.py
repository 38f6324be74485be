"""Parquet tables: a sentence a row, as lists of tokens and tags, or as text and spans."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.rows import choose_columns, rows_to_sentences
from maskedcrf.data.formats.whole import read_bytes
from maskedcrf.data.formats.writing import TaggedText
from maskedcrf.errors import DataError, MissingExtraError
from maskedcrf.files import file_name


def read_parquet(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The rows of a table; class labels of a Hugging Face dataset become their names."""
    pa, pq = import_pyarrow()
    name = file_name(path)
    try:
        is_stream = name == "<stdin>" or name.endswith(".gz")
        table = pq.ParquetFile(pa.BufferReader(read_bytes(path)) if is_stream else name)
        schema = table.schema_arrow
        columns = choose_columns(schema.names, options, name)
        if options.labels is None and "tags" in columns:
            options = replace(options, labels=_class_labels(schema.metadata or {}, columns["tags"]))
        rows = chain.from_iterable(batch.to_pylist() for batch in table.iter_batches(columns=list(columns.values())))
        yield from rows_to_sentences(rows, columns, name, options, unit="row")
    except OSError as error:
        raise DataError(f"{name}: {error.strerror or str(error).splitlines()[0]:.80}; give a readable file") from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{name}: not a Parquet file that can be read ({str(error).splitlines()[0]:.80})") from error


def _class_labels(metadata: dict[bytes, bytes], column: str) -> Sequence[str] | None:
    """The names of the class labels that a Hugging Face dataset keeps beside the table."""
    try:
        feature = json.loads(metadata[b"huggingface"])["info"]["features"][column]
        names = feature.get("feature", feature)["names"]
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return names if isinstance(names, list) and all(isinstance(each, str) for each in names) else None


def write_parquet(texts: Iterator[TaggedText]) -> Iterator[bytes]:
    """Lists of tokens and tags."""
    pa, pq = import_pyarrow()
    words = pa.list_(pa.string())
    schema = pa.schema([("tokens", words), ("tags", words)])
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, schema) as writer:
        rows: list[dict[str, Any]] = []
        for each in texts:
            tags = each.sentence.tags
            rows.append({"tokens": list(each.sentence.tokens), "tags": None if tags is None else list(tags)})
            if len(rows) == 4096:
                writer.write_table(pa.Table.from_pylist(rows, schema))
                rows = []
        writer.write_table(pa.Table.from_pylist(rows, schema))
    yield sink.getvalue()


def import_pyarrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet, or an error that says how to install them."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("a Parquet file needs pyarrow: pip install 'maskedcrf[formats]'") from error
    return pyarrow, pyarrow.parquet
