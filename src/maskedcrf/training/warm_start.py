"""An encoder begun with another tagger's: of a bigger corpus, say, to be fine-tuned on a small one.

Linear layer and transitions stay fresh, since they belong to the tags. Of the encoder each part is taken whole if it
fits, or else left fresh; tables of words and characters are taken row by row, where both vocabularies have the entry.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import Encoder
from maskedcrf.encoders.vocabulary import Characters, Words
from maskedcrf.errors import ModelFolderError
from maskedcrf.tagger.folder import WEIGHTS, load

logger = logging.getLogger(__name__)


def copy_encoder_weights(encoder: Encoder, folder: Path) -> None:
    """Give the encoder the weights of a saved tagger's, as far as they fit; one of which nothing fits is refused."""
    other = load(folder)[0].encoder
    ours, theirs = _parts(encoder), _parts(other)
    fitting = [name for name in ours if name in theirs and _fits(ours[name], theirs[name])]
    if not fitting or ("transformer" in ours.keys() & theirs.keys() and "transformer" not in fitting):
        raise ModelFolderError(
            f"{folder}: its encoder ({_describe(other.config)}) does not fit this one ({_describe(encoder.config)}); "
            "start from a tagger with the same encoder"
        )
    for name in fitting:
        _copy_part(ours[name], theirs[name])
    logger.info("%s: training begins with its %s", folder, ", ".join(fitting))


def weights_digest(folder: Path) -> bytes:
    """Equal for folders with equal weights, whatever their names."""
    if not (folder / WEIGHTS).is_file():
        raise ModelFolderError(f"{folder}: no {WEIGHTS} in it; start from a folder that `maskedcrf train` wrote")
    with (folder / WEIGHTS).open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _parts(encoder: Encoder) -> dict[str, nn.Module]:
    return {**encoder.parts} | ({} if encoder.lstm is None else {"lstm": encoder.lstm})


def _fits(ours: nn.Module, theirs: nn.Module) -> bool:
    """Whether all weights have the same names and shapes, tables of a vocabulary aside, and pieces the same numbers."""
    return _pieces(ours) == _pieces(theirs) and _shapes(ours) == _shapes(theirs)


def _shapes(part: nn.Module) -> dict[str, tuple[int, ...]]:
    by_row = {id(table) for table in _tables(part).values()}
    return {name: tuple(value.shape)[id(value) in by_row :] for name, value in part.named_parameters()}


def _pieces(part: nn.Module) -> Any:
    """The numbers of a transformer's pieces; None where there are none."""
    words = getattr(part, "words", None)
    return None if words is None else words.tokenizer.get_vocab()


def _tables(part: nn.Module) -> dict[str, Tensor]:
    """The tables whose rows are a vocabulary's entries, by name."""
    if not hasattr(part, "vocabulary"):
        return {}
    return {f"{name}.weight": each.weight for name, each in part.named_modules() if isinstance(each, nn.Embedding)}


def _row_keys(vocabulary: Words | Characters) -> list[tuple[str, str]]:
    """What each row of a vocabulary's table stands for."""
    if isinstance(vocabulary, Words):
        kinds = {"mark": ("padding", "unknown"), "shape": vocabulary.shapes, "word": vocabulary.words}
    else:
        kinds = {"mark": ("padding", "unknown", "begin", "end"), "character": vocabulary.characters}
    return [(kind, entry) for kind, entries in kinds.items() for entry in entries]


@torch.no_grad()
def _copy_part(ours: Any, theirs: Any) -> None:
    """Copy the weights of a part that fits."""
    found = dict(theirs.named_parameters())
    tables = _tables(ours)
    for name, parameter in ours.named_parameters():
        if name not in tables:
            parameter.copy_(found[name])
            continue
        there = {entry: row for row, entry in enumerate(_row_keys(theirs.vocabulary))}
        rows = [(row, there[entry]) for row, entry in enumerate(_row_keys(ours.vocabulary)) if entry in there]
        here, from_there = map(list, zip(*rows, strict=True))
        parameter[here] = found[name][from_there]


def _describe(config: EncoderConfig) -> str:
    """An encoder in a word or two: its pretrained parts by name, else what it is made of."""
    parts = {
        "transformer": config.transformer,
        "elmo": config.elmo,
        "words": config.words,
        "characters": config.characters,
        "lexicon": config.lexicon,
        "lstm": config.lstm_layers,
    }
    return ", ".join(f"{name} {Path(str(value)).name}" for name, value in parts.items() if value)
