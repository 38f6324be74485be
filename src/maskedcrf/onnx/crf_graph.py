"""The masked CRF as an ONNX graph: emissions and mask in, best legal path and its log-probability out.

The lattice has one state more than there are tags, `begin`: each row stands there until its first labelled
position and can never come back, so holes, left padding and empty rows need no case of their own. Scores are
float64 and illegal ones -inf, so no finite emission outweighs a rule. The same path space as `crf.reference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

OPSET, IR_VERSION = 20, 10
INPUTS, OUTPUTS, PREFIX = ("emissions", "mask"), ("tags", "log_probability"), "crf."
"""Names at the border stay, those inside get a prefix, so that they cannot meet a name of the encoder's."""

_GRAPH = """
<ir_version: 10, opset_import: ["" : 20]>
crf (float[B, T, D] emissions, bool[B, T] mask) => (int64[B, T] tags, float[B] log_probability)
{
    wide = Cast <to = 11> (emissions)
    labelled = Unsqueeze (mask, last_axis)
    read = Where (labelled, wide, zero)
    scores = Pad (read, one_state_more, zero)
    batch = Shape <start = 0, end = 1> (mask)
    batch_by_states = Concat <axis = 0> (batch, states)
    first = Expand (begin, batch_by_states)
    best, mass, pointers = Scan <num_scan_inputs = 2, scan_input_axes = [1, 1], body = forwards (
        double[B, S] best_before, double[B, S] mass_before, double[B, S] score, bool[B] on
    ) => (double[B, S] best_after, double[B, S] mass_after, int64[B, S] pointer) {
        best_from = Unsqueeze (best_before, middle_axis)
        candidates = Add (best_from, steps)
        highest = ReduceMax <keepdims = 0> (candidates, last_axis)
        predecessor = ArgMax <axis = 2, keepdims = 0> (candidates)
        best_here = Add (highest, score)
        mass_from = Unsqueeze (mass_before, middle_axis)
        ways = Add (mass_from, steps)
        total = ReduceLogSumExp <keepdims = 0> (ways, last_axis)
        mass_here = Add (total, score)
        moves = Unsqueeze (on, middle_axis)
        best_after = Where (moves, best_here, best_before)
        mass_after = Where (moves, mass_here, mass_before)
        pointer = Where (moves, predecessor, stay)
    }> (first, first, scores, mask)
    best_ended = Add (best, end)
    mass_ended = Add (mass, end)
    path_score = ReduceMax <keepdims = 0> (best_ended, middle_axis)
    log_partition = ReduceLogSumExp <keepdims = 0> (mass_ended, middle_axis)
    last_tag = ArgMax <axis = 1> (best_ended)
    begun, path = Scan <num_scan_inputs = 1, scan_input_directions = [1], scan_output_directions = [1],
                        scan_output_axes = [1], body = backwards (
        int64[B, 1] tag, int64[B, S] pointer_here
    ) => (int64[B, 1] tag_before, int64[B] tag_here) {
        tag_before = GatherElements <axis = 1> (pointer_here, tag)
        tag_here = Squeeze (tag, middle_axis)
    }> (last_tag, pointers)
    found = Greater (path_score, nothing)
    found_row = Unsqueeze (found, middle_axis)
    shown = And (mask, found_row)
    tags = Where (shown, path, ignored)
    log_share = Sub (path_score, log_partition)
    log_share_below_one = Min (log_share, zero)
    log_share_found = Where (found, log_share_below_one, nothing)
    log_probability = Cast <to = 1> (log_share_found)
}
"""
"""S = D + 1 states. A row without a legal path gets tags -100 and log-probability -inf."""


def crf_model(transitions: Floats, start: Floats, end: Floats) -> Any:
    """The graph with these scores inside: (D, D) [from, to], (D,), (D,), -inf where illegal."""
    import onnx

    model = onnx.parser.parse_model(_GRAPH)
    constants = {
        name: onnx.numpy_helper.from_array(value, name) for name, value in crf_constants(transitions, start, end)
    }
    model.graph.initializer.extend(constants.values())
    onnx.checker.check_model(model, full_check=True)
    return model


def crf_constants(transitions: Floats, start: Floats, end: Floats) -> list[tuple[str, NDArray[Any]]]:
    """The constants of the graph by name, from the scores of D tags, -inf where illegal."""
    size = len(start)
    steps = np.full((size + 1, size + 1), -np.inf)  # [to, from], so that the reductions run along memory
    steps[:size, :size] = transitions.T
    steps[:size, size] = start
    begin = np.full((1, size + 1), -np.inf)
    begin[0, size] = 0
    return [
        ("steps", steps),
        ("begin", begin),
        ("end", np.append(end, 0.0)),  # a row that never left `begin` is empty: one path, score 0
        ("stay", np.arange(size + 1)[None]),
        ("states", np.array([size + 1])),
        ("one_state_more", np.array([0, 0, 0, 0, 0, 1])),
        ("middle_axis", np.array([1])),
        ("last_axis", np.array([2])),
        ("zero", np.array(0.0)),
        ("nothing", np.array(-np.inf)),
        ("ignored", np.array(-100)),
    ]


def append_crf(encoder: Any, crf: Any, *, kept: Sequence[str] = (*INPUTS, *OUTPUTS)) -> None:
    """Put the CRF behind an encoder that has its inputs, in place; names that are not `kept` get the prefix."""

    def named(name: str) -> str:
        return name if name in kept else PREFIX + name

    for graph in _graphs(crf.graph):
        for value in (*graph.input, *graph.output, *graph.initializer):
            value.name = named(value.name)
        for node in graph.node:
            node.input[:] = map(named, node.input)
            node.output[:] = map(named, node.output)
    encoder.graph.node.extend(crf.graph.node)
    encoder.graph.initializer.extend(crf.graph.initializer)
    del encoder.graph.output[:]
    encoder.graph.output.extend(crf.graph.output)


def _graphs(graph: Any) -> list[Any]:
    """The graph and the bodies of its scans."""
    return [graph, *(attribute.g for node in graph.node for attribute in node.attribute if attribute.name == "body")]
