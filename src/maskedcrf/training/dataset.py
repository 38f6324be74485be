"""Sentences as the loop takes them: gold checked, in the trained scheme, tags as ids."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maskedcrf.data.annotation import ReadReport
from maskedcrf.data.formats.huggingface import split_folders
from maskedcrf.data.gold import check_gold
from maskedcrf.data.labelled import LabelledData, fit_labelled, read_labelled_records
from maskedcrf.data.sentence import Sentence, with_context
from maskedcrf.data.splits import dev_split
from maskedcrf.data.tokenizer_choice import Choice, choose_tokenizer
from maskedcrf.data.tokenizers import Tokenizer, get_tokenizer
from maskedcrf.errors import DataError
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import encode, read_batch
from maskedcrf.training.settings import Settings
from maskedcrf.training.warm_start import weights_digest

logger = logging.getLogger(__name__)

DEV_SPLITS = ("validation", "dev", "valid")
WITHOUT_EFFECT = {"tracker", "checkpoint_steps", "encoder_from"}
"""Settings that do not change the weights; of `encoder_from` it is the folder's weights that count, not its name."""


@dataclass(frozen=True)
class TrainingData:
    """Training sentences with the ids of their tags, and dev and test as they were read."""

    sentences: list[Sentence]
    ids: list[list[int]]
    tags: list[str]
    tokenizer: Tokenizer
    """What cuts raw text as these sentences are cut."""
    dev: list[Sentence]
    test: list[Sentence]
    summary: dict[str, Any]
    """Of each part: files, sentences, tokens, what the gold check did."""

    def fingerprint(self, settings: Settings) -> str:
        """Equal for runs that must give equal weights."""
        digest = hashlib.sha256(settings.model_dump_json(exclude=WITHOUT_EFFECT).encode())
        if settings.encoder_from:
            digest.update(weights_digest(Path(settings.encoder_from)))
        tokens = [sentence.tokens for sentence in self.sentences]
        parts: list[Any] = [tokens, self.ids, [(sentence.tokens, sentence.tags) for sentence in self.dev]]
        if any(sentence.open for sentence in self.sentences):
            parts.append([sentence.open for sentence in self.sentences])
        if settings.encoder.context:
            parts += [[sentence.context for sentence in part] for part in (self.sentences, self.dev)]
        digest.update(json.dumps(parts, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def build_corpus(
    train: LabelledData, dev: LabelledData | None, test: LabelledData | None, settings: Settings
) -> TrainingData:
    """Read, check and number everything; a wrong file is refused before anything is trained."""
    scheme, file_scheme = settings.scheme_named(None), settings.scheme_named(settings.file_scheme)
    train, dev, test = _from_splits(train, dev, test)
    reader = _PartReader(settings)
    sentences = reader.read(train, "train")
    sentences, report = check_gold(sentences, file_scheme, policy=settings.illegal_gold)
    if report.places:
        logger.warning("train: %s", report)
    dev_sentences = reader.read(dev, "dev")
    if dev is None and settings.dev_fraction and len(sentences) > 1:
        complete = [sentence for sentence in sentences if not sentence.open]  # dev has to be scored
        kept, dev_sentences = dev_split(complete, share=settings.dev_fraction, seed=settings.split_seed)
        sentences = kept + [sentence for sentence in sentences if sentence.open]
    test_sentences = reader.read(test, "test")
    found = read_batch([sentence.tags or () for sentence in sentences], file_scheme)
    types = sorted({segment.type for row in found for segment in row})
    if not types:
        raise DataError(
            f"{_describe(train, 'train')}: every tag is outside, so there is nothing to learn; is tag_column right?"
        )
    tags = scheme.tags(types)
    index = {tag: number for number, tag in enumerate(tags)}
    for name, part in (("dev", dev_sentences), ("test", test_sentences)):
        _warn_of_unknown(part, name, types, file_scheme)
    summary = {"train": {**_summary(sentences), "gold": str(report).split("\n")[0]}}
    summary.update({name: _summary(part) for name, part in (("dev", dev_sentences), ("test", test_sentences)) if part})
    for name, details in reader.summary().items():
        summary[name] |= details
    return TrainingData(
        sentences=sentences,
        ids=[
            [index[tag] for tag in encode(row, len(sentence.tokens), scheme)]
            for row, sentence in zip(found, sentences, strict=True)
        ],
        tags=tags,
        tokenizer=reader.choice.tokenizer.with_sentences(settings.data.sentences),
        dev=dev_sentences,
        test=test_sentences,
        summary=summary,
    )


def _from_splits(
    train: LabelledData, dev: LabelledData | None, test: LabelledData | None
) -> tuple[LabelledData, LabelledData | None, LabelledData | None]:
    """Of a saved DatasetDict its split `train`, and its others for what is not given."""
    alone = train[0] if isinstance(train, list | tuple) and len(train) == 1 else train
    splits = split_folders(alone) if isinstance(alone, str | Path) else {}
    if "train" not in splits:
        return train, dev, test
    found = [next((splits[name] for name in names if name in splits), None) for names in (DEV_SPLITS, ("test",))]
    return splits["train"], found[0] if dev is None else dev, found[1] if test is None else test


class _PartReader:
    """Reads train, dev and test alike; train, which is read first, decides what cuts texts into words."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.choice = Choice(get_tokenizer("simple"), 100.0)
        self._reports: dict[str, ReadReport] = {}

    def read(self, data: LabelledData | None, name: str) -> list[Sentence]:
        """Labelled sentences with what is around them: now, before any is dropped or becomes a part of dev."""
        if data is None:
            return []
        settings, reading = self.settings, self.settings.data.options()
        report = self._reports[name] = ReadReport()
        records = read_labelled_records(data, report, **reading)
        if name == "train":
            self.choice = choose_tokenizer(records, settings.data.tokenizer)
            if warning := self.choice.warning():
                logger.warning("train: %s", warning)
        scheme = settings.scheme_named(settings.file_scheme)
        found = fit_labelled(records, scheme, cut=self.choice.tokenizer, report=report, **reading)
        sentences = [sentence for sentence in found if sentence.tokens]
        if not sentences:
            raise DataError(f"{_describe(data, name)}: no sentence in it; {name} needs at least one with its tags")
        _check_tags(sentences, name)
        for sentence in sentences if name != "train" else ():
            sentence.require_every_tag(name)
        if report.counts:
            logger.warning("%s: %s", name, report)
        return list(with_context(sentences, settings.encoder.context))

    def summary(self) -> dict[str, dict[str, Any]]:
        """What the model's record keeps of the reading of each part."""
        counts = {name: {"read": report.counts} for name, report in self._reports.items() if report.counts}
        chosen = {"tokenizer": self.choice.tokenizer.name, "tokenizer_agreement": round(self.choice.agreement, 2)}
        return {**counts, "train": {**chosen, **counts.get("train", {})}}


def _describe(data: LabelledData, name: str) -> str:
    """What to call data in an error: by its files, where it has any."""
    parts = [data] if isinstance(data, str | Path) else list(data)
    return ",".join(str(part) for part in parts if isinstance(part, str | Path)) or name


def _check_tags(sentences: list[Sentence], name: str) -> None:
    """A sentence without tags is refused, and one with too few or too many."""
    for sentence in sentences:
        if sentence.tags is None:
            raise DataError(f"{sentence.where(0)}: {name} needs tags; give the sentence its own, or their column")
        if len(sentence.tags) != len(sentence.tokens):
            raise DataError(
                f"{sentence.where(0)}: {len(sentence.tokens)} tokens but {len(sentence.tags)} tags; give each one"
            )


def _warn_of_unknown(sentences: Sequence[Sentence], name: str, types: Iterable[str], scheme: Scheme) -> None:
    known = set(types)
    rows = read_batch([sentence.tags or () for sentence in sentences], scheme)
    unknown = [segment.type for row in rows for segment in row if segment.type not in known]
    if unknown:
        listed = ", ".join(sorted(set(unknown)))
        logger.warning("%s: %d segments of types that train lacks (%s) count as not found", name, len(unknown), listed)


def _summary(sentences: Sequence[Sentence]) -> dict[str, Any]:
    files = sorted({Path(sentence.file).name for sentence in sentences if sentence.file})
    return {
        "files": ", ".join(files),
        "sentences": len(sentences),
        "tokens": sum(len(sentence.tokens) for sentence in sentences),
        **({"open_tokens": left} if (left := sum(len(sentence.open) for sentence in sentences)) else {}),
    }
