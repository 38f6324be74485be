"""A tagger as one ONNX file: the encoder as torch exports it, the CRF behind it, and a description of both inside."""

from __future__ import annotations

import copy
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from maskedcrf import __version__
from maskedcrf.crf.layer import MaskedCRF
from maskedcrf.data.sentence import Sentence
from maskedcrf.encoders.transformer.model import Transformer
from maskedcrf.errors import MaskedCRFError, MissingExtraError
from maskedcrf.evaluation.counts import count
from maskedcrf.files import atomic_file
from maskedcrf.onnx.crf_graph import IR_VERSION, OPSET, append_crf, crf_model
from maskedcrf.onnx.file import KEY, LARGEST, Description
from maskedcrf.onnx.graph_check import digest_rules
from maskedcrf.onnx.layers import SMALL_TABLE, OnnxLSTM, quantize_
from maskedcrf.onnx.tagger import OnnxTagger
from maskedcrf.tagger.folder import require_builtin_scheme
from maskedcrf.tagger.model import TaggerModel
from maskedcrf.tagger.tagger import Tagger

EXAMPLE = tuple(
    Sentence(tuple(words.split())) for words in ("one two three four internationalisation", "five six", "seven")
)
"""Sentences to trace with: no axis of theirs may be 1 long, or it would stay 1."""
AXES = {
    "mask": "BT",
    "words": "BT",
    "characters": "WC",
    "spellings": "BT",
    "lexicon_places": "N",
    "lexicon_words": "N",
    "lexicon_shares": "N",
    "pieces": "RP",
    "piece_mask": "RP",
    "places": "BTK",
    "piece_counts": "BT",
}
"""Inputs and their axes: batch, tokens; words and characters; tokens of a lexicon's words; rows and pieces, and how
many of a word's pieces."""


def export(tagger: Tagger, path: str | Path, *, int8: bool = False) -> Path:
    """Write the tagger as one ONNX file, whole or not at all.

    `int8` stores the encoder's matrices and large tables in 8 bits and multiplies them so; an LSTM, character filters,
    the last layer and the CRF stay as they are. Where there is nothing else, it is refused.
    """
    _require()
    path = Path(path)
    for one in (tagger.scheme, tagger.output_scheme):
        require_builtin_scheme(one, str(path), like=tagger.scheme)
    model = copy.deepcopy(tagger.model).cpu().float().eval()
    if int8 and not quantize_(model.encoder):
        raise MaskedCRFError(
            f"{path}: nothing to store in 8 bits: an LSTM, characters and tables of fewer than {SMALL_TABLE} words "
            "stay as they are; leave --int8 out"
        )
    encoder = _encoder_model(model)
    transitions, start, end = scores_of(model.crf)
    emissions = _output_of(encoder)
    append_crf(encoder, crf_model(transitions, start, end))
    encoder.graph.output.append(emissions)  # for segments by probability, which are not decoded in the graph
    _clean_graph(encoder)
    encoder.metadata_props.add(
        key=KEY,
        value=replace(
            _description(tagger, int8=int8), digest=digest_rules(tagger.tags, (transitions, start, end))
        ).to_json(),
    )
    write_file(encoder, path)
    return path


def scores_of(crf: MaskedCRF) -> list[NDArray[np.float64]]:
    """Transitions, start and end scores, -inf where illegal, unless the mask is off."""
    masked = crf.mask_mode != "off"
    pairs = (
        (crf.transitions, crf.illegal),
        (crf.start_transitions, crf.illegal_start),
        (crf.end_transitions, crf.illegal_end),
    )
    return [scores.detach().double().masked_fill(illegal & masked, -torch.inf).numpy() for scores, illegal in pairs]


def _require() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("export needs ONNX: pip install 'maskedcrf[onnx]'") from error


class _Emissions(nn.Module):
    """Features by position in, emissions out: what the encoder's graph computes."""

    def __init__(self, model: TaggerModel, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *features: Tensor) -> Tensor:
        return self.model.emissions(dict(zip(self.names, features, strict=True)))


