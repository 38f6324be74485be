"""The guide to adopted taggers: its table is that of the results."""

from __future__ import annotations

from benchmarks import adopt_table


def test_the_table_of_the_guide_is_that_of_the_results() -> None:
    guide = adopt_table.GUIDE.read_text(encoding="utf-8")
    assert adopt_table.written(guide) == guide, "run `python -m benchmarks.adopt_table`"


def test_a_line_has_the_means_of_its_seeds_and_says_how_many_they_are() -> None:
    def row(seed: int, f1: float) -> dict[str, object]:
        scores = {name: {"f1": f1 + place} for place, name in enumerate(("retain", "discard", "mask only", "fitted"))}
        return {
            "corpus": "weibo/270",
            "seed": seed,
            "train": 1350,
            "fitted_on": 250,
            "illegal": 10.0 * seed,
            "f1": scores,
            "pipeline": {"simple": 1.0, "first": 2.0},
            "calibration_error": {"mean softmax": 4.0, "mask only": 3.0},
        }

    kept = {
        "rampart": {"rows": []},
        "lac": {"rows": []},
        "trained": {"rows": [row(1, 50.0), row(2, 52.0)]},
        "mcrf": {"rows": [{"corpus": "weibo/270", "f1": 60.04}]},
    }
    kept["lac"]["rows"] = [
        {"decoding": name, "corpus": "MSRA test/8", "illegal": 2.0, "retain": 70.0}
        for pair in adopt_table.LAC.items()
        for name in pair
    ]
    line = adopt_table.table(kept).splitlines()[-1]
    assert line == (
        "| UER, 1,350 sentences of Weibo; its test, 270, fitted to 250 of its dev (2 seeds) "
        "| 15.0 | 51.0 / 52.0 | 1.0, 2.0 | 53.0 | 54.0 | 60.0 (1 seed) | 4.0, 3.0 |"
    )
