"""The figures of the page, from results files; SVG and PNG, the same bytes for the same results.

A figure whose trainings are missing is not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.claims import Evidence, read_paper
from experiments.decoded import draw_gains
from experiments.learning import dev_curves
from experiments.statistics import Mean
from experiments.tables import TITLES
from experiments.trainings import CRF_ROWS, PRETRAINED, RATES
from maskedcrf import MaskedCRF
from maskedcrf.errors import MissingExtraError
from maskedcrf.report.lattice import draw, lattice

# Okabe and Ito's colours, which readers of any colour vision can tell apart.
COLOURS = dict(zip(CRF_ROWS, ("#d55e00", "#e69f00", "#009e73", "#0072b2"), strict=True))
RATE_COLOURS = dict(zip(RATES, ("#d55e00", "#009e73", "#0072b2"), strict=True))
CORPUS_COLOURS = ("#d55e00", "#e69f00", "#009e73", "#0072b2", "#cc79a7", "#56b4e9")
GREY = "#8c8c8c"
ACROSS = 3
"""Corpora side by side."""
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "legend.frameon": False,
    "svg.hashsalt": "maskedcrf",
    "savefig.facecolor": "white",
}


def write_figures(evidence: Evidence, folder: Path) -> dict[str, str]:
    """Draw what there are results for; returns each figure's key and what it shows, in order."""
    plots = _pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    for former in [*folder.glob("*.svg"), *folder.glob("*.png")]:
        former.unlink()
    captions: dict[str, str] = {}
    for key, (make, caption) in FIGURES.items():
        with plots.rc_context(STYLE):
            figure = make(evidence, plots)
            if figure is None:
                continue
            # Neither a date nor a version: the same picture is the same file.
            figure.savefig(folder / f"{key}.svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
            figure.savefig(folder / f"{key}.png", metadata={"Software": None}, dpi=150, bbox_inches="tight")
            plots.close(figure)
            captions[key] = caption
    return captions


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("the figures need matplotlib: pip install 'maskedcrf[plots]'") from error
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def against_rate(evidence: Evidence, plots: Any) -> Any:
    """Test F1 of the four rows above, illegal segments of the plain CRF below, against the rate."""
    corpora = evidence.trial.corpora(evidence.encoder)
    if not corpora:
        return None
    figure, panels = _panels(plots, len(corpora), heights=(3, 1))
    for corpus, upper, lower in zip(corpora, *panels, strict=True):
        for shift, (row, colour) in enumerate(COLOURS.items()):
            chosen = [evidence.trial.at_rate(corpus, row, rate, evidence.encoder) for rate in RATES]
            means = [Mean.of(each.values("test", "f1")) for each in chosen]
            style = {"color": colour, "marker": "o", "markersize": 4, "linewidth": 1.2, "capsize": 2}
            across = np.array(RATES) * (1 + 0.12 * (shift - 1.5))
            errors = [mean.half_width or 0 for mean in means]
            upper.errorbar(across, [mean.value for mean in means], yerr=errors, label=row, **style)
        illegal = [evidence.trial.at_rate(corpus, "CRF-retain", rate, evidence.encoder) for rate in RATES]
        values = [np.mean(list(each.values("test", "illegal").values())) for each in illegal]
        lower.plot(RATES, values, "o-", color=COLOURS["CRF-retain"], markersize=4)
        lower.set_ylim(bottom=0)
        lower.set_xlabel("crf_rate")
        upper.set_title(TITLES[corpus])
        for panel in (upper, lower):
            panel.set_xscale("log")
        lower.set_xlim(upper.get_xlim())
        upper.tick_params(labelbottom=False)
    for name, level in zip(("test F1", "illegal %"), panels, strict=True):
        for panel in level[::ACROSS]:
            panel.set_ylabel(name)
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(COLOURS))
    return figure


