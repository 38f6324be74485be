"""The tagger in Hugging Face's form: a configuration and a PreTrainedModel, made from a Tagger or trained afresh.

`MaskedCRFForTokenClassification.from_pretrained(folder)` gives the model back that `save_pretrained` wrote.
Word pieces that no label stands on (-100: special pieces, all but the first piece of a word) are not in the lattice.
"""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizers import get_tokenizer
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import build_encoder
from maskedcrf.encoders.transformer.pretrained import (
    check_weights,
    model_from_config,
    one_line_errors,
    silence_transformers,
)
from maskedcrf.errors import MaskedCRFError, MissingExtraError, ModelFolderError
from maskedcrf.tagger.folder import read_json, require_builtin_scheme
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.options import DEFAULT_THRESHOLD, Decoding
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.scheme import Scheme

try:
    transformers: Any = import_module("transformers")
except ImportError as missing:
    raise MissingExtraError("this form needs transformers: pip install 'maskedcrf[transformers]'") from missing

if TYPE_CHECKING:
    from maskedcrf.tagger.tagger import Tagger


class MaskedCRFConfig(transformers.PreTrainedConfig):  # type: ignore[misc]
    """The encoder's own configuration, the tags, and the rules over them."""

    model_type = "maskedcrf"

    def __init__(
        self,
        encoder: dict[str, Any] | None = None,
        tags: list[str] | None = None,
        scheme: str = "BIO",
        mask: str = "train",
        delimiter: str = "-",
        prefix_last: bool = False,
        classifier_dropout: float = 0.1,
        output_scheme: str | None = None,
        context: int = 0,
        word_tokenizer: dict[str, Any] | None = None,
        decoding: Decoding = "path",
        segment_threshold: float = DEFAULT_THRESHOLD,
        **rest: Any,
    ) -> None:
        # Neither may name code: a private key or an implementation once made transformers fetch and run a kernel.
        rest = {k: v for k, v in rest.items() if not k.startswith("_") and "_implementation" not in k}
        self.encoder = encoder or {"model_type": "bert"}
        self.tags = list(tags or ["O", "B-X", "I-X"])
        self.scheme, self.mask, self.delimiter, self.prefix_last = scheme, mask, delimiter, prefix_last
        self.classifier_dropout = classifier_dropout
        # What a tagger made from this model does besides: the scheme it answers in, the words around it looks at.
        self.output_scheme, self.context = output_scheme or scheme, context
        self.word_tokenizer = word_tokenizer
        self.decoding, self.segment_threshold = decoding, segment_threshold
        rest["id2label"] = dict(enumerate(self.tags))
        rest["label2id"] = {tag: number for number, tag in enumerate(self.tags)}
        super().__init__(**rest)

    def constraints(self) -> Constraints:
        """The legal paths over the tags."""
        return Constraints.from_scheme(self.tags, self.written(self.scheme))

    def written(self, scheme: str) -> Scheme:
        """The scheme of this name, as these tags are written."""
        return Scheme.get(scheme, delimiter=self.delimiter, prefix_last=self.prefix_last)


