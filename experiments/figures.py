"""The paper's figures and ours, from results files; SVG and PNG, the same bytes for the same results.

A figure whose runs are missing is not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from experiments.beyond import calibration_bins, points
from experiments.claims import LINKS, encoder_points, paper_encoder_points, paper_gain
from experiments.reading import CORPORA, Setting, main_setting
from experiments.statistics import Evidence
from maskedcrf import Constraints, MaskedCRF
from maskedcrf.errors import MissingExtraError
from maskedcrf.report.lattice import draw, lattice

# Okabe and Ito's colours, which readers of any colour vision can tell apart.
OURS, PAPER, OTHER, GREY = "#0072b2", "#d55e00", "#009e73", "#8c8c8c"
MASKED, ALLOWED = "#f4b5a5", "#f7f3d9"
COLOURS = dict(
    zip(CORPORA, ("#0072b2", "#d55e00", "#8c8c8c", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"), strict=True)
)
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
    for old in [*folder.glob("*.svg"), *folder.glob("*.png")]:
        old.unlink()
    shown: dict[str, str] = {}
    for key, (make, caption) in FIGURES.items():
        with plots.rc_context(STYLE):
            figure = make(evidence, plots)
            if figure is None:
                continue
            # Neither a date nor a version: the same picture is the same file.
            figure.savefig(folder / f"{key}.svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight")
            figure.savefig(folder / f"{key}.png", metadata={"Software": None}, dpi=150, bbox_inches="tight")
            plots.close(figure)
            shown[key] = caption
    return shown


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("the figures need matplotlib: pip install 'maskedcrf[plots]'") from error
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def gains(evidence: Evidence, plots: Any) -> Any:
    """What each link of the paper's order is worth on each corpus."""
    corpora = [corpus for corpus in CORPORA if main_setting(corpus) in evidence.gains(*LINKS[TRAINING])]
    if not corpora:
        return None
    figure, panels = plots.subplots(1, len(LINKS), figsize=(11, 0.42 * len(corpora) + 1.5), sharey=True)
    for panel, pair in zip(panels, LINKS.values(), strict=True):
        panel.axvline(0, color=GREY, linewidth=0.8)
        panel.set_title(f"{pair[1]}\nover {pair[0]}")
        panel.set_xlabel("gain in test F1")
        for row, corpus in enumerate(corpora):
            _gain(panel, row, evidence, corpus=corpus, pair=pair)
    panels[0].set_yticks(range(len(corpora)), [CORPORA[corpus] for corpus in corpora])
    panels[0].set_ylim(len(corpora) - 0.5, -0.6)
    handles = [
        plots.Line2D([], [], marker="o", color=OURS, label="ours, significant"),
        plots.Line2D([], [], marker="o", color=OURS, markerfacecolor="white", label="ours, level (95 % interval)"),
        plots.Line2D([], [], marker="D", color=PAPER, linestyle="", label="paper"),
    ]
    figure.legend(handles=handles, loc="lower center", ncols=3)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    return figure


TRAINING = next(iter(LINKS))


def _gain(panel: Any, row: int, evidence: Evidence, *, corpus: str, pair: tuple[str, str]) -> None:
    found = evidence.gains(*pair).get(main_setting(corpus))
    printed = paper_gain(evidence.paper, corpus, pair)
    if printed is not None:
        panel.plot(printed, row + 0.22, marker="D", markersize=4, color=PAPER)
    if found is not None:
        panel.plot([found.low, found.high], [row - 0.1] * 2, color=OURS, linewidth=1.5)
        face = OURS if found.word in ("better", "worse") else "white"
        panel.plot(found.difference, row - 0.1, marker="o", markersize=6, color=OURS, markerfacecolor=face)


