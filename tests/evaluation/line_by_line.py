"""An oracle: conlleval's rules, one line at a time, as its truth tables state them; knows nothing of maskedcrf."""

from __future__ import annotations

from collections import Counter

STARTS = {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}
ENDS = {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("E", "E"), ("E", "I"), ("E", "O")}


def split(tag):
    prefix, _, kind = tag.partition("-")
    return prefix, kind


def starts(before, after):
    return (before[0], after[0]) in STARTS or (after[0] != "O" and before[1] != after[1])


def ends(before, after):
    return (before[0], after[0]) in ENDS or (before[0] != "O" and before[1] != after[1])


def conlleval(gold, predicted):
    """The text conlleval prints for these sentences."""
    tokens = same = 0
    counts = {"right": Counter(), "found": Counter(), "wanted": Counter()}
    last_gold = last_guess = ("O", "")
    inside = False
    lines = [pair for g, p in zip(gold, predicted, strict=True) for pair in [*zip(g, p, strict=True), None]]
    for line in lines:
        now_gold, now_guess = (("O", ""), ("O", "")) if line is None else (split(line[0]), split(line[1]))
        gold_ends, guess_ends = ends(last_gold, now_gold), ends(last_guess, now_guess)
        if inside:
            if gold_ends and guess_ends and last_gold[1] == last_guess[1]:
                counts["right"][last_gold[1]] += 1
                inside = False
            elif gold_ends != guess_ends or now_gold[1] != now_guess[1]:
                inside = False
        gold_starts, guess_starts = starts(last_gold, now_gold), starts(last_guess, now_guess)
        inside = inside or (gold_starts and guess_starts and now_gold[1] == now_guess[1])
        counts["wanted"][now_gold[1]] += gold_starts
        counts["found"][now_guess[1]] += guess_starts
        if line is not None:
            tokens += 1
            same += now_gold == now_guess
        last_gold, last_guess = now_gold, now_guess
    return _report(tokens, same, counts)


def _report(tokens, same, counts):
    right, found, wanted = ({k: n for k, n in counts[name].items() if n} for name in ("right", "found", "wanted"))
    totals = [sum(each.values()) for each in (right, found, wanted)]
    text = f"processed {tokens} tokens with {totals[2]} phrases; found: {totals[1]} phrases; correct: {totals[0]}.\n"
    if tokens:
        text += f"accuracy: {100 * same / tokens:6.2f}%; {_ratios(*totals)}\n"
    last = None
    for kind in sorted([*wanted, *found], key=lambda name: name.encode()):
        # Perl asks whether the last name is false, and "" and "0" are: those are listed once per side.
        if last in (None, "", "0") or last != kind:
            name = b"%17s" % kind.encode()
            figures = (right.get(kind, 0), found.get(kind, 0), wanted.get(kind, 0))
            text += f"{name.decode()}: {_ratios(*figures)}  {figures[1]}\n"
        last = kind
    return text


def _ratios(right, found, wanted):
    precision = 100 * right / found if found else 0.0
    recall = 100 * right / wanted if wanted else 0.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return f"precision: {precision:6.2f}%; recall: {recall:6.2f}%; FB1: {f1:6.2f}"
