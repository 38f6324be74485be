"""Settings of a training run: frozen, checked at birth, from TOML and flags, saved with the result.

>>> Settings.of({"scheme": "BIOES", "epochs": 3}).epochs
3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Literal, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from maskedcrf.data.formats import Format
from maskedcrf.data.gold import Policy
from maskedcrf.data.labelled import DataDict
from maskedcrf.data.span_fit import Misfits, Overlaps
from maskedcrf.encoders.config import EncoderConfig, Head
from maskedcrf.errors import MaskedCRFError
from maskedcrf.tags.constraints import MaskMode
from maskedcrf.tags.scheme import Scheme

Precision = Literal["auto", "float32", "bf16", "fp16"]
DecodingSetting = Literal["auto", "path", "segments"]
Schedule = Literal["linear", "constant"]
Model = TypeVar("Model", bound=BaseModel)

OTHER_NAMES = {
    "lr": "head_rate",
    "learning_rate": "head_rate",
    "batch": "batch_sentences",
    "batch_size": "batch_sentences",
    "batch_tokens": "forward_tokens",
    "num_epochs": "epochs",
    "gold": "illegal_gold",
    "average": "ema_decay",
    "start": "encoder_from",
}
"""What others call a setting, and ours."""
SMALL_CORPUS_SENTENCES = 5000
"""Training sets of fewer sentences get twice the epochs by default."""


class SettingsError(MaskedCRFError):
    """A setting that does not exist or does not fit; the message names it."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class OptimSettings(_Frozen):
    """Rates; those left out depend on the encoder."""

    encoder_rate: float | None = Field(default=None, gt=0)
    """Rate of the pretrained encoder's top layer, r_L in the paper; 1e-4 by default."""
    layer_decay: float = Field(default=0.9, gt=0, le=1)
    """Each layer below trains at this times the rate of the one above; eta in the paper."""
    head_rate: float = Field(default=1e-3, gt=0)
    """Rate of everything that is not pretrained: linear layer, LSTM, embeddings."""
    crf_rate: float = Field(default=1e-2, gt=0)
    """Rate of the transition scores."""
    weight_decay: float | None = Field(default=None, ge=0)
    """Decoupled weight decay of matrices (not of biases, norms and transitions); 0.01 with a transformer, else 0."""
    schedule: Schedule | None = None
    """`linear`: up over the warm-up, then down to 0; `constant`: level from the start. Linear with a transformer."""
    warm_up: float = Field(default=0.1, ge=0, lt=1)
    """Share of all steps over which a linear schedule rises."""
    clip: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient; `inf` to leave it alone."""

    def resolved(self, *, pretrained: bool) -> OptimSettings:
        """The same with nothing left open."""
        defaults = {
            "encoder_rate": 1e-4,
            "weight_decay": 0.01 if pretrained else 0.0,
            "schedule": "linear" if pretrained else "constant",
        }
        return self.model_copy(update={k: v for k, v in defaults.items() if getattr(self, k) is None})


class DataSettings(_Frozen):
    """How files are read."""

    format: Format = "auto"
    """Format of the files; `auto` looks at what is in a file, and at what files a folder holds."""
    token_column: int = 0
    """Column of the tokens in a CoNLL file, from 0, or from -1 backwards."""
    tag_column: int = -1
    """Column of the tags."""
    comment: str | None = None
    """Lines that begin so before a sentence are skipped."""
    first_character: bool = False
    """Tokens are the first characters of their column; Weibo's files write a character's place in its word after it."""
    labels: tuple[str, ...] | None = None
    """Names of the tags where a JSONL file has numbers."""
    entity_column: str | None = None
    """Name of the tags' column or layer where a file names its columns: CoNLL-U (`MISC:NER`), WebAnno, CSV."""
    tokenizer: str = "auto"
    """What cuts raw text into words, saved with the model: `unicode`, `simple`, `whitespace`, `characters`, `learned`
    from the tokens, `spacy:LANGUAGE`, or `module:function` of yours; `auto` takes what agrees best with the data."""
    sentences: str = "line"
    """What cuts texts into sentences, saved with the model: `line`, `blank_line`, `spacy:LANGUAGE` or `none`."""
    misfits: Misfits = "error"
    """Spans that begin or end inside a token: `error`, `snap` outwards to whole tokens, or `drop`."""
    overlaps: Overlaps = "error"
    """Spans that share a token: `error`, or keep the `longest` or the `first`."""

    def options(self) -> DataDict:
        """The same as keywords of the readers."""
        return cast(DataDict, self.model_dump())


