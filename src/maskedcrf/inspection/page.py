"""The inspection as one HTML page that needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from maskedcrf.data.sentence import Sentence
from maskedcrf.evaluation.compare import Interval, bootstrap_each
from maskedcrf.evaluation.counts import Tally
from maskedcrf.inspection.collect import Collector, GroupCounts
from maskedcrf.inspection.comparison import Comparison
from maskedcrf.inspection.errors import ERROR_KINDS, MEANINGS, Error
from maskedcrf.inspection.reading import Reading, Span
from maskedcrf.inspection.suspects import Place
from maskedcrf.report import html

Section = tuple[str, str, str]
SHOWN_SUSPECTS = 100
SHOWN_TYPES = 12
"""Types in the confusion matrix: those with the most errors."""
SHOWN_ROWS = 16
"""Of a table by type; the others are folded away."""
RATIOS = ("F1", "precision", "recall")
AROUND = 15
"""Tokens shown on either side of what a long sentence is shown for."""
NONE = "nothing"


def page(
    title: str,
    found: Collector,
    *,
    comparison: Comparison | None = None,
    signature: str,
    further: Sequence[Section] = (),
) -> str:
    """All that was found, the most useful first, and what else there is to show."""
    intervals = bootstrap_each(found.counts.array())
    sections = [
        ("In short", "", html.bullets([*summary(found, intervals[0]), f"How these numbers were made: {signature}"])),
        *([] if comparison is None else compare_sections(found, comparison)),
        _scores(found.counts, intervals),
        *_errors(found),
        _suspects(found.suspects.ranked()[:SHOWN_SUSPECTS], found.suspects.unjudged),
        _wrong(found),
        _uncertain(found),
        _calibration(found),
        *_properties(found),
        *further,
    ]
    return html.page(title, sections, contents=True)


def summary(found: Collector, interval: Interval) -> list[str]:
    """The inspection in a few lines of plain text."""
    kinds = {kind: sum(n for (each, _), n in found.errors.items() if each == kind) for kind in ERROR_KINDS}
    listed = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
    error = found.calibration.result().error
    lines = [
        f"F1 {interval.value:.2f}, with 95 % confidence {interval.low:.2f} to {interval.high:.2f}, on "
        f"{found.sentences:,} sentences, {found.tokens:,} tokens",
        f"{found.wrong_sentences:,} sentences are not read as the gold has them"
        + (f"; errors: {listed}" if listed else ""),
        f"{len(found.suspects.ranked()):,} labels to look at",
    ]
    if error is not None:
        lines.append(f"probabilities of predicted segments are off by {error:.1f} points on average")
    if found.unseen_tokens is not None and found.tokens:
        lines.append(f"{100 * found.unseen_tokens / found.tokens:.1f} % of the tokens are words that training lacked")
    return lines


def _scores(counts: GroupCounts, intervals: Sequence[Interval]) -> Section:
    totals = [Tally(*row) for row in counts.array().sum(0).tolist()]
    found = list(zip(["all types", *counts.names], totals, intervals, strict=True))
    rows = [
        [name, *_ratios(tally), f"{interval.low:.1f} to {interval.high:.1f}", str(tally.gold)]
        for name, tally, interval in sorted(found, key=lambda each: -each[1].gold)
    ]
    return (
        "Scores",
        "In percent; the interval holds 95 % of the F1 of resampled sentences.",
        _table(("type", *RATIOS, "F1 interval", "gold segments"), rows),
    )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose rows beyond the first are folded away if they are many."""
    first, more = rows[:SHOWN_ROWS], rows[SHOWN_ROWS:]
    return html.table(header, first) + (html.folded(f"{len(more)} more", html.table(header, more)) if more else "")


def _ratios(tally: Tally) -> list[str]:
    return [f"{ratio:.1f}" for ratio in (tally.f1, tally.precision, tally.recall)]


def _errors(found: Collector) -> list[Section]:
    types = sorted({kind for _, kind in found.errors})
    totals = [sum(found.errors[kind, each] for each in types) for kind in ERROR_KINDS]
    rows = [["all types", *map(str, totals)]]
    types.sort(key=lambda each: (-sum(found.errors[kind, each] for kind in ERROR_KINDS), each))
    rows += [[each, *(str(found.errors[kind, each]) for kind in ERROR_KINDS)] for each in types]
    meanings = "; ".join(f"{kind}: {MEANINGS[kind]}" for kind in ERROR_KINDS)
    by_kind = ("Errors by kind", f"{meanings}.", _table(("type", *ERROR_KINDS), rows))
    return [by_kind, _confusion(found)]


