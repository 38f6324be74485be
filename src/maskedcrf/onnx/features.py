"""What `Encoder.prepare` gives, from the files that `Encoder.save` writes: without torch, under the same names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from maskedcrf.encoders.features import (
    MAX_CONTEXT,
    Arrays,
    Mask,
    Sentences,
    WordPieces,
    character_features,
    lexicon_features,
    word_ids,
    word_mask,
)
from maskedcrf.encoders.transformer.tokenizer_file import check_tokenizer
from maskedcrf.encoders.transformer.windows import SpecialTokens
from maskedcrf.encoders.vocabulary import Characters, Lexicon, Words
from maskedcrf.errors import DataError, MissingExtraError

Files = Mapping[str, str]
Index = Callable[[Sentences, Mask], Arrays]
"""A batch, and the mask (B, T) that says where its words stand, to index arrays."""


class Features:
    """The index arrays of the parts of a saved encoder."""

    def __init__(self, files: Files) -> None:
        self._parts: list[Index] = []
        self._pieces: WordPieces | None = None
        self.context = 0
        """Words on either side of a sentence that the transformer sees as well."""
        try:
            config = json.loads(files["encoder.json"])["config"]
            if config["words"]:
                self._parts.append(_words(files))
            if config["characters"]:
                self._parts.append(_characters(files))
            if config.get("lexicon"):
                self._parts.append(_lexicon(files))
            if config["transformer"]:
                self._pieces = _pieces(files, config["pooling"])
                self.context = range(MAX_CONTEXT + 1).index(config.get("context", 0))  # or a ValueError
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DataError(
                f"the encoder's files are not complete or not sound ({type(error).__name__}: {error})"
            ) from error

    @property
    def piece_tokenizer(self) -> Any:
        """What cuts words into pieces; None without a transformer."""
        return self._pieces.tokenizer if self._pieces else None

    def prepare(self, sentences: Sentences) -> Arrays:
        """Index arrays of a batch; `mask` (B, T) is on where a word stands."""
        mask = word_mask(sentences)
        arrays: Arrays = {"mask": mask}
        for part in self._parts:
            arrays |= part(sentences, mask)
        if self._pieces:
            arrays |= self._pieces.rows(sentences, mask)
        return arrays

    def compute_lengths(self, sentences: Sentences) -> list[int]:
        """How long each sentence is to the encoder, in pieces where it cuts words up."""
        return self._pieces.compute_lengths(sentences) if self._pieces else list(map(len, sentences))


def _words(files: Files) -> Index:
    saved = json.loads(files["words.json"])
    words, shapes, known = (tuple(saved[name]) for name in ("words", "shapes", "known"))
    vocabulary = Words(words, shapes, known, rare=saved["rare"], lower=saved["lower"])
    return lambda sentences, mask: {"words": word_ids(vocabulary.number, sentences, mask)}


def _characters(files: Files) -> Index:
    vocabulary = Characters(tuple(json.loads(files["characters.json"])["characters"]))
    return lambda sentences, mask: character_features(vocabulary, sentences, mask)


def _lexicon(files: Files) -> Index:
    lexicon = Lexicon(tuple(json.loads(files["lexicon.json"])["words"]))
    return lambda sentences, mask: lexicon_features(lexicon, sentences, mask)


def _pieces(files: Files, pooling: str) -> WordPieces:
    saved = json.loads(files["transformer.json"])
    frame = SpecialTokens(tuple(saved["prefix"]), tuple(saved["suffix"]), saved["pad"])
    tokenizer = _tokenizer(files["tokenizer.json"])
    return WordPieces(tokenizer, frame, unknown=saved["unknown"], positions=saved["positions"], pooling=pooling)


def _tokenizer(text: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtraError("this model needs tokenizers: pip install tokenizers") from error
    checked = check_tokenizer(text.encode(), "tokenizer.json")
    try:
        return Tokenizer.from_str(json.dumps(checked))  # and not what else a library could read in the same text
    except Exception as error:  # the library raises nothing narrower
        raise DataError(f"tokenizer.json cannot be loaded ({str(error).splitlines()[0]})") from error