class Settings(_Frozen):
    """All of a run's settings, with defaults that work."""

    file_scheme: str | None = None
    """Scheme of the files; if left out, the output scheme if given, else the trained one."""
    scheme: str = "BIO"
    """Scheme trained on."""
    output_scheme: str | None = None
    """Scheme of the tags the tagger gives out; that of the files if left out."""
    delimiter: str = Field(default="-", min_length=1)
    """What stands between prefix and type."""
    prefix_last: bool = False
    """True for tags such as LOC-B."""
    illegal_gold: Policy = "error"
    """What to do with gold that its own scheme forbids."""

    head: Head = "crf"
    """`crf`, or `softmax` for an independent choice per token."""
    mask: MaskMode = "train"
    """`train`: MCRF-training, `decode`: MCRF-decoding, `off`: conventional; a softmax head takes `off` or `decode`."""
    dropout: float | None = Field(default=None, ge=0, lt=1)
    """Dropout before the linear layer; the encoder's own if left out."""
    word_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of the words that each training step hides, so that the words around them have to do."""
    adversarial: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Learn each batch a second time with its embeddings moved so far up the gradient of the loss; 0 for never."""
    encoder: EncoderConfig = EncoderConfig()
    """Words to vectors."""
    encoder_from: str | None = None
    """Folder of a saved tagger whose encoder the training begins with: that of a bigger corpus, say."""
    optim: OptimSettings = OptimSettings()
    """Rates and their course."""
    data: DataSettings = DataSettings()
    """How files are read."""

    epochs: int | None = Field(default=None, ge=1)
    """Passes over the data: 10 with a transformer (20 below 5,000 sentences), else 40."""
    minimum_steps: int = Field(default=0, ge=0)
    """Train on until at least this many steps: `epochs = 5, minimum_steps = 10000` is the paper's rule."""
    patience: int | None = Field(default=None, ge=0)
    """Stop after this many epochs with no better F1 or lower loss on dev; 0 never. 8 without a transformer, else 0."""
    batch_sentences: int = Field(default=32, ge=1)
    """Sentences a step."""
    forward_tokens: int = Field(default=16384, ge=1)
    """Tokens (word pieces for a transformer), padding included, in one forward pass; a batch with more is cut."""
    ema_decay: float | None = Field(default=None, gt=0, lt=1)
    """Score and keep a moving average of the weights, of this decay a step, such as 0.999; none if left out."""
    dev_fraction: float = Field(default=0.1, ge=0, lt=1)
    """Share of train kept for dev where no dev is given; 0 for none."""
    split_seed: int = Field(default=0, ge=0)
    """Seed of that split, apart from `seed` so that several seeds train on the same sentences."""

    decoding: DecodingSetting = "auto"
    """How the tagger decodes: best `path`, or `segments` by probability; `auto` is what scores higher on dev."""
    beta: float = Field(default=1.0, gt=0, le=100)
    """In that choice and in that of the threshold, recall counts so many times as much as precision."""

    seed: int = Field(default=1, ge=0, lt=1 << 32)
    """Of weights, order and dropout: on a CPU the same seed gives the same bytes."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`; `auto` is the GPU if there is one."""
    precision: Precision = "auto"
    """Of the encoder: bf16 on a GPU, float32 on a CPU. The CRF is float32 or wider always."""
    checkpoint_steps: int | None = Field(default=None, ge=1)
    """Save a checkpoint every so many steps; once an epoch if left out."""
    tracker: str | None = None
    """A tracker that accelerate offers (tensorboard, wandb, ...), if installed."""

    @model_validator(mode="before")
    @classmethod
    def _softmax_is_unmasked(cls, given: Any) -> Any:
        return {"mask": "off", **given} if isinstance(given, dict) and given.get("head") == "softmax" else given

    @model_validator(mode="before")
    @classmethod
    def _files_are_as_the_output(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("file_scheme") is None and isinstance(given.get("output_scheme"), str):
            return {**given, "file_scheme": given["output_scheme"]}
        return given

    @model_validator(mode="after")
    def _fits_together(self) -> Settings:
        if self.head == "softmax" and self.mask == "train":
            raise ValueError('a softmax head has no paths to mask in training: mask is "off" or "decode"')
        for name in (self.file_scheme, self.scheme, self.output_scheme):
            if name is not None:
                Scheme.get(name)
        return self

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Settings:
        """Checked settings; a wrong one is named in one line, with the nearest right name."""
        return validate(cls, values)

    def scheme_named(self, name: str | None) -> Scheme:
        """One of the three schemes, in the files' way of writing tags."""
        return Scheme.get(name or self.scheme, delimiter=self.delimiter, prefix_last=self.prefix_last)

    def resolved(self, sentences: int) -> Settings:
        """The same with nothing left open, for this many training sentences."""
        pretrained = self.encoder.transformer is not None
        defaults = {
            "file_scheme": self.scheme,
            "output_scheme": self.file_scheme or self.scheme,
            "dropout": self.encoder.dropout,
            "epochs": (20 if sentences < SMALL_CORPUS_SENTENCES else 10) if pretrained else 40,
            "patience": 0 if pretrained else 8,
        }
        update = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        return self.model_copy(update={**update, "optim": self.optim.resolved(pretrained=pretrained)})


def known_names(model: type[BaseModel] = Settings, prefix: str = "") -> Iterator[str]:
    """Every setting's full name, such as `optim.head_rate`."""
    for name, field in model.model_fields.items():
        yield prefix + name
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from known_names(inner, f"{prefix}{name}.")


def validate(model: type[Model], values: Mapping[str, Any]) -> Model:
    """The checked model of these values; a wrong one is named in one line, with the nearest right name."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise SettingsError(_explain(error)) from error


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        names = list(known_names())
        # Keys alone are compared: with its table, a wrong key would be nearest to any other of that table.
        ends = {other.rpartition(".")[2]: other for other in reversed(names)}
        key = name.rpartition(".")[2]
        near = [ends[end] for end in get_close_matches(OTHER_NAMES.get(key, key), ends, n=1, cutoff=0.6)]
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(names)}"
        return f"unknown setting {name}: {hint}"
    message = first["msg"].removeprefix("Value error, ")
    return f"{name or 'settings'}: {message}" + (f", got {first['input']!r}" if first["loc"] else "")
