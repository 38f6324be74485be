"""How a decoding was chosen, as a section of a report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from maskedcrf.report import html


def decoding_section(choice: Mapping[str, Any]) -> tuple[str, str, str]:
    """Heading, sentence and picture of what `DecodingChoice.to_json` gave: dev scores against the threshold."""
    score = "F1" if choice["beta"] == 1 else f"F{choice['beta']:g}"
    thresholds = [threshold for threshold, _ in choice["curve"]]
    curves = html.curves(
        {
            "segments": [f1 for _, f1 in choice["curve"]],
            "best path": [choice["path_f1"]] * len(thresholds),
        },
        x="threshold",
        y=f"dev {score}",
        ticks=[f"{threshold:.2f}" for threshold in thresholds],
        mark=thresholds.index(choice["threshold"]),
    )
    text = (
        f"{choice['sentences']:,} labelled sentences decoded by segments at each threshold, and by the best path. "
        f"{score} {choice['segments_f1']:.2f} by segments at {choice['threshold']:.2f} (the upright line), "
        f"{choice['held_out_f1']:.2f} with the threshold chosen on other sentences, {choice['path_f1']:.2f} by path: "
        f"the tagger decodes by {choice['decoding']}."
    )
    return "Path or segments", text, curves
