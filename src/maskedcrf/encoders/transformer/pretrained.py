"""Models and tokenizers from Hugging Face folders, without running anything such a folder brings along."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from maskedcrf.encoders.transformer.tokenizer_file import check_tokenizer
from maskedcrf.encoders.transformer.windows import SpecialTokens
from maskedcrf.errors import DataError, MaskedCRFError, MissingExtraError

POSITIONS = 512
"""Length of a window where neither model nor tokenizer sets a limit."""
_SIZES = {
    "layer": 256,
    "layers": 256,
    "head": 1024,
    "heads": 1024,
    "experts": 1024,
    "_size": 1 << 21,
    "_embeddings": 1 << 21,
    "_dim": 1 << 17,
    "dim": 1 << 17,
}
"""Above these a config is no model but an attack on memory: ending of the key, most."""
_NOT_NEEDED = frozenset(("num_labels", "id2label", "label2id", "chunk_size_feed_forward"))
_NOT_NEEDED |= {"output_attentions", "output_hidden_states", "return_dict"}
"""Keys that an encoder does without: tables as large as they say, other forms of its output, parts of a computation."""
_VOCABULARIES = ("tokenizer.json", "vocab.*", "*.model", "*vocabulary*")
"""Files one of which a folder's tokenizer is made of; without any, transformers makes up an empty one."""
_ATTEND_TO_ALL = frozenset(("albert", "bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta"))
"""Model types whose every layer attends to every piece, so that one mask over pieces says all."""


class Pretrained(NamedTuple):
    """What a Hugging Face folder holds, as far as an encoder needs it."""

    model: Any
    tokenizer: Any
    frame: SpecialTokens
    unknown: int
    """The piece of a word that has none."""
    longest: int
    """Pieces in the longest input the tokenizer allows."""


def load_pretrained(name: str) -> Pretrained:
    """Model and tokenizer of a folder or hub name; nothing in it is run."""
    raw = raw_config(name)
    with one_line_errors(name):
        config = checked_config(raw, name)
    model, info = load_weights(name, config)
    without_pooler(model)
    check_weights(model, info["missing_keys"], name)
    return Pretrained(model, *load_tokenizer(name, model))


def raw_config(name: str) -> dict[str, Any]:
    """The config.json of a folder or hub name, as it stands there."""
    transformers = _transformers()
    here = Path(name).is_dir()
    if here and not (Path(name) / "config.json").is_file():
        raise DataError(f"{name}: no config.json in this folder, so no Hugging Face model")
    if not here and not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name):
        raise DataError(f"{name}: neither a folder here nor the name of a model on the hub; check the spelling")
    with one_line_errors(name), silence_transformers(transformers):
        raw = transformers.PreTrainedConfig.get_config_dict(name)[0]
    if not isinstance(raw, dict):
        raise DataError(f"{name}: config.json is no table of settings; fetch the model again")
    return raw


def load_weights(name: str, config: Any, *, kind: str = "AutoModel", **options: Any) -> tuple[Any, dict[str, Any]]:
    """The model of this config from safetensors, in float32, and what transformers says of its weights."""
    transformers = _transformers()
    if (Path(name) / "adapter_config.json").is_file():
        raise DataError(
            f"{name}: adapter_config.json asks for weights of another model; merge it in and save the whole"
        )
    with one_line_errors(name), silence_transformers(transformers):
        model, info = getattr(transformers, kind).from_pretrained(
            name,
            config=config,
            dtype=torch.float32,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            **options,
        )
    return model, info


def load_tokenizer(name: str, model: Any) -> tuple[Any, SpecialTokens, int, int]:
    """Tokenizer, frame, unknown piece and longest input."""
    transformers = _transformers()
    if Path(name).is_dir() and not any(any(Path(name).glob(pattern)) for pattern in _VOCABULARIES):
        raise DataError(f"{name}: cannot be loaded: no tokenizer.json; save the model's tokenizer beside it")
    with one_line_errors(name), silence_transformers(transformers):
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, config=model.config, trust_remote_code=False)
    if not getattr(tokenizer, "is_fast", False):
        raise DataError(f"{name}: {type(tokenizer).__name__} is a slow tokenizer; give a model with a tokenizer.json")
    pad = next(n for n in (tokenizer.pad_token_id, model.config.pad_token_id, 0) if n is not None)
    unknown = next(n for n in (tokenizer.unk_token_id, tokenizer.mask_token_id, pad) if n is not None)
    plain = plain_tokenizer(tokenizer.backend_tokenizer, name)
    return plain, _frame(plain, pad), unknown, min(tokenizer.model_max_length, 1 << 20)