def _encoder_model(model: TaggerModel) -> Any:
    """Features -> `emissions` as an ONNX model; batch, length and the rest are dynamic."""
    features = _example(model)
    for part in model.encoder.parts.values():
        if isinstance(part, Transformer):  # torch's fused attention exports as twice as many operators
            part.model.set_attn_implementation("eager")
    if (both := model.encoder.lstm) is not None:
        both.forwards, both.backwards = (
            nn.ModuleList(map(OnnxLSTM, direction)) for direction in (both.forwards, both.backwards)
        )
    dynamic = torch.export.Dim.DYNAMIC
    shapes = tuple({axis: dynamic for axis, size in enumerate(part.shape) if size > 1} for part in features.values())
    with _quiet(), torch.no_grad():
        program = torch.onnx.export(
            _Emissions(model, list(features)),
            tuple(features.values()),
            input_names=list(features),
            output_names=["emissions"],
            dynamic_shapes=(shapes,),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    if proto.ByteSize() >= LARGEST:
        raise MaskedCRFError("the encoder is larger than 2 GiB, the most an ONNX file can hold; use the model folder")
    return proto


def _output_of(encoder: Any) -> Any:
    """The emissions, their axes named."""
    (emissions,) = map(copy.deepcopy, encoder.graph.output)
    for size, axis in zip(emissions.type.tensor_type.shape.dim, "BT", strict=False):
        size.dim_param = axis
    return emissions


def _example(model: TaggerModel) -> dict[str, Tensor]:
    """Features to trace with, and an error for an encoder whose features we cannot make without torch."""
    features = model.encoder.prepare(EXAMPLE)
    features.pop("shapes", None)  # for training only
    if "pieces" in features:
        features.setdefault("piece_mask", torch.ones_like(features["pieces"], dtype=torch.bool))
    if (
        model.encoder.config.pooling not in ("first", "last")
        and features.get("places", torch.ones(1, 1, 2)).shape[2] == 1
    ):
        features["places"] = features["places"].expand(-1, -1, 2).contiguous()
    features |= {name: part.expand(2).contiguous() for name, part in features.items() if part.shape == (1,)}
    foreign = features.keys() - AXES.keys()
    if foreign:
        raise MaskedCRFError("an encoder with ELMo cannot be exported; train one with other parts")
    return features


def _clean_graph(model: Any) -> None:
    """Axes under their names, inputs that nothing reads taken out, and no trace of where the model was made."""
    graph = model.graph
    read = {name for node in graph.node for name in node.input}
    for given in [given for given in graph.input if given.name not in read]:
        graph.input.remove(given)
    for given in graph.input:
        for axis, size in zip(AXES[given.name], given.type.tensor_type.shape.dim, strict=True):
            if not size.dim_value:
                size.dim_param = axis
    del graph.value_info[:]
    del graph.metadata_props[:]
    for node in graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for part in (*graph.input, *graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
    del model.metadata_props[:]
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version = KEY, __version__


def _description(tagger: Tagger, *, int8: bool) -> Description:
    scheme = tagger.scheme
    with tempfile.TemporaryDirectory() as folder:
        tagger.model.encoder.save(Path(folder))
        files = {file.name: file.read_text(encoding="utf-8") for file in sorted(Path(folder).iterdir())}
    return Description(
        version=__version__,
        tags=tagger.tags,
        scheme=scheme.name,
        output_scheme=tagger.output_scheme.name,
        delimiter=scheme.delimiter,
        prefix_last=scheme.prefix_last,
        head=tagger.model.head,
        mask=tagger.mask,
        int8=int8,
        files=files,
        signature=tagger.record.signature,
        first_character=tagger.first_character,
        tokenizer=tagger.tokenizer.to_json(),
        decoding=tagger.decoding,
        segment_threshold=tagger.segment_threshold,
    )


def write_file(model: Any, path: Path) -> None:
    """Write a model whole or not at all."""
    import onnx

    onnx.checker.check_model(model, full_check=False)
    with atomic_file(path) as handle:
        handle.write(model.SerializeToString())


_quieting = Lock()
"""The whole process is quiet: the second of two exports at once would leave it as the first had set it."""


def _renew_lock() -> None:
    global _quieting
    _quieting = Lock()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_renew_lock)  # a thread that held it is not in the child


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporters' notes on their own internals kept off the user's terminal; one export at a time."""
    with _quieting, warnings.catch_warnings():
        disabled = logging.root.manager.disable
        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(disabled)


@dataclass(frozen=True)
class ExportComparison:
    """How an exported file compares with the model it was made from, on the same sentences."""

    sentences: int
    tokens: int
    different_sentences: int
    different_tags: int
    f1_model: float | None
    """In percent, illegal segments retained; None where the sentences have no gold tags."""
    f1_onnx: float | None


def compare_with_export(tagger: Tagger, exported: OnnxTagger, sentences: Sequence[Sentence]) -> ExportComparison:
    """Both taggers' answers to these sentences, counted; F1 where all of them have gold tags, in the output scheme."""
    ours, theirs = ([answer.tags for answer in each.predict(sentences)] for each in (tagger, exported))
    different = [sum(a != b for a, b in zip(one, other, strict=True)) for one, other in zip(ours, theirs, strict=True)]
    gold = [sentence.tags for sentence in sentences if sentence.tags is not None]
    scores: list[float | None] = [None, None]
    if sentences and len(gold) == len(sentences):
        scheme = tagger.output_scheme
        scores = [count(gold, tags, scheme=scheme, strategy="retain").total.f1 for tags in (ours, theirs)]
    return ExportComparison(
        len(sentences), sum(map(len, sentences)), sum(map(bool, different)), sum(different), scores[0], scores[1]
    )
