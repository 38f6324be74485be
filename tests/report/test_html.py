"""The page's parts."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from maskedcrf import Constraints
from maskedcrf.report import html


def test_everything_given_is_escaped(tmp_path: Path) -> None:
    written = html.page("a <b>", [("<h>", "<p>", html.table(["<x>"], [["<y>", "<z>"]]))])
    for text in ("a <b>", "<h>", "<p><", "<x>", "<y>", "<z>"):
        assert text not in written
    html.write(tmp_path / "page.html", written)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == written
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


def test_curves_are_drawn_in_scale() -> None:
    tree = ElementTree.fromstring(html.curves({"one": [0.0, 2.0, 1.0]}, x="epoch", y="loss", width=200, height=100))
    line = next(part for part in tree.iter() if part.tag.endswith("polyline"))
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert points[1][1] < points[2][1] < points[0][1]  # up is down in SVG
    assert points[1][0] - points[0][0] == points[2][0] - points[1][0]


def test_the_key_stands_above_the_lines_and_wraps() -> None:
    names = [f"a rather long name of line {number}" for number in range(5)]
    tree = ElementTree.fromstring(html.curves({name: [0.0, 1.0] for name in names}, x="rate", y="F1", ticks=["a", "b"]))
    heights = {text.text: float(text.attrib["y"]) for text in tree.iter() if text.tag.endswith("text")}
    lines = [part for part in tree.iter() if part.tag.endswith("polyline")]
    highest = min(float(point.split(",")[1]) for line in lines for point in line.attrib["points"].split())
    assert max(heights[name] for name in names) < highest
    assert len({heights[name] for name in names}) > 1
    assert heights["a"] == heights["b"]


def test_nothing_to_draw_says_so() -> None:
    assert html.curves({}, x="epoch", y="loss") == "<p>nothing to draw</p>"
    assert "polyline" in html.curves({"flat": [1.0]}, x="epoch", y="loss")


def test_the_matrix_has_a_cross_for_every_masked_step() -> None:
    rules = Constraints.from_scheme(["O", "B-X", "I-X", "E-X", "S-X"], "BIOES")
    masked = (~rules.legal).sum() + (~rules.start).sum() + (~rules.end).sum()
    assert html.matrix(rules).count("&times;") == masked