def _confusion(found: Collector) -> Section:
    """The matrix of the types with the most errors."""
    pairs = {pair: number for pair, number in found.confusion.items() if pair[0] != pair[1]}
    weights = {
        kind: sum(number for pair, number in pairs.items() if kind in pair)
        for kind in {kind for pair in found.confusion for kind in pair if kind is not None}
    }
    kept = sorted(sorted(weights, key=lambda kind: (-weights[kind], kind))[:SHOWN_TYPES])
    names = [*kept, None]
    rows = [[mine or NONE, *(str(found.confusion[mine, theirs] or "") for theirs in names)] for mine in names]
    more = f" The {len(kept)} types with the most errors of {len(weights)}." if len(weights) > len(kept) else ""
    text = f"Gold types in rows, predicted types in columns: segments with the same tokens, or overlapping ones.{more}"
    return (
        "Which type is taken for which",
        text,
        html.table(["gold", *(name or NONE for name in names)], rows, is_matrix=True),
    )


def _suspects(places: Sequence[Place], unjudged: int) -> Section:
    body = "".join(_suspect(place) for place in places) or "<p>none</p>"
    text = (
        "Places where another reading is more probable than the gold, the most suspect first: labels that may be "
        "wrong, or that the model has yet to learn. Of data that the model was trained on, ask out of fold (--folds)."
    )
    if unjudged:
        text += f" {unjudged} gold segments are of types that the model does not know, and are not judged."
    return f"Labels to look at, {len(places)} of them", text, body


def _suspect(place: Place) -> str:
    suspect, sentence = place.suspect, place.sentence
    note = f"{sentence.where(suspect.tokens[0])} - {suspect.kind}"
    sides = (("gold", suspect.gold, suspect.gold_probability), ("model", suspect.reading, suspect.reading_probability))
    rows = [
        (f"{name}, {100 * share:.1f} %", _shown(sentence, [span] if span else [], [suspect.tokens], wrong=[]))
        for name, span, share in sides
    ]
    return html.readings(note, rows)


def _wrong(found: Collector) -> Section:
    wrong = found.wrong.best_first()
    body = "".join(_sentence(reading, errors) for reading, errors in wrong) or "<p>none</p>"
    return (
        f"Wrong sentences, {len(wrong)} of {found.wrong_sentences:,}",
        "Those first in which the model is surest of its own reading. What differs is outlined.",
        body,
    )


def _sentence(reading: Reading, errors: Sequence[Error], names: tuple[str, str] = ("gold", "model")) -> str:
    regions = [span[:2] for error in errors for span in (error.gold, error.predicted) if span]
    sides = [
        (names[0], reading.gold or (), [error.gold for error in errors]),
        (names[1], reading.predicted, [error.predicted for error in errors]),
    ]
    rows = [(name, _shown(reading.sentence, spans, regions, wrong=wrong)) for name, spans, wrong in sides]
    kinds = ", ".join(error.kind for error in errors)
    return html.readings(f"{reading.sentence.where(0)} - {kinds}", rows)


def _shown(
    sentence: Sentence,
    spans: Sequence[Span],
    regions: Sequence[tuple[int, int]],
    *,
    wrong: Sequence[Span | None],
) -> str:
    """A sentence as its text has it, or of a long one the part around these tokens."""
    tokens = sentence.tokens
    first = min((start for start, _ in regions), default=0) - AROUND
    after = max((end for _, end in regions), default=0) + AROUND
    if len(tokens) <= 4 * AROUND:
        first, after = 0, len(tokens)
    first, after = max(first, 0), min(after, len(tokens))
    # Whole segments: one that the window would cut is shown as far as it reaches.
    inside = [span for span in spans if span[1] > first and span[0] < after]
    first, after = min([first, *(s[0] for s in inside)]), max([after, *(s[1] for s in inside)])
    relative = [(start - first, end - first, kind) for start, end, kind in inside]
    marks = [(span[0] - first, span[1] - first, span[2]) for span in wrong if span is not None]
    blanks = (
        None
        if sentence.offsets is None
        else [" " * (end < start) for (_, end), (start, _) in pairwise(sentence.offsets[first:after])]
    )
    text = html.marked(tokens[first:after], relative, wrong=marks, blanks=blanks)
    return f"{'&hellip; ' if first else ''}{text}{' &hellip;' if after < len(tokens) else ''}"