def model_from_config(raw: dict[str, Any], where: str, *, token_head: bool = False) -> Any:
    """A model of a saved config with weights yet to come; `token_head` as `add_token_head` has it."""
    transformers = _transformers()
    with one_line_errors(where), silence_transformers(transformers):
        config = checked_config(raw, where)
        model = transformers.AutoModel.from_config(config, dtype=torch.float32)
        if token_head:
            classifier = transformers.AutoModelForTokenClassification.from_config(config, dtype=torch.float32)
            add_token_head(model, classifier.head)
    return without_pooler(model)


def add_token_head(model: Any, head: nn.Module) -> None:
    """Make the layer between a classifier's encoder and its last one (ModernBERT has one) part of the encoder."""
    model.token_head = head


def checked_config(raw: dict[str, Any], where: str) -> Any:
    """The config of a model type that transformers itself knows; keys that could name code are left out."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind = raw.get("model_type")
    if "auto_map" in raw:
        raise DataError(f"{where}:1: the model brings its own code (auto_map), which is never run; give one without")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise DataError(f"{where}:1: unknown model type {kind!r:.60}; transformers must know it without foreign code")
    if raw.get("is_encoder_decoder") or "quantization_config" in raw:
        raise DataError(f"{where}:1: a plain encoder is needed, neither encoder-decoder nor quantised")
    _refuse_sizes(raw, where)
    config = CONFIG_MAPPING[kind].from_dict(
        {k: v for k, v in _without_private_keys(raw).items() if k not in _NOT_NEEDED}
    )
    _require_full_attention(config, where)
    return config


def _require_full_attention(config: Any, where: str) -> None:
    """Refuse BigBird's sparse attention, which it leaves for good once it has read a short text."""
    if getattr(config, "attention_type", None) == "block_sparse":
        raise DataError(
            f"{where}:1: attention_type block_sparse scores a text by how long the ones before it were; write "
            "original_full in config.json"
        )


def _refuse_sizes(raw: dict[str, Any], where: str) -> None:
    """Numbers that no model has: too large, below none, or no numbers at all."""
    for key, value in raw.items():
        most = next((most for ending, most in _SIZES.items() if key.endswith(ending)), None)
        if most is not None and isinstance(value, int | float) and value > most:
            raise DataError(f"{where}:1: {key} is {value}, more than {most}")
        if key.endswith("heads") and isinstance(value, int | float) and value < 0:
            raise DataError(f"{where}:1: {key} is {value}, less than none")
        if isinstance(value, float) and not math.isfinite(value):
            raise DataError(f"{where}:1: {key} is {value}, which is no number")


def is_whole_model(model: Any) -> bool:
    """Whether its config alone builds it again, as loading a saved tagger does."""
    built = _transformers().MODEL_MAPPING[type(model.config)]
    return type(model) in (built if isinstance(built, tuple) else (built,))


def _without_private_keys(raw: Any) -> Any:
    """Without private keys, at any depth: one of them once made transformers fetch and run code."""
    if isinstance(raw, list):
        return [_without_private_keys(value) for value in raw]
    if not isinstance(raw, dict):
        return raw
    return {
        k: _without_private_keys(v) for k, v in raw.items() if not k.startswith("_") and "attn_implementation" not in k
    }


def plain_config(model: Any) -> dict[str, Any]:
    """The config of a model as JSON keeps it."""
    cleaned: dict[str, Any] = _without_private_keys(json.loads(model.config.to_json_string(use_diff=False)))
    cleaned.pop("dtype", None)
    return cleaned


def plain_tokenizer(tokenizer: Any, where: str) -> Any:
    """The tokenizer without truncation and padding, which would lose words, and with a blank before each word."""
    return _plain(check_tokenizer(tokenizer.to_str().encode(), where))