def learning(evidence: Evidence, plots: Any) -> Any:
    """Dev F1 by epoch at each rate, CRF and MCRF, the decoding masked for both."""
    corpora = evidence.trial.corpora(evidence.encoder)
    if not corpora:
        return None
    figure, (panels,) = _panels(plots, len(corpora))
    for panel, corpus in zip(panels, corpora, strict=True):
        for rate, colour in RATE_COLOURS.items():
            for head, line in (("crf", "--"), ("mcrf", "-")):
                curve = dev_curves(evidence, corpus, head, rate).mean(0)
                panel.plot(np.arange(1, len(curve) + 1), curve, line, color=colour, linewidth=1.2)
        level = float(dev_curves(evidence, corpus, "mcrf", RATES[-1]).mean(0).max())
        panel.set_ylim(max(0, level - max(12, 0.4 * (100 - level))), level + 2)
        panel.set_title(TITLES[corpus])
        panel.set_xlabel("epoch")
        panel.xaxis.get_major_locator().set_params(integer=True)
    for panel in panels[::ACROSS]:
        panel.set_ylabel("dev F1")
    lines = [plots.Line2D([], [], color=colour, label=f"{rate:g}") for rate, colour in RATE_COLOURS.items()]
    lines += [
        plots.Line2D([], [], color=GREY, linestyle=line, label=name) for name, line in (("CRF", "--"), ("MCRF", "-"))
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=len(lines))
    return figure


def _panels(plots: Any, count: int, heights: Sequence[int] = (1,)) -> tuple[Any, list[Sequence[Any]]]:
    """Corpora side by side, a panel for each height one below the other; what is left over is taken out."""
    columns = min(count, ACROSS)
    rows = -(-count // columns)
    size = (3.2 * columns, (1.6 + 0.9 * len(heights)) * rows + 0.4)
    options = {"squeeze": False, "height_ratios": [*heights] * rows, "layout": "constrained"}
    figure, grid = plots.subplots(rows * len(heights), columns, figsize=size, **options)
    levels = [grid[place :: len(heights)].ravel() for place in range(len(heights))]
    for panel in (panel for level in levels for panel in level[count:]):
        panel.remove()
    return figure, [level[:count] for level in levels]


def against_rate_pretrained(evidence: Evidence, plots: Any) -> Any:
    """The same with pretrained encoders."""
    return against_rate(evidence.of_encoder(PRETRAINED), plots)


def decoding(evidence: Evidence, plots: Any) -> Any:
    """What segments gain over the path, against the threshold."""
    return draw_gains(evidence.decoded, plots, CORPUS_COLOURS)


def example_lattice() -> str:
    """The paper's Figure 1 as SVG: emissions that like the CRF's path best and the legal one next."""
    printed = read_paper()["tables"]["fig_paths"]
    tags = ["O", *sorted(({*printed["CRF"], *printed["MCRF"]} | {"B-ORG"}) - {"O"}, key=lambda tag: (tag[2:], tag))]
    crf = MaskedCRF(tags, scheme="BIO", mask="off", backend="reference")  # nothing to compile for one sentence
    for scores in crf.parameters():
        torch.nn.init.zeros_(scores)
    emissions = torch.zeros(len(printed["tokens"]), len(tags))
    for name, score in (("MCRF", 3.0), ("CRF", 4.0)):
        emissions[range(len(emissions)), [tags.index(tag) for tag in printed[name]]] = score
    return draw(lattice(crf, emissions, printed["tokens"]), comparison="CRF")


FIGURES: dict[str, tuple[Callable[[Evidence, Any], Any], str]] = {
    "rates": (against_rate, "Test F1 of the four rows and illegal segments of the plain CRF, against the rate."),
    "learning": (learning, "Dev F1 by epoch at each rate, mean over the seeds; the decoding is masked for both."),
    "rates_pretrained": (against_rate_pretrained, "The same with a small pretrained encoder."),
    "decoding": (decoding, "What segments gain over the path on test, by threshold; dots are where dev put it."),
}
