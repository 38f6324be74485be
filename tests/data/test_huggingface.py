"""Hugging Face datasets, made here with the library itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from maskedcrf.data.formats import read_sentences
from maskedcrf.data.formats.huggingface import read_dataset
from maskedcrf.data.labelled import read_labelled
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.errors import DataError, MissingExtraError
from maskedcrf.tags.scheme import Scheme
from maskedcrf.training.dataset import build_corpus
from maskedcrf.training.settings import Settings

LABELS = ["O", "B-LOC", "I-LOC"]


@pytest.fixture(scope="module")
def datasets() -> Any:
    return pytest.importorskip("datasets")


@pytest.fixture(scope="module")
def dataset(datasets: Any) -> Any:
    features = datasets.Features(
        tokens=datasets.Sequence(datasets.Value("string")),
        ner_tags=datasets.Sequence(datasets.ClassLabel(names=LABELS)),
        words=datasets.Sequence(datasets.Value("string")),
    )
    rows = {"tokens": [["to", "New", "York"], ["now"]], "ner_tags": [[0, 1, 2], [0]], "words": [["x"], ["y"]]}
    return datasets.Dataset.from_dict(rows, features=features)


def test_class_labels_become_their_names(dataset: Any) -> None:
    assert [(s.tokens, s.tags) for s in read_dataset(dataset)] == [
        (("to", "New", "York"), ("O", "B-LOC", "I-LOC")),
        (("now",), ("O",)),
    ]


def test_streamed_rows_and_other_columns_are_read(dataset: Any) -> None:
    assert [s.tokens for s in read_dataset(dataset.to_iterable_dataset())] == [("to", "New", "York"), ("now",)]
    assert [(s.tokens, s.tags) for s in read_dataset(dataset, tokens="words", tags=None)] == [
        (("x",), None),
        (("y",), None),
    ]


def test_tags_may_be_strings_or_numbers_with_labels(datasets: Any) -> None:
    strings = datasets.Dataset.from_dict({"tokens": [["a"]], "tags": [["O"]]})
    numbers = datasets.Dataset.from_dict({"tokens": [["a"]], "tags": [[1]]})
    assert next(read_dataset(strings, tags="tags")).tags == ("O",)
    assert next(read_dataset(numbers, tags="tags", labels=LABELS)).tags == ("B-LOC",)
    with pytest.raises(DataError, match=r"^dataset/rows:1: the tags are numbers"):
        next(read_dataset(numbers, tags="tags"))


def test_what_does_not_fit_is_refused(datasets: Any, dataset: Any) -> None:
    with pytest.raises(DataError, match=r"give one of them: dataset\['train'\]"):
        next(read_dataset(datasets.DatasetDict(train=dataset)))
    with pytest.raises(DataError, match="no column 'pos'; there are tokens, ner_tags, words"):
        next(read_dataset(dataset, tags="pos"))
    with pytest.raises(DataError, match=r"^dataset/rows:1: 1 tokens but 3 tags"):
        next(read_dataset(dataset, tokens="words"))
    unlabelled = datasets.Dataset.from_dict({"tokens": [["a"]], "ner_tags": [[-1]]}).cast_column(
        "ner_tags", datasets.Sequence(datasets.ClassLabel(names=LABELS))
    )
    with pytest.raises(DataError, match="-1 is none of the 3 labels"):
        next(read_dataset(unlabelled))


def test_a_saved_folder_is_read(dataset: Any, tmp_path: Path) -> None:
    dataset.save_to_disk(tmp_path / "saved")
    assert [s.tags for s in read_sentences(tmp_path / "saved")] == [("O", "B-LOC", "I-LOC"), ("O",)]


def test_a_folder_that_is_none_is_refused(datasets: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a saved dataset"):
        list(read_sentences(tmp_path, format="huggingface"))


def test_without_the_library_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskedcrf\[formats\]'"):
        list(read_sentences(tmp_path, format="huggingface"))


def test_a_saved_folder_without_tags_is_read_where_none_are_asked_for(tmp_path: Path, datasets: Any) -> None:
    datasets.Dataset.from_dict({"tokens": [["in", "Lima"]]}).save_to_disk(tmp_path / "saved")
    [found] = read_sentences(tmp_path / "saved", tag_column=None)
    assert (found.tokens, found.tags) == (("in", "Lima"), None)


def test_a_stream_that_does_not_know_its_columns_is_read(datasets: Any) -> None:
    rows = [{"tokens": ["in", "Lima"], "ner_tags": ["O", "B-LOC"]}]
    stream = datasets.IterableDataset.from_generator(lambda: iter(rows))
    assert stream.features is None
    assert [(s.tokens, s.tags) for s in read_dataset(stream)] == [(("in", "Lima"), ("O", "B-LOC"))]


def test_a_saved_dict_of_splits_is_trained_on_by_its_splits(datasets: Any, tmp_path: Path) -> None:
    def part(*words: str) -> Any:
        return datasets.Dataset.from_dict({"tokens": [[word] for word in words], "tags": [["B-LOC"]] * len(words)})

    folder = tmp_path / "splits"
    datasets.DatasetDict(train=part("a", "b"), validation=part("c"), test=part("d")).save_to_disk(folder)
    settings = Settings.of({"scheme": "BIO"}).resolved(2)
    for given in (folder, str(folder), [str(folder)]):
        data = build_corpus(given, None, None, settings)
        assert [[each.tokens for each in rows] for rows in (data.sentences, data.dev, data.test)] == [
            [("a",), ("b",)],
            [("c",)],
            [("d",)],
        ]
    data = build_corpus(folder, [(["x"], ["B-LOC"])], None, settings)
    assert [each.tokens for each in data.dev] == [("x",)]
    (folder / "dataset_dict.json").write_text('{"splits": 3}')
    with pytest.raises(DataError, match="splits must be a list of strings"):
        build_corpus(folder, None, None, settings)
    (folder / "dataset_dict.json").write_text('{"splits": ["../elsewhere", "validation"]}')
    with pytest.raises(DataError, match="not a saved dataset"):
        build_corpus(folder, None, None, settings)


def test_what_does_not_fit_in_a_folder_is_said_with_the_folder(datasets: Any, tmp_path: Path) -> None:
    datasets.Dataset.from_dict({"tokens": [["a"], ["b"]], "tags": [[0], [1]]}).save_to_disk(tmp_path / "rows")
    with pytest.raises(DataError, match=f"^{tmp_path / 'rows'}:2: 1 is none of the 1 labels"):
        list(read_sentences(tmp_path / "rows", labels=["O"]))


@pytest.mark.parametrize(
    "row",
    [
        {"tokens": ["Ann", "left"], "tags": ["B-PER", "O"]},
        {"words": ["Ann", "left"], "ner": ["B-PER", "O"]},
        {"text": "Ann left", "spans": [{"start": 0, "end": 3, "label": "PER"}]},
    ],
)
def test_a_dataset_in_memory_is_labelled_data_whatever_its_columns_are_called(datasets: Any, row: Any) -> None:
    rows = datasets.Dataset.from_list([row])
    [sentence] = read_labelled(rows, Scheme.get("BIO"), cut=get_tokenizer("unicode"))
    assert (sentence.tokens, sentence.tags) == (("Ann", "left"), ("B-PER", "O"))