def tokenizer_from(content: bytes, where: str) -> Any:
    """The tokenizer of a saved tokenizer.json."""
    _transformers()
    checked = check_tokenizer(content, where)
    with one_line_errors(where):
        return _plain(checked)


def _plain(parsed: dict[str, Any]) -> Any:
    """What was checked is what is built, whatever else a library could read in the same file."""
    from tokenizers import Tokenizer

    parsed |= {"truncation": None, "padding": None}
    cutter = parsed.get("pre_tokenizer") or {}
    for step in (cutter, *cutter.get("pretokenizers", ())):
        if step.get("type") == "ByteLevel":
            step["add_prefix_space"] = True
    return Tokenizer.from_str(json.dumps(parsed))


def _frame(tokenizer: Any, pad: int) -> SpecialTokens:
    """The special pieces around a sentence, read off an example."""
    example = tokenizer.encode(["a"], is_pretokenized=True, add_special_tokens=True)
    inner = len(tokenizer.encode(["a"], is_pretokenized=True, add_special_tokens=False).ids)
    special = example.special_tokens_mask
    before = special.index(0) if 0 in special else len(special) - inner
    return SpecialTokens(tuple(example.ids[:before]), tuple(example.ids[before + inner :]), pad)


def positions(model: Any) -> int:
    """How many pieces the model can take at once; RoBERTa's table keeps the rows up to its padding free."""
    table = next((m for n, m in model.named_modules() if n.endswith("position_embeddings")), None)
    if isinstance(table, nn.Embedding):
        return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    limit = getattr(model.config, "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else POSITIONS


def expand_attention_mask(model: Any, mask: Tensor) -> Tensor:
    """The mask (R, P) as (R, 1, 1, P), which is taken as it is, where it means the same to the model."""
    config = model.config
    return (
        mask[:, None, None] if config.model_type in _ATTEND_TO_ALL and config._attn_implementation == "sdpa" else mask
    )


def layers(model: Any) -> list[list[nn.Parameter]]:
    """Parameters by layer: embeddings, then each layer; what stands above the last layer goes with it."""
    count = getattr(model.config, "num_hidden_layers", 0)
    named = [(n, m) for n, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m) == count]
    if not named:
        return [list(model.parameters())]
    name, stack = named[0]
    by_layer = [list(layer.parameters()) for layer in stack]
    others = [(n, p) for n, p in model.named_parameters() if not n.startswith(name + ".")]
    below = [p for n, p in others if "embed" in n]
    by_layer[-1] += [p for n, p in others if "embed" not in n]
    return [below, *by_layer]


def without_pooler(model: Any) -> Any:
    """The model without the layer that makes one vector of a whole text: unused, so it would never be trained."""
    if isinstance(getattr(model, "pooler", None), nn.Module):
        model.pooler = None
    return model


def check_weights(model: Any, missing: set[str], where: str) -> None:
    """Refuse a model of which weights are missing, which transformers draws at random, or broken."""
    absent = sorted(key for key in missing if "pooler" not in key)
    if absent:
        raise DataError(
            f"{where}: {len(absent)} weights are missing or of another shape, {absent[0]} first: not a checkpoint of "
            "this model; fetch it again"
        )
    broken = next((n for n, p in model.named_parameters() if not torch.isfinite(p).all()), None)
    if broken:
        raise DataError(f"{where}: weight {broken} holds NaN or infinity; give another checkpoint")


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError("this encoder needs transformers: pip install 'maskedcrf[transformers]'") from error
    return transformers


@contextmanager
def one_line_errors(where: str, remedy: str = "fetch it again, or save it anew with save_pretrained") -> Iterator[None]:
    """Whatever transformers and tokenizers raise on a broken folder, said in one line with what to do about it."""
    try:
        yield
    except MaskedCRFError:
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
        reason = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
        advice = f"; {remedy}" if Path(where).is_dir() else ""
        raise DataError(f"{where}: cannot be loaded: {reason:.300}{advice}") from error


@contextmanager
def silence_transformers(transformers: Any) -> Iterator[None]:
    """No progress bars and notes of transformers on the terminal; ours say what matters."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
