"""The demo: three trainings on the built-in corpus give the paper's six variants, a table, curves and a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from maskedcrf.data.demo_corpus import demo_corpus
from maskedcrf.data.sentence import Sentence
from maskedcrf.report import html
from maskedcrf.report.lattice import Lattice, draw, lattice
from maskedcrf.tagger.scores import Scores
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.constraints import Constraints, MaskMode
from maskedcrf.training.train import train

TRAININGS: dict[str, dict[str, Any]] = {
    "softmax": {"head": "softmax", "mask": "off"},
    "CRF": {"head": "crf", "mask": "off"},
    "MCRF": {"head": "crf", "mask": "train"},
}
SETTINGS: dict[str, Any] = {
    "encoder": {"words": 64, "lstm_hidden": 64, "dropout": 0.4},
    "epochs": 12,
    "patience": 0,
    "device": "cpu",
}

# Which training serves which variant, with what mask, and which segments count.
VARIANTS: tuple[tuple[str, str, MaskMode, str], ...] = (
    ("tagger, retain", "softmax", "off", "retain"),
    ("tagger, discard", "softmax", "off", "discard"),
    ("CRF, retain", "CRF", "off", "retain"),
    ("CRF, discard", "CRF", "off", "discard"),
    ("MCRF-decoding", "CRF", "decode", "retain"),
    ("MCRF-training", "MCRF", "train", "retain"),
)


@dataclass(frozen=True)
class Variant:
    """One row of the table: F1, illegal segments in percent of the predicted ones."""

    name: str
    f1: float
    precision: float
    recall: float
    illegal: float


@dataclass(frozen=True)
class Demo:
    """What the demo found."""

    variants: list[Variant]
    dev_loss: dict[str, list[float]]
    """Of CRF and MCRF, one value an epoch."""
    constraints: Constraints
    example: Lattice | None
    """A test sentence on which the CRF goes illegal; None if it never does."""
    illegal_mass: float
    """Mean probability that the CRF spends on illegal paths, over the test sentences."""
    seconds: dict[str, float] = field(default_factory=dict)


def run_demo(
    *, sentences: int | None = None, epochs: int | None = None, tell: Callable[[str], None] = lambda line: None
) -> Demo:
    """Train and compare; `sentences` and `epochs` make it smaller, `tell` hears what is going on."""
    corpus = demo_corpus()
    parts = [part[:sentences] for part in corpus]
    settings = {**SETTINGS, **({"epochs": epochs} if epochs else {})}
    taggers: dict[str, Tagger] = {}
    for name, variant in TRAININGS.items():
        tell(f"training the {name} model on {len(parts[0])} sentences")
        taggers[name] = train(parts[0], parts[1], **{**settings, **variant})
    variants = []
    for name, source, mask, strategy in VARIANTS:
        taggers[source].mask = mask
        variants.append(_variant(name, taggers[source].evaluate(parts[2]), strategy))
    taggers["CRF"].mask = "off"
    dev_loss = {name: [entry["dev"]["loss"] for entry in taggers[name].history] for name in ("CRF", "MCRF")}
    example, mass = _illegal_example(taggers["CRF"], parts[2])
    seconds = {name: sum(entry["seconds"] for entry in tagger.history) for name, tagger in taggers.items()}
    return Demo(variants, dev_loss, taggers["CRF"].model.crf.constraints, example, mass, seconds)


def _variant(name: str, scores: Scores, strategy: str) -> Variant:
    tally = getattr(scores, strategy).total
    kept_illegal = scores.illegal if strategy == "retain" else 0.0
    return Variant(name, tally.f1, tally.precision, tally.recall, kept_illegal)


@torch.inference_mode()
def _illegal_example(tagger: Tagger, sentences: Sequence[Sentence]) -> tuple[Lattice | None, float]:
    """The lattice of a sentence that the unmasked CRF tags illegally; if it can be, one the mask gets right."""
    model = tagger.model.eval()
    examples: list[tuple[tuple[bool, bool, int], Lattice]] = []
    mass = 0.0
    for sentence in sentences:
        emissions = model.emissions(model.encoder.prepare([sentence.tokens]))
        mass += float(model.crf.illegal_mass(emissions)[0])
        if model.crf.constraints.violations(model.crf.decode(emissions)[0]):
            found = lattice(model.crf, emissions[0], sentence.tokens)
            wrong = tuple(found.tags[tag] for tag in found.path) != sentence.tags
            plain = all(found.path[min(step.position, len(found.path) - 1)] == 0 for step in found.broken)
            examples.append(((wrong, plain, abs(len(sentence.tokens) - 8)), found))
    best = min(examples, key=lambda example: example[0])[1] if examples else None
    return best, mass / max(len(sentences), 1)


HEADER = ("variant", "F1", "precision", "recall", "illegal %", "gain")


def rows(demo: Demo) -> list[list[str]]:
    """The table, formatted; the gain is over the CRF's retained score."""
    base = next(variant.f1 for variant in demo.variants if variant.name == "CRF, retain")
    return [
        [v.name, f"{v.f1:.2f}", f"{v.precision:.2f}", f"{v.recall:.2f}", f"{v.illegal:.2f}", f"{v.f1 - base:+.2f}"]
        for v in demo.variants
    ]


def page(demo: Demo) -> str:
    """The demo as one HTML page."""
    sections = [
        (
            "Six variants",
            "Test scores on the built-in corpus in percent. Retain keeps illegal segments as entities, discard drops "
            "them; a masked CRF has none. The gain is over the CRF with retained segments.",
            html.table(HEADER, rows(demo)),
        ),
        (
            "Where the CRF goes illegal",
            _caption(demo),
            draw(demo.example) if demo.example else "",
        ),
        (
            "Dev loss",
            "Negative log-likelihood a sentence. The masked CRF does not spend probability on illegal paths.",
            html.curves(demo.dev_loss, x="epoch", y="dev loss"),
        ),
        (
            "The mask",
            "Steps from the row's tag to the column's; crossed ones are illegal.",
            html.matrix(demo.constraints),
        ),
    ]
    return html.page("Masked CRF demo", sections)


def _caption(demo: Demo) -> str:
    mass = f"Over all test sentences the unmasked CRF spends {100 * demo.illegal_mass:.1f} % of its probability there."
    if demo.example is None:
        return f"On this run the CRF's best path was legal everywhere. {mass}"
    steps = ", ".join(f"{step.previous} to {step.tag}" for step in demo.example.broken)
    here = (
        f"In this sentence the CRF spends {100 * demo.example.illegal_mass:.1f} % of its probability on illegal paths."
    )
    return f"The unmasked path steps illegally ({steps}); the masked one, with the same weights, cannot. {here} {mass}"
