"""Any Hugging Face encoder, its word pieces brought back to words."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.features import Mask, Sentences, WordPieces
from maskedcrf.encoders.files import JsonRecord, read_record, write_record
from maskedcrf.encoders.part import EncoderPart, Features
from maskedcrf.encoders.transformer import pretrained
from maskedcrf.encoders.transformer.packed_bert import can_pack, forward_unpadded
from maskedcrf.encoders.transformer.windows import SpecialTokens
from maskedcrf.errors import DataError
from maskedcrf.folders import FolderFiles

FILE, TOKENIZER = "transformer.json", "tokenizer.json"
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Not cuDNN's: it plans anew for every shape, and text has hundreds; on an H200 it made training ten times slower."""


class TransformerFile(JsonRecord):
    """The model's config and what frames its input, as saved."""

    config: dict[str, Any]
    prefix: list[int]
    suffix: list[int]
    pad: int
    unknown: int
    positions: int
    token_head: bool = False
    """Whether a layer stands between the encoder and the labels, as in ModernBERT's token classifiers."""


class Transformer(EncoderPart):
    """Words to pieces, pieces through the model in rows or windows, and one vector per word back."""

    def __init__(self, model: Any, words: WordPieces) -> None:
        super().__init__()
        self.model: Any = model
        self.words = words
        self.width = int(model.config.hidden_size)

    @classmethod
    def build(cls, config: EncoderConfig, sentences: Sentences) -> Self:
        """The pretrained model that the config names."""
        assert config.transformer is not None
        found = pretrained.load_pretrained(config.transformer)
        positions = min(found.longest, pretrained.positions(found.model))
        words = WordPieces(
            found.tokenizer, found.frame, unknown=found.unknown, positions=positions, pooling=config.pooling
        )
        part = cls(found.model, words)
        part.require_matching(config.transformer)
        return part

    @property
    def computes_padding(self) -> bool:
        """Not where `forward_unpadded` takes the model's place in prediction."""
        return self.model.device.type != "cpu" or not can_pack(self.model)

    def prepare(self, sentences: Sentences, mask: Mask) -> Features:
        """Rows of pieces (R, P), R >= B, and which of them stand for each word: flat places (B, T, K)."""
        arrays = self.words.rows(sentences, mask)
        if arrays["piece_mask"].all():
            del arrays["piece_mask"]
        return {name: torch.from_numpy(part) for name, part in arrays.items()}

    def compute_lengths(self, sentences: Sentences) -> list[int]:
        """How many pieces each sentence has, with those of its context and the special pieces."""
        return self.words.compute_lengths(sentences)

    def forward(self, features: Features) -> Tensor:
        """Vectors of words, (B, T, H); of all their pieces (B, T, K, H) where the tagger chooses among these."""
        hidden = self._read(features["pieces"], features.get("piece_mask"), features["places"])
        if hidden.shape[2] == 1:
            return hidden.squeeze(2)
        if self.words.pooling == "surest":
            return hidden
        if self.words.pooling == "max":
            return hidden.amax(dim=2)
        counts = features["piece_counts"][..., None, None]
        real = torch.arange(hidden.shape[2], device=hidden.device)[:, None] < counts
        return torch.where(real, hidden, 0).sum(dim=2) / counts.squeeze(2).clamp(min=1)

    def _read(self, pieces: Tensor, mask: Tensor | None, places: Tensor) -> Tensor:
        """The vectors of pieces (R, P) at flat places (B, T, K): (B, T, K, H)."""
        if torch.is_inference_mode_enabled() and not self.computes_padding:
            return forward_unpadded(
                self.model, pieces, torch.ones_like(pieces, dtype=torch.bool) if mask is None else mask, places
            )
        if mask is not None and mask.is_cuda:
            # Given (R, P), transformers asks the GPU whether the mask is full, and the host waits for the answer.
            mask = pretrained.expand_attention_mask(self.model, mask)
        # The choice of attention is the whole process's, and on a CPU several threads may be here at once.
        with sdpa_kernel(ATTENTION) if pieces.is_cuda else nullcontext():
            output = self.model(input_ids=pieces, attention_mask=mask)
        vectors: Tensor = output.last_hidden_state.flatten(0, 1)[places]
        head = getattr(self.model, "token_head", None)
        return vectors if head is None else head(vectors)

    def layers(self) -> list[list[nn.Parameter]]:
        """Embeddings, then the layers from the bottom up."""
        return pretrained.layers(self.model)

    def save(self, folder: Path) -> None:
        """Write config, frame and tokenizer."""
        words, frame = self.words, self.words.frame
        saved = TransformerFile(
            config=pretrained.plain_config(self.model),
            prefix=list(frame.prefix),
            suffix=list(frame.suffix),
            pad=frame.pad,
            unknown=words.unknown,
            positions=words.positions,
            token_head=hasattr(self.model, "token_head"),
        )
        write_record(folder / FILE, saved)
        (folder / TOKENIZER).write_text(words.tokenizer.to_str(), encoding="utf-8")

    @classmethod
    def load(cls, files: FolderFiles, config: EncoderConfig) -> Self:
        """The model of the saved config, nothing fetched from anywhere."""
        saved = read_record(files, FILE, TransformerFile)
        tokenizer = pretrained.tokenizer_from(files.read(TOKENIZER), files.where(TOKENIZER))
        model = pretrained.model_from_config(saved.config, files.where(FILE), token_head=saved.token_head)
        frame = SpecialTokens(tuple(saved.prefix), tuple(saved.suffix), saved.pad)
        positions = min(saved.positions, pretrained.positions(model))
        words = WordPieces(tokenizer, frame, unknown=saved.unknown, positions=positions, pooling=config.pooling)
        part = cls(model, words)
        part.require_matching(files.where(FILE))
        return part

    def require_matching(self, where: str) -> None:
        """Every piece must have an embedding, and a window must have room for words."""
        size = self.model.get_input_embeddings().num_embeddings
        words, frame = self.words, self.words.frame
        pieces = {*frame.prefix, *frame.suffix, frame.pad, words.unknown}
        pieces |= set(words.tokenizer.get_vocab(with_added_tokens=True).values())
        if min(pieces) < 0 or max(pieces) >= size:
            raise DataError(
                f"{where}:1: the tokenizer has piece {max(pieces)}, the model only {size}: they do not belong together"
            )
        if words.capacity < 4:
            raise DataError(f"{where}:1: {words.positions} positions leave no room for words")