class MaskedCRFForTokenClassification(transformers.PreTrainedModel):  # type: ignore[misc]
    """A Hugging Face encoder with a masked CRF on top."""

    config_class = MaskedCRFConfig
    base_model_prefix = "encoder"

    def __init__(self, config: MaskedCRFConfig) -> None:
        super().__init__(config)
        raw = json.loads(json.dumps(config.encoder))  # as a file has it: to_dict() has numbers among its keys
        # from_pretrained(dtype=...) asks by the default dtype; a model_from_config is float32 whatever is asked.
        self.encoder = model_from_config(raw, "config.json").to(torch.get_default_dtype())
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.linear = nn.Linear(self.encoder.config.hidden_size, len(config.tags))
        self.crf = MaskedCRF(config.constraints(), mask=config.mask)  # type: ignore[arg-type]
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Draw the weights that a checkpoint lacks; write the rules, which no checkpoint holds."""
        if isinstance(module, MaskedCRF):
            module.reset_rule_buffers()
        loaded = any(getattr(parameter, "_is_hf_initialized", False) for parameter in module.parameters(recurse=False))
        if isinstance(module, nn.Linear | MaskedCRF) and not loaded:
            module.reset_parameters()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        return_dict: bool | None = None,
        **inputs: Any,
    ) -> Any:
        """Emissions of every piece (B, P, D); with `labels` (B, P) also the mean loss of the sentences."""
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **inputs).last_hidden_state
        emissions = self.linear(self.dropout(hidden)).float()
        loss = None if labels is None else self.crf(emissions, labels, labels != -100)
        if return_dict is False:
            return (emissions,) if loss is None else (loss, emissions)
        return transformers.modeling_outputs.TokenClassifierOutput(loss=loss, logits=emissions)

    @torch.inference_mode()
    def decode(self, logits: Tensor, mask: Tensor) -> list[list[int]]:
        """A legal path over the pieces where `mask` (B, P) is on, the first of each word: as `config.decoding` says."""
        if self.config.decoding == "path":
            return self.crf.decode(logits, mask)
        return [each.tags for each in self.crf.decode_segments(logits, mask, self.config.segment_threshold)]


transformers.AutoConfig.register("maskedcrf", MaskedCRFConfig)
transformers.AutoModelForTokenClassification.register(MaskedCRFConfig, MaskedCRFForTokenClassification)


def to_huggingface(tagger: Tagger) -> tuple[MaskedCRFForTokenClassification, Any]:
    """The same tagger as a PreTrainedModel with its tokenizer; its encoder must be a transformer alone."""
    model = tagger.model
    part = _transformer(tagger)
    for one in (tagger.scheme, tagger.output_scheme):
        require_builtin_scheme(one, "config.json", like=tagger.scheme)
    config = MaskedCRFConfig(
        encoder=part.model.config.to_dict(),
        tags=list(tagger.tags),
        scheme=tagger.scheme.name,
        mask=tagger.mask,
        delimiter=tagger.scheme.delimiter,
        prefix_last=tagger.scheme.prefix_last,
        classifier_dropout=model.dropout.p,
        output_scheme=tagger.output_scheme.name,
        context=model.encoder.config.context,
        word_tokenizer=model.tokenizer.to_json(),
        decoding=tagger.decoding,
        segment_threshold=tagger.segment_threshold,
    )
    other = MaskedCRFForTokenClassification(config)
    pieces = {"encoder": part.model, "linear": model.linear, "crf": model.crf}
    for name, source in pieces.items():
        getattr(other, name).load_state_dict(source.state_dict())
    ids = {"pad_token": part.words.frame.pad, "unk_token": part.words.unknown}
    special = {name: part.words.tokenizer.id_to_token(number) for name, number in ids.items()}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=part.words.tokenizer, model_max_length=part.words.positions, **special
    )
    return other.eval(), tokenizer


def from_huggingface(directory: str | Path) -> Tagger:
    """The tagger of a folder that `save_pretrained` wrote, model and tokenizer."""
    from maskedcrf.tagger.tagger import Tagger

    if not (Path(directory) / "config.json").exists():
        raise MaskedCRFError(
            f"{directory}: no config.json; give a folder of save_pretrained (Tagger.load reads its own)"
        )
    other = _whole(Path(directory))
    with TemporaryDirectory() as aside, one_line_errors(str(directory)):
        other.encoder.save_pretrained(aside)
        transformers.PreTrainedTokenizerFast.from_pretrained(directory).save_pretrained(aside)
        encoder = build_encoder(EncoderConfig(transformer=aside, context=other.config.context), [Sentence(("a",))])
    encoder.config = encoder.config.model_copy(update={"transformer": str(directory)})
    config = other.config
    model = TaggerModel(encoder, config.constraints(), mask=config.mask, dropout=config.classifier_dropout)
    model.use_tokenizer(get_tokenizer(config.word_tokenizer or "simple", trusted=False))
    model.linear.load_state_dict(other.linear.state_dict())
    model.crf.load_state_dict(other.crf.state_dict())
    tagger = Tagger(model.eval(), output_scheme=config.written(config.output_scheme))
    tagger.decoding, tagger.segment_threshold = config.decoding, config.segment_threshold
    tagger.threshold_for()  # refuses what is no decoding
    return tagger


def _whole(directory: Path) -> MaskedCRFForTokenClassification:
    """The model of a folder that holds all of it; transformers alone would draw at random what is not there."""
    config = read_json(directory / "config.json")
    kind = config.get("model_type", "unknown") if isinstance(config, dict) else "unknown"
    if kind != MaskedCRFConfig.model_type:
        raise ModelFolderError(
            f"{directory}: a model of type {kind}, not one that Tagger.save_pretrained wrote; "
            "train a tagger with it as encoder, or give Tagger.load a folder of Tagger.save"
        )
    with one_line_errors(str(directory)), silence_transformers(transformers):
        model, info = MaskedCRFForTokenClassification.from_pretrained(
            directory, use_safetensors=True, output_loading_info=True, ignore_mismatched_sizes=True
        )
    check_weights(model, {*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])}, str(directory))
    assert isinstance(model, MaskedCRFForTokenClassification)
    return model


def _transformer(tagger: Tagger) -> Any:
    parts = tagger.model.encoder.parts
    if set(parts.keys()) != {"transformer"} or tagger.model.encoder.lstm is not None:
        raise MaskedCRFError(
            "only a tagger whose encoder is a transformer alone has a Hugging Face form; save others with Tagger.save"
        )
    part: Any = parts["transformer"]
    if part.words.pooling != "first":
        raise MaskedCRFError(
            f"the Hugging Face form labels first pieces, this encoder pools by {part.words.pooling}; use Tagger.save"
        )
    return part
