"""The demo as one HTML page."""

from __future__ import annotations

from maskedcrf.demo.findings import HEADER, conclusion, rate_name, table_rows
from maskedcrf.demo.trials import Demo
from maskedcrf.report import html
from maskedcrf.report.lattice import draw

AGAINST_THE_RATE = ("CRF, retain", "MCRF-training", "MCRF-decoding", "CRF, discard")
"""The rows whose score may depend on the rate; the masked CRF gets the colour it has in every picture."""
BY_EPOCH = ("CRF, retain", "MCRF-training", "MCRF-decoding", "softmax, masked decoding")


def page(demo: Demo) -> str:
    """What was found, the table, three pictures, an illegal path if there is one, and the mask."""
    chosen = demo.chosen
    rates = [rate_name(trial) for trial in demo.of_row("CRF, retain")]
    trials_of = {name: demo.of_row(name) for name in AGAINST_THE_RATE}
    f1 = {name: [trial.test.f1 for trial in trials] for name, trials in trials_of.items()}
    illegal = {name: [trial.illegal for trial in trials_of[name]] for name in AGAINST_THE_RATE[:2]}
    sections = [
        ("What it shows", "", html.bullets(conclusion(demo))),
        (
            "Every row at its own best rate",
            "Test scores on the built-in corpus in percent. Rate and epoch of each row are those with the best dev F1 "
            "by the score that the row reports. Retain keeps illegal segments as entities, discard drops them.",
            html.table(HEADER, table_rows(demo)),
        ),
        (
            "F1 against the rate",
            "Test F1 by the rate of the transition scores. A plain CRF must learn the rules from the data; a masked "
            "CRF has them from the start.",
            html.curves(f1, x="crf_rate", y="test F1", ticks=rates),
        ),
        (
            "Illegal segments against the rate",
            "In percent of the predicted segments. A masked CRF has none, whatever its rate.",
            html.curves(illegal, x="crf_rate", y="illegal %", ticks=rates),
        ),
        (
            "Dev F1 by epoch",
            "Each row at its own best rate.",
            html.curves({name: chosen[name].dev_f1 for name in BY_EPOCH}, x="epoch", y="dev F1"),
        ),
        _illegal_section(demo),
        (
            "The mask",
            "Steps from the row's tag to the column's; crossed ones are illegal.",
            html.matrix(demo.constraints),
        ),
    ]
    return html.page("Masked CRF demo", sections)


def _illegal_section(demo: Demo) -> tuple[str, str, str]:
    heading = "What the mask prevents"
    chosen = demo.chosen
    for name, model in (("CRF, retain", "plain CRF"), ("softmax, retain", "softmax tagger")):
        example = chosen[name].example
        if example is not None:
            steps = ", ".join(f"{step.previous} to {step.tag}" for step in example.broken)
            text = (
                f"A test sentence. The {model} of the table steps illegally ({steps}); masked decoding, with the "
                f"same weights, cannot. In this sentence the {model} spends "
                f"{100 * (example.illegal_mass or 0.0):.1f} % of its "
                "probability on illegal paths."
            )
            return heading, text, draw(example, comparison=model)
    return heading, "On this run the models trained without the mask tagged every test sentence legally.", ""
