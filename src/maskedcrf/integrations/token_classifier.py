"""A Hugging Face token classifier as a Tagger: the same scores, legal paths, nothing trained.

Any architecture whose head is dropout and a linear layer over an encoder that transformers knows. Weights come from
safetensors alone, and nothing of the folder is run. Each word is scored by one of its pieces, or their mean.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from maskedcrf.data.sentence import Sentence
from maskedcrf.data.tokenizers import MODEL, get_tokenizer
from maskedcrf.encoders.config import EncoderConfig
from maskedcrf.encoders.encoder import Encoder
from maskedcrf.encoders.features import WordPieces
from maskedcrf.encoders.transformer import pretrained
from maskedcrf.encoders.transformer.model import Transformer
from maskedcrf.errors import ConstraintError, DataError
from maskedcrf.tagger.folder import TrainingRecord
from maskedcrf.tagger.model import TaggerModel, take_surest
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.constraints import Constraints
from maskedcrf.tags.label_file import labels_of_config
from maskedcrf.tags.labels import BIO_NOTE, MAX_LABELS, Labels
from maskedcrf.tags.scheme import Scheme

logger = logging.getLogger(__name__)

Words = Literal["first", "last", "mean", "max"]
"""Which pieces of a word score it."""
ENDING = "ForTokenClassification"
TOLERANCE = 1e-4
"""By which our scores may differ from those of transformers."""
_PICKLES = frozenset((".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5", ".msgpack"))
_TRIAL = Sentence(("A", "tried", "Example", ",", "in", "2", "windows-"))
_LONGER_TRIAL = Sentence(_TRIAL.tokens * 2)


class _Head(NamedTuple):
    """What stands on a classifier's encoder."""

    linear: nn.Linear
    between: nn.Module | None
    dropout: float


def from_token_classifier(
    name: str | Path,
    *,
    labels: Labels | None = None,
    scheme: str | Scheme = "auto",
    words: Words = "first",
    transitions: Mapping[str, ArrayLike] | ArrayLike | None = None,
) -> Tagger:
    """The token classifier of a folder or hub name, its paths legal from now on.

    Args:
        name: a folder that `save_pretrained` wrote, or a name on the hub.
        labels: the label of each column, where the configuration has none or wrong ones.
        scheme: the labels' scheme; "auto" reads it off their prefixes.
        words: which pieces of a word score it: its first, its last, the mean of all, or the one that is surest of its
            best tag (max), as the aggregation strategies of transformers' pipeline do.
        transitions: scores [from, to] in the order of the columns, of a classifier that has a CRF already; or a table
            with `transitions`, `start` and `end`. Without them only the mask decides between paths.
    """
    where = str(name)
    raw = pretrained.raw_config(where)
    _require_token_classifier(where, raw)
    try:
        given = labels if labels is not None else labels_of_config(raw)
        rules = Constraints.from_labels(given, scheme)
        model, columns = _load(where, raw, rules, named=labels is not None)
        if columns != len(rules):
            rules = Constraints.from_labels(given, scheme, columns=columns)
    except ConstraintError as error:
        option = " (maskedcrf adopt --labels FILE)" * ("labels=" in str(error))
        raise DataError(f"{where}: {error}{option}") from error
    head = _head_of(where, model)
    # Some ask for more than pieces: where words stand on a page, say.
    with pretrained.one_line_errors(where, "only an encoder that reads word pieces alone can be adopted"):
        tagger = _build(where, model, head, rules, words)
        _require_same_scores(where, model, tagger, rules)
    if transitions is not None:
        set_transitions(tagger.model, rules, transitions, where)
    _tell_unusual(where, rules)
    return tagger


def _tell_unusual(where: str, rules: Constraints) -> None:
    """Log what its labels were taken for where that is more than begin and inside of types."""
    assert rules.report is not None, "rules read from labels have a report"
    notes = [note for note in rules.report.notes if note != BIO_NOTE]
    if notes:
        logger.warning("maskedcrf: %s: labels read as %s: %s", where, rules.report.scheme, "; ".join(notes))


def is_token_classifier(raw: Mapping[str, Any]) -> bool:
    """Whether a config.json is that of a plain token classifier."""
    return any(name.endswith(ENDING) for name in _architectures(raw))