def matrix(evidence: Evidence, plots: Any) -> Any:
    """The paper's Figure 2 from our constraints, with the rules for start and end that the paper lacks."""
    tags = evidence.paper["tables"]["masked_transition_matrix"]["tags"]
    rules = Constraints.from_scheme(tags, "BIO")
    legal = np.ones((len(tags) + 1, len(tags) + 1), dtype=bool)
    legal[0, :-1], legal[1:, :-1], legal[1:, -1] = rules.start, rules.legal, rules.end
    figure, panel = plots.subplots(figsize=(5.4, 4.6))
    for (row, column), fine in np.ndenumerate(legal):
        if (row, column) == (0, len(tags)):
            continue
        edge = row == 0 or column == len(tags)
        panel.add_patch(
            plots.Rectangle(
                (column, row), 0.94, 0.94, facecolor=ALLOWED if fine else MASKED, edgecolor=GREY, linewidth=0.6
            )
        )
        name = "" if edge else f"$a_{{{row}{column + 1}}}$"
        panel.text(column + 0.47, row + 0.47, name if fine else name or "x", ha="center", va="center", fontsize=9)
    panel.set_xlim(-0.1, len(tags) + 1)
    panel.set_ylim(len(tags) + 1, -0.1)
    panel.set_xticks(np.arange(len(tags) + 1) + 0.47, [*tags, "end"], rotation=45, ha="left")
    panel.set_yticks(np.arange(len(tags) + 1) + 0.47, ["start", *tags])
    panel.xaxis.tick_top()
    panel.tick_params(length=0)
    for spine in panel.spines.values():
        spine.set_visible(False)
    return figure


def losses(evidence: Evidence, plots: Any) -> Any:
    """Dev loss by epoch, CRF and MCRF, mean and range over the seeds."""
    heads = {"crf": ("CRF", OTHER), "mcrf": ("MCRF", OURS)}
    corpora = [c for c in CORPORA if all(evidence.results.of_head(main_setting(c), head) for head in heads)]
    if not corpora:
        return None
    figure, panels = _panels(plots, len(corpora))
    for panel, corpus in zip(panels, corpora, strict=False):
        for head, (name, colour) in heads.items():
            runs = evidence.results.of_head(main_setting(corpus), head).values()
            # Runs may stop early: an epoch counts the runs that reached it.
            longest = max(len(run["epochs"]) for run in runs)
            curves = np.full((len(runs), longest), np.nan)
            for row, run in enumerate(runs):
                curves[row, : len(run["epochs"])] = [epoch[1] for epoch in run["epochs"]]
            epochs = np.arange(1, longest + 1)
            panel.fill_between(
                epochs, np.nanmin(curves, 0), np.nanmax(curves, 0), color=colour, alpha=0.18, linewidth=0
            )
            panel.plot(epochs, np.nanmean(curves, 0), color=colour, label=name)
        panel.set_title(CORPORA[corpus])
        panel.set_xlabel("epoch")
        panel.set_ylim(bottom=0)
        panel.xaxis.get_major_locator().set_params(integer=True)
    panels[0].set_ylabel("dev loss, nats a sentence")
    panels[0].legend()
    figure.tight_layout()
    return figure


