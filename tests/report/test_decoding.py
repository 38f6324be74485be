"""The picture of how a decoding was chosen."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from small_corpus import SMALL, corpus

from maskedcrf.report.decoding import decoding_section
from maskedcrf.tagger import Tagger
from maskedcrf.tagger.decoding import THRESHOLDS, choose_by_counts


def test_the_curve_the_path_and_the_chosen_threshold_are_drawn() -> None:
    # All right from 0.3 on, one too many below; by the path one is missed.
    rows = [[1, 1, 2], *[[2, 2, 2] if threshold >= 0.3 else [2, 3, 2] for threshold in THRESHOLDS]]
    choice = choose_by_counts(np.array([rows, rows, rows]))
    heading, text, drawn = decoding_section(choice.to_json())
    assert heading == "Path or segments"
    assert "3 labelled sentences" in text
    assert "F1 100.00 by segments at 0.50" in text
    assert "66.67 by path: the tagger decodes by segments." in text
    parts = list(ElementTree.fromstring(drawn).iter())
    curve, path = (
        [tuple(map(float, point.split(","))) for point in part.attrib["points"].split()]
        for part in parts
        if part.tag.endswith("polyline")
    )
    assert len(curve) == len(path) == len(THRESHOLDS)
    first = THRESHOLDS.index(0.3)
    assert curve[first][1] < curve[first - 1][1] < path[0][1]  # up is down in SVG
    (mark,) = [part for part in parts if part.attrib.get("class") == "mark"]
    assert float(mark.attrib["x1"]) == curve[THRESHOLDS.index(0.5)][0]


def test_a_trainings_report_has_it(tmp_path: Path) -> None:
    tagger = Tagger.train(corpus(20), corpus(6, 1), **{**SMALL, "epochs": 2, "output": tmp_path / "model"})
    choice = tagger.record.settings["decoding_choice"]
    heading, text, drawn = decoding_section(choice)
    written = (tmp_path / "model" / "report.html").read_text(encoding="utf-8")
    assert heading in written
    assert drawn in written
    assert f"{choice['path_f1']:.2f} by path" in text