def _architectures(raw: Mapping[str, Any]) -> list[str]:
    names = raw.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _require_token_classifier(where: str, raw: Mapping[str, Any]) -> None:
    if "format" in raw and "model_type" not in raw:
        raise DataError(f"{where}: a model folder of maskedcrf, legal already; every command and Tagger.load take it")
    if not is_token_classifier(raw):
        found = ", ".join(_architectures(raw)) or "no architecture"
        raise DataError(
            f"{where}: {found}, not a token classifier; train a tagger with it: maskedcrf train --encoder.transformer"
        )
    folder = Path(where)
    if folder.is_dir() and not any(folder.glob("*.safetensors")):
        pickles = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLES)
        found = f"only {pickles[0]}, which can run code and is never read" if pickles else "no weights"
        raise DataError(f"{where}: {found}; save the model with save_pretrained(folder, safe_serialization=True)")


def _load(where: str, raw: Mapping[str, Any], rules: Constraints, *, named: bool) -> tuple[Any, int]:
    """The classifier with weights for all of its columns, and how many those are."""

    def load(columns: int) -> tuple[Any, dict[str, Any]]:
        with pretrained.one_line_errors(where):
            config = pretrained.checked_config(dict(raw), where)
            config.num_labels = columns
        kind = "AutoModelForTokenClassification"
        return pretrained.load_weights(where, config, kind=kind, ignore_mismatched_sizes=True)

    columns = len(rules)
    model, info = load(columns)
    other = {key: tuple(found) for key, found, _ in info["mismatched_keys"]}
    axes = {"classifier.weight": 2, "classifier.bias": 1, "score.weight": 2, "score.bias": 1}
    heads = {shape[0] for key, shape in other.items() if len(shape) == axes.get(key)}
    if len(heads) == 1 and columns not in heads:
        (head,) = heads
        if not named or not columns <= head <= MAX_LABELS:
            raise DataError(
                f"{where}: the head has {head} columns for {columns} labels; give labels= with {head} names"
            )
        columns = head
        model, info = load(columns)
    pretrained.check_weights(model, {*info["missing_keys"], *(key for key, *_ in info["mismatched_keys"])}, where)
    if type(model).__name__ not in raw["architectures"]:
        _require_no_more_parts(where, raw, info["unexpected_keys"])
    return model, columns


def _require_no_more_parts(where: str, raw: Mapping[str, Any], unexpected: Iterable[str]) -> None:
    """Refuse a class of somebody's own whose weights say that it does more than transformers would."""
    parts = sorted(key for key in unexpected if "pooler" not in key and not key.endswith("position_ids"))
    if parts:
        raise DataError(
            f"{where}: {raw['architectures'][0]} has weight {parts[0]}, which no plain token classifier has; save one "
            "without it, and give a CRF's scores as transitions="
        )


def _head_of(where: str, model: Any) -> _Head:
    """The parts on top of the encoder: dropout and a linear layer, perhaps one layer before them."""
    parts = {name: part for name, part in model.named_children() if name != model.base_model_prefix}
    dropouts = [parts.pop(name).p for name, part in list(parts.items()) if isinstance(part, nn.Dropout)]
    linear = parts.pop("classifier", None) or parts.pop("score", None)
    between = parts.pop("head", None)
    if parts or not isinstance(linear, nn.Linear) or len(dropouts) > 1:
        kind = ", ".join(type(part).__name__ for part in (*parts.values(), linear) if part is not None) or "nothing"
        raise DataError(f"{where}: its head is {kind}; only dropout and one linear layer can be adopted")
    return _Head(linear, between, dropouts[0] if dropouts else 0.0)