def _uncertain(found: Collector) -> Section:
    body = "".join(
        html.readings(
            f"{reading.sentence.where(0)} - entropy {reading.entropy:.2f} nats",
            [("model", _shown(reading.sentence, reading.predicted, [], wrong=[]))],
        )
        for reading in found.uncertain.best_first()
    )
    text = "By the exact entropy of the distribution over all paths: what to label next (--select)."
    return "Most uncertain sentences", text, body


def _calibration(found: Collector) -> Section:
    calibration = found.calibration.result()
    rows = [[f"{100 * p:.1f}", f"{100 * right:.1f}", str(number)] for number, p, right in calibration.bins]
    lines = {
        "promised": [100 * each.probability for each in calibration.bins],
        "right": [100 * b.accuracy for b in calibration.bins],
    }
    ticks = [f"{100 * each.probability:.0f}" for each in calibration.bins]
    curves = html.curves(lines, x="promised, %", y="right, %", ticks=ticks)
    text = "Predicted segments by their exact probability: a calibrated model is right as often as it promises."
    return "Calibration", text, curves + html.table(("promised, %", "right, %", "segments"), rows)


def _properties(found: Collector) -> list[Section]:
    tables = (
        ("By length of the sentence", "tokens", found.by_sentence),
        ("By length of the segment", "tokens", found.by_segment),
        ("By words", "segments of", found.by_words),
    )
    return [
        (
            heading,
            "",
            html.table(
                (first, *RATIOS, "gold segments"),
                [[name, *_ratios(tally), str(tally.gold)] for name, tally in sorted(tallies.items(), key=_in_order)],
            ),
        )
        for heading, first, tallies in tables
        if tallies
    ]


def _in_order(item: tuple[str, Tally]) -> tuple[int, str]:
    number = item[0].partition(" ")[0]
    return (int(number) if number.isdigit() else 0), item[0]


def difference_line(found: Collector, comparison: Comparison) -> str:
    """How much better or worse the second model is, and whether chance makes as much."""
    test = comparison.test(found.counts)
    more = "higher" if test.difference > 0 else "lower"
    gain = f"{abs(test.difference):.2f} points {more} than" if test.difference else "the same as"
    chance = f"{test.p_value:.3f}" if test.p_value >= 0.001 else "less than 0.001"
    return (
        f"the second model's F1 is {gain} the first's; by chance a difference as large comes with probability {chance} "
        f"(sentences of the two swapped at random, {test.trials:,} trials)"
    )


def compare_sections(found: Collector, comparison: Comparison) -> list[Section]:
    """The second model beside the first."""
    first, second = (Tally(*counts.array()[:, 0].sum(0).tolist()) for counts in (found.counts, comparison.counts))
    both = comparison.found
    rows = [["first", *_ratios(first)], ["second", *_ratios(second)]]
    line = difference_line(found, comparison)
    text = (
        f"{line[0].upper()}{line[1:]}. Of the gold segments both find {both[True, True]}, the first alone "
        f"{both[True, False]}, the second alone {both[False, True]}, neither {both[False, False]}."
    )
    lists = (("second", "fewer", comparison.better), ("second", "more", comparison.worse))
    differences = [
        (
            f"Where the {which} model has {more} errors",
            "",
            "".join(_pair(*each) for each in kept.best_first()) or "<p>nowhere</p>",
        )
        for which, more, kept in lists
    ]
    return [("The two models", text, html.table(("model", *RATIOS), rows)), *differences]


def _pair(first: Reading, second: Reading) -> str:
    gold = first.gold or ()
    wrong = {"first": set(first.predicted) - set(gold), "second": set(second.predicted) - set(gold)}
    missed = [span for span in gold if not (span in first.predicted and span in second.predicted)]
    sides = (
        ("gold", gold, missed),
        ("first", first.predicted, wrong["first"]),
        ("second", second.predicted, wrong["second"]),
    )
    regions = [span[:2] for _, _, spans in sides for span in spans]
    rows = [(name, _shown(first.sentence, spans, regions, wrong=list(bad))) for name, spans, bad in sides]
    return html.readings(first.sentence.where(0), rows)