def _panels(plots: Any, count: int) -> tuple[Any, Sequence[Any]]:
    """Up to four panels a row; those left over are taken out."""
    columns = min(count, 4)
    rows = -(-count // columns)
    figure, grid = plots.subplots(rows, columns, figsize=(2.75 * columns, 2.4 * rows), squeeze=False)
    for panel in grid.flat[count:]:
        panel.remove()
    return figure, list(grid.flat[:count])


def schemes(evidence: Evidence, plots: Any) -> Any:
    """The paper's Figure 4: dev F1 of every row in BIO and in BIOES."""
    corpora = [c for c in CORPORA if evidence.results.f1(main_setting(c, "BIOES"), "MCRF-training", "dev")]
    if not corpora:
        return None
    figure, panels = _panels(plots, len(corpora))
    names = {"CRF-retain": "CRF\nretain", "CRF-discard": "CRF\ndiscard"}
    names |= {"MCRF-decoding": "MCRF\ndecoding", "MCRF-training": "MCRF\ntraining"}
    for panel, corpus in zip(panels, corpora, strict=True):
        for shift, scheme, colour in ((-0.1, "BIO", OURS), (0.1, "BIOES", OTHER)):
            for place, variant in enumerate(names):
                values = list(evidence.results.f1(main_setting(corpus, scheme), variant, "dev").values())
                if values:
                    panel.plot([place + shift] * len(values), values, ".", color=colour, alpha=0.4)
                    label = scheme if place == 0 else None
                    panel.plot(place + shift, np.mean(values), "_", color=colour, markersize=12, mew=2, label=label)
        panel.set_title(CORPORA[corpus])
        panel.set_xticks(range(len(names)), names.values(), fontsize=7)
        panel.set_xlim(-0.5, len(names) - 0.5)
    panels[0].set_ylabel("dev F1")
    figure.tight_layout()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def encoders(evidence: Evidence, plots: Any) -> Any:
    """Gain against the share of illegal segments, over encoders on CoNLL2003: the paper's and ours."""
    ours = list(encoder_points(evidence.results))
    if not ours:
        return None
    figure, panels = plots.subplots(1, 2, figsize=(9, 3.4))
    for panel, name, found, colour in (
        (panels[0], "paper", paper_encoder_points(evidence.paper), PAPER),
        (panels[1], "ours", ours, OURS),
    ):
        panel.axhline(0, color=GREY, linewidth=0.8)
        panel.plot([point.illegal for point in found], [point.gain for point in found], "o", color=colour)
        panel.set_title(name)
        panel.set_xlabel("illegal segments of the CRF in %")
        panel.margins(y=0.15)
        panel.set_xlim(0, 1.35 * max(point.illegal for point in found) or 1)
    panels[0].set_ylabel("gain of MCRF-training in dev F1")
    figure.tight_layout()
    for panel, found in zip(panels, (paper_encoder_points(evidence.paper), ours), strict=True):
        _labels(panel, [(point.illegal, point.gain, point.encoder) for point in found])
    return figure


LABEL_PLACES = [
    *(("left", 6, up) for up in (3, -9)),
    *(("right", -6, up) for up in (3, -9)),
    *(("left", across, up) for up in (-14, 9) for across in (-8, -28, -48)),
    *(("left", 6, up) for up in (13, -19)),
]
"""Which end of a name stands where beside its point, in points of type, the best first."""


def _labels(panel: Any, found: Sequence[tuple[float, float, str]]) -> None:
    """A name beside each point, clear of the other names and points; the panel's limits stand already."""
    spots = {name: panel.transData.transform((x, y)) * 72 / panel.figure.dpi for x, y, name in found}
    taken = [(left - 4, left + 4, foot - 4) for left, foot in spots.values()]  # left, right and foot of each mark
    edge = panel.transAxes.transform((0, 0))[0] * 72 / panel.figure.dpi
    for x, y, name in sorted(found, key=lambda each: -each[1]):
        across, foot = spots[name]
        width = 4.2 * len(name)
        starts = [across + shift - (width if side == "right" else 0) for side, shift, _ in LABEL_PLACES]
        names = [(start, start + width, foot + up) for start, (_, _, up) in zip(starts, LABEL_PLACES, strict=True)]
        free = [n for n, (start, end, low) in enumerate(names) if start > edge and _clear(start, end, low, taken)]
        place = free[0] if free else 0
        side, *shift = LABEL_PLACES[place]
        panel.annotate(name, (x, y), xytext=shift, textcoords="offset points", fontsize=7, horizontalalignment=side)
        taken.append(names[place])


def _clear(left: float, right: float, foot: float, taken: Sequence[tuple[float, float, float]]) -> bool:
    return not any(left < end and start < right and abs(foot - low) < 8 for start, end, low in taken)


def reliability(evidence: Evidence, plots: Any) -> Any:
    """Share right against stated probability, exact and mean softmax, each corpus."""
    corpora = [c for c in CORPORA if calibration_bins(evidence.results, main_setting(c), "exact") is not None]
    if not corpora:
        return None
    figure, panels = _panels(plots, len(corpora))
    for panel, corpus in zip(panels, corpora, strict=True):
        panel.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
        errors = []
        for kind, name, colour in (("softmax", "mean softmax", OTHER), ("exact", "exact", OURS)):
            bins = calibration_bins(evidence.results, main_setting(corpus), kind)
            assert bins is not None
            known = bins.size >= 5  # a share of fewer says nothing
            stated, right = bins.summed[known] / bins.size[known], bins.right[known] / bins.size[known]
            panel.plot(stated, right, "-", color=colour, linewidth=0.8)
            sizes = 4 + 60 * bins.size[known] / bins.size.sum()
            panel.scatter(stated, right, s=sizes, color=colour, label=name)
            errors.append(f"{bins.ece:.1f} {name}")
        panel.set_title(f"{CORPORA[corpus]}\nECE {', '.join(errors)}", fontsize=8)
        panel.set_xlabel("stated probability")
    panels[0].set_ylabel("share right")
    figure.tight_layout()
    lines = [plots.Line2D([], [], color=colour, marker="o") for colour in (OTHER, OURS)]
    figure.legend(lines, ["mean softmax", "exact"], loc="lower right", frameon=False)
    return figure


def when(evidence: Evidence, plots: Any) -> Any:
    """Gain of masking in training against the CRF's illegal mass and the size of train."""
    found = [point for point in points(evidence.results) if point.mass]
    if not found:
        return None
    figure, panels = plots.subplots(1, 2, figsize=(10, 3.6), sharey=True)
    for panel, (field, name) in zip(
        panels, {"mass": "illegal mass of the CRF", "sentences": "sentences in train"}.items(), strict=True
    ):
        panel.axhline(0, color=GREY, linewidth=0.8)
        panel.set_xscale("log")
        panel.set_xlabel(name)
        for point in found:
            style = {"color": COLOURS[point.setting.corpus], "marker": _marker(point.setting), "linewidth": 0.9}
            panel.errorbar(getattr(point, field), point.gain, yerr=point.error, markersize=6, **style)
        _decimal_ticks(panel, [getattr(point, field) for point in found])
    panels[0].set_ylabel("gain of MCRF-training over\nMCRF-decoding in test F1")
    used = [corpus for corpus in CORPORA if any(point.setting.corpus == corpus for point in found)]
    handles = [plots.Line2D([], [], color=COLOURS[c], marker="o", linestyle="", label=CORPORA[c]) for c in used]
    kinds = {"o": "main", "s": "BIOES", "v": "10 % of train", "^": "other encoder"}
    handles += [plots.Line2D([], [], color=GREY, marker=m, linestyle="", label=name) for m, name in kinds.items()]
    figure.legend(handles=handles, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.tight_layout()
    return figure


def _decimal_ticks(panel: Any, values: Sequence[float]) -> None:
    """Ticks at 1, 2 and 5 times powers of ten: a logarithmic axis of less than a decade would have none."""
    low, high = min(values) / 1.3, max(values) * 1.3
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [
        tick for power in powers for tick in (10.0**power, 2 * 10.0**power, 5 * 10.0**power) if low <= tick <= high
    ]
    panel.set_xticks(ticks, [f"{tick:,.0f}" if tick >= 1 else f"{tick:g}" for tick in ticks])
    panel.xaxis.set_minor_formatter("")
    panel.set_xlim(low, high)


def _marker(setting: Setting) -> str:
    if setting.scheme != "BIO":
        return "s"
    if setting.share != 1:
        return "v"
    return "o" if setting == main_setting(setting.corpus) else "^"


def figure_1(evidence: Evidence) -> str:
    """The paper's Figure 1 as SVG: emissions that like the CRF's path best and the legal one next."""
    printed = evidence.paper["tables"]["fig_paths"]
    tags = ["O", *sorted(({*printed["CRF"], *printed["MCRF"]} | {"B-ORG"}) - {"O"}, key=lambda tag: (tag[2:], tag))]
    crf = MaskedCRF(tags, scheme="BIO", mask="off", backend="reference")  # nothing to compile for one sentence
    for scores in crf.parameters():
        torch.nn.init.zeros_(scores)
    emissions = torch.zeros(len(printed["tokens"]), len(tags))
    for name, score in (("MCRF", 3.0), ("CRF", 4.0)):
        emissions[range(len(emissions)), [tags.index(tag) for tag in printed[name]]] = score
    return draw(lattice(crf, emissions, printed["tokens"]), comparison="CRF")


FIGURES: dict[str, tuple[Callable[[Evidence, Any], Any], str]] = {
    "gains": (
        gains,
        "What each step of the paper's order is worth on each corpus, ours beside the paper's; each panel has its own "
        "scale.",
    ),
    "matrix": (
        matrix,
        "The masked transition matrix (the paper's Figure 2), with start and end: what is shaded red is illegal.",
    ),
    "losses": (losses, "Dev loss of CRF and MCRF (the paper's Figure 3): mean and range over the seeds."),
    "schemes": (schemes, "BIO and BIOES (the paper's Figure 4): dev F1 of each run, and the mean."),
    "encoders": (encoders, "Encoders on CoNLL2003: what MCRF gains against how much of the CRF's output is illegal."),
    "reliability": (
        reliability,
        "Stated probability of predicted segments against the share that is right; a larger point stands for more "
        "segments, and there is none for fewer than five.",
    ),
    "when": (when, "When masking in training pays: one point a setting, with its standard error over the seeds."),
}