def _build(where: str, model: Any, head: _Head, rules: Constraints, words: Words) -> Tagger:
    encoder = pretrained.without_pooler(model.base_model)
    if not pretrained.is_whole_model(encoder):
        raise DataError(f"{where}: {type(encoder).__name__} is half of an encoder-decoder; give a plain encoder")
    if head.between is not None:
        pretrained.add_token_head(encoder, head.between)
    tokenizer, frame, unknown, longest = pretrained.load_tokenizer(where, encoder)
    positions = min(longest, pretrained.positions(encoder))
    config = EncoderConfig(transformer=where, pooling="surest" if words == "max" else words)
    pieces = WordPieces(tokenizer, frame, unknown=unknown, positions=positions, pooling=config.pooling)
    part = Transformer(encoder, pieces)
    part.require_matching(where)
    report = rules.report
    assert report is not None, "rules read from labels have a report"
    kept = list(report.columns)
    with torch.random.fork_rng(devices=[]):
        own = TaggerModel(
            Encoder(config, {"transformer": part}),
            Constraints.from_scheme([rules.tags[column] for column in kept], rules.scheme or report.scheme),
            head="softmax",
            mask="decode",
            dropout=head.dropout,
        )
    own.use_tokenizer(get_tokenizer(MODEL))
    with torch.no_grad():
        own.linear.weight.copy_(head.linear.weight[kept])
        own.linear.bias.copy_(torch.zeros(()) if head.linear.bias is None else head.linear.bias[kept])
    record = TrainingRecord(
        settings={"adopted": {"from": Path(where).name, "words": words, "labels": report.to_json()}}
    )
    return Tagger(own.eval(), record=record)


def set_transitions(
    model: TaggerModel, rules: Constraints, transitions: Mapping[str, ArrayLike] | ArrayLike, where: str
) -> None:
    """Give the tagger the transition scores that a classifier came with, in the order of its columns."""
    assert rules.report is not None, "rules read from labels have a report"
    given = dict(transitions) if isinstance(transitions, Mapping) else {"transitions": transitions}
    kept, columns = list(rules.report.columns), len(rules)
    targets = {
        "transitions": (model.crf.transitions, (columns, columns)),
        "start": (model.crf.start_transitions, (columns,)),
        "end": (model.crf.end_transitions, (columns,)),
    }
    if "transitions" not in given or given.keys() - targets.keys():
        raise DataError(f"{where}: transitions are an array, or a table with transitions, start and end")
    for name, scores in given.items():
        target, shape = targets[name]
        values = np.asarray(scores, dtype=np.float64)
        if values.shape != shape:
            raise DataError(f"{where}: {name} must be {shape} for {columns} columns, got {values.shape}")
        chosen = torch.from_numpy(values[np.ix_(*[kept] * values.ndim)])
        allowed = torch.from_numpy(getattr(model.crf.constraints, {"transitions": "legal"}.get(name, name)).copy())
        if not chosen[allowed].isfinite().all():
            raise DataError(f"{where}: {name} has scores of legal steps that are not finite; give numbers")
        with torch.no_grad():
            target.copy_(torch.where(allowed, chosen, 0.0))
    model.head = "crf"


@torch.inference_mode()
def _require_same_scores(where: str, classifier: Any, tagger: Tagger, rules: Constraints) -> None:
    """Refuse a classifier whose scores are not our linear layer's, alone and beside a longer sentence."""
    assert rules.report is not None, "rules read from labels have a report"
    alone, padded = (tagger.model.encoder.prepare(rows) for rows in ([_TRIAL], [_TRIAL, _LONGER_TRIAL]))
    classifier.eval()
    logits = classifier(input_ids=alone["pieces"], attention_mask=alone.get("piece_mask")).logits
    at = logits.flatten(0, 1)[alone["places"]][..., list(rules.report.columns)]
    expected = _pool_pieces(at, alone)
    for features, reason in (
        (alone, "differ from a linear layer's over its encoder"),
        (padded, "change with the padding of a batch"),
    ):
        own = tagger.model.emissions(features)[:1, : len(_TRIAL)]
        if not torch.allclose(own, expected, atol=TOLERANCE, rtol=TOLERANCE):
            gap = float((own - expected).abs().max())
            raise DataError(f"{where}: its scores {reason} by {gap:.2g}; it cannot be adopted")


def _pool_pieces(scores: Tensor, features: Mapping[str, Tensor]) -> Tensor:
    """(B, T, K, D) -> (B, T, D): the one piece, the mean of those that are there, or the surest of them."""
    if "piece_counts" not in features:
        return scores[:, :, 0] if scores.shape[2] == 1 else take_surest(scores)
    counts = features["piece_counts"][..., None]
    real = torch.arange(scores.shape[2]) < counts
    return torch.where(real[..., None], scores, 0).sum(dim=2) / counts.clamp(min=1)
