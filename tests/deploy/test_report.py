"""The page's parts."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from maskedcrf import Constraints
from maskedcrf.deploy import report


def test_everything_given_is_escaped(tmp_path: Path) -> None:
    html = report.page("a <b>", [("<h>", "<p>", report.table(["<x>"], [["<y>", "<z>"]]))])
    for text in ("a <b>", "<h>", "<p><", "<x>", "<y>", "<z>"):
        assert text not in html
    report.write(tmp_path / "page.html", html)
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == html
    assert list(tmp_path.iterdir()) == [tmp_path / "page.html"]


def test_curves_are_drawn_in_scale() -> None:
    tree = ElementTree.fromstring(report.curves({"one": [0.0, 2.0, 1.0]}, x="epoch", y="loss", width=200, height=100))
    line = next(part for part in tree.iter() if part.tag.endswith("polyline"))
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert points[1][1] < points[2][1] < points[0][1]  # up is down in SVG
    assert points[1][0] - points[0][0] == points[2][0] - points[1][0]


def test_nothing_to_draw_says_so() -> None:
    assert report.curves({}, x="epoch", y="loss") == "<p>nothing to draw</p>"
    assert "polyline" in report.curves({"flat": [1.0]}, x="epoch", y="loss")


def test_the_matrix_has_a_cross_for_every_masked_step() -> None:
    rules = Constraints.from_scheme(["O", "B-X", "I-X", "E-X", "S-X"], "BIOES")
    masked = (~rules.legal).sum() + (~rules.start).sum() + (~rules.end).sum()
    assert report.matrix(rules).count("&times;") == masked
