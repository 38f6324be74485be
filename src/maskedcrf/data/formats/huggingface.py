"""Hugging Face `datasets`: an object in memory, or a folder that `save_to_disk` wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.rows import choose_columns, rows_to_sentences
from maskedcrf.data.formats.values import parse_json, require_strings, tag_names
from maskedcrf.data.formats.whole import read_whole
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError, MaskedCRFError, MissingExtraError


def read_dataset(
    dataset: Any,
    *,
    tokens: str = "tokens",
    tags: str | None = "ner_tags",
    labels: Sequence[str] | None = None,
    name: str | None = None,
) -> Iterator[Sentence]:
    """The rows of a `Dataset` or `IterableDataset` as sentences; `tags=None` reads tokens alone.

    Tags may be a sequence of `ClassLabel`, whose names are used, of strings, or of numbers that `labels` names.
    Messages count rows from 1, as they count lines; `name` is what they call the dataset.
    """
    name = name or f"dataset/{getattr(dataset, 'split', None) or 'rows'}"
    if isinstance(dataset, dict):
        raise DataError(f"{name}: this holds several splits; give one of them: dataset[{next(iter(dataset), '')!r}]")
    features = getattr(dataset, "features", None) or {}
    for column in (tokens, tags):
        if column is not None and features and column not in features:
            raise DataError(f"{name}: no column {column!r}; there are {', '.join(features)}: say tokens= and tags=")
    names = labels if labels is not None else _class_labels(features.get(tags))
    for number, row in enumerate(dataset, 1):
        where = f"{name}:{number}"
        words = row.get(tokens)
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise DataError(f"{where}: {tokens} must be a list of strings, got {words!r:.60}")
        row_tags = None if tags is None else tuple(tag_names(row.get(tags), len(words), where, names))
        yield Sentence(tuple(words), row_tags, name, number, one_line=True)


def read_saved(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The sentences of a folder of `save_to_disk`: a Dataset, or a DatasetDict of one split."""
    name = os.fspath(path)
    try:
        dataset = _load(name)
        if not len(dataset):
            raise DataError(f"{name}: a dataset without rows, or one cut short; save it again")
        yield from read_rows(dataset, options, name)
    except MaskedCRFError:
        raise
    except Exception as error:  # whatever a damaged folder makes the library raise, the user hears one line
        reason = f"{error!s:.80}".replace("\n", " ")
        raise DataError(f"{name}: not a saved dataset ({reason}); give a folder of save_to_disk") from error


def read_rows(dataset: Any, options: ReadOptions, name: str | None = None) -> Records:
    """The sentences of a `Dataset`, its columns found by their names: tokens and tags, or text and spans."""
    name = name or f"dataset/{dataset.split or 'rows'}"
    columns = choose_columns(list(dataset.features), options, name)
    if options.labels is None and "tags" in columns:
        options = replace(options, labels=_class_labels(dataset.features[columns["tags"]]))
    yield from rows_to_sentences(dataset, columns, name, options)


def split_folders(path: str | os.PathLike[str]) -> dict[str, Path]:
    """The folders of a saved DatasetDict by the names of their splits; nothing if this is none."""
    listed = Path(path) / "dataset_dict.json"
    if not listed.is_file():
        return {}
    found = parse_json(read_whole(listed), os.fspath(listed), "save the DatasetDict again")
    splits = found.get("splits") if isinstance(found, dict) else None
    names = require_strings(splits, "splits", os.fspath(listed))
    return {name: Path(path) / name for name in names if Path(name).name == name}


def _load(name: str) -> Any:
    try:
        from datasets import DatasetDict, load_from_disk
    except ImportError as error:
        raise MissingExtraError(
            "reading a Hugging Face dataset needs datasets: pip install 'maskedcrf[formats]'"
        ) from error
    dataset = load_from_disk(name)
    if not isinstance(dataset, DatasetDict):
        return dataset
    if len(dataset) != 1:
        splits = ", ".join(os.fspath(Path(name) / split) for split in dataset)
        raise DataError(f"{name}: a DatasetDict; give the folder of one split: {splits or 'it has none'}")
    return next(iter(dataset.values()))


def _class_labels(feature: Any) -> list[str] | None:
    """The names of a sequence of class labels, however this version of the library writes one."""
    inner = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
    return getattr(inner, "names", None)
