"""EncoderConfig: which parts make up an encoder, flat, frozen and saved with the model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from maskedcrf.encoders.features import MAX_CONTEXT

_DEFAULTS_BESIDE: dict[str, dict[str, Any]] = {
    "transformer": {"words": 0, "characters": 0, "lstm_layers": 0, "dropout": 0.1},
    "elmo": {"words": 0, "characters": 0},
}
"""A pretrained encoder comes alone unless other parts are asked for by name."""


Head = Literal["softmax", "crf"]
"""What scores the tags on top of an encoder: each by itself, or paths of them."""


class EncoderConfig(BaseModel):
    """Any subset of the parts is concatenated; an LSTM may run on top."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    words: int = Field(default=100, ge=0, le=4096)
    """Width of word embeddings, 0 for none; 0 by default beside a transformer or ELMo."""
    vectors: str | None = None
    """File of pretrained word vectors: GloVe text (perhaps .gz), word2vec binary (.bin), npz (`words`, `vec`)."""
    characters: int = Field(default=30, ge=0, le=4096)
    """Width of the character CNN, 0 for none; 0 by default beside a transformer or ELMo."""
    lexicon: str | None = None
    """File of words with vectors, as for `vectors`: each token sees the words of it that stand in the sentence."""
    transformer: str | None = None
    """Folder or hub name of a Hugging Face encoder."""
    pooling: Literal["first", "last", "mean", "max", "surest"] = "first"
    """Which word pieces of the transformer stand for a word; `surest`: the one whose best tag is most probable."""
    context: int = Field(default=0, ge=0, le=MAX_CONTEXT)
    """Words on either side of a sentence, from its neighbours in the document, that the transformer sees as well."""
    elmo: str | None = None
    """Folder with the options JSON and the HDF5 weights of a bidirectional language model."""
    lstm_layers: int = Field(default=1, ge=0, le=16)
    """Bidirectional layers on top of the concatenation; 0 by default beside a transformer."""
    lstm_hidden: int = Field(default=200, ge=1, le=8192)
    """Width of the LSTM in each direction."""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """Dropout before and between the LSTM's layers; 0.1 by default beside a transformer."""

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        beside = {k: v for part, defaults in _DEFAULTS_BESIDE.items() if given.get(part) for k, v in defaults.items()}
        if given.get("vectors"):
            beside.pop("words", None)
        return {**beside, **given}

    @model_validator(mode="after")
    def _require_a_part(self) -> EncoderConfig:
        if not (self.words or self.characters or self.lexicon or self.transformer or self.elmo):
            raise ValueError("an encoder needs a part: words, characters, lexicon, transformer or elmo")
        if self.vectors and not self.words:
            raise ValueError("vectors need words: leave `words` out, the file sets the width")
        if self.context and not self.transformer:
            raise ValueError("context needs a transformer: no other part looks at the sentences around")
        others = self.words or self.characters or self.lexicon or self.elmo or self.lstm_layers
        if self.pooling == "surest" and (others or not self.transformer):
            raise ValueError("pooling=surest needs a transformer alone: each piece is scored before one is chosen")
        return self
