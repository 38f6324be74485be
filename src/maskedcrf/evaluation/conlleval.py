"""evaluate: conlleval's score and report, under any scheme and any rule for illegal segments.

>>> print(evaluate([["B-LOC", "O"]], [["B-LOC", "O"]]).report(), end="")
processed 2 tokens with 1 phrases; found: 1 phrases; correct: 1.
accuracy: 100.00%; precision: 100.00%; recall: 100.00%; FB1: 100.00
              LOC: precision: 100.00%; recall: 100.00%; FB1: 100.00  1
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, overload

from maskedcrf.evaluation.compare import signature
from maskedcrf.evaluation.counts import Counts, Strategy, Tags, Tally, count
from maskedcrf.tags.scheme import Scheme


@dataclass(frozen=True)
class Evaluation:
    """A score with its counts and its settings; every ratio in percent, unrounded."""

    counts: Counts
    scheme: str
    strategy: str
    corpus: str | None = None
    model: str | None = None
    """What predicted the tags, where that is known."""
    decoding: str | None = None

    @property
    def tokens(self) -> int:
        """How many tokens were scored."""
        return self.counts.tokens

    @property
    def accuracy(self) -> float:
        """Share of tokens with the right tag."""
        return 100 * self.counts.correct_tags / self.tokens if self.tokens else 0.0

    @property
    def correct(self) -> int:
        """Predicted segments that are right: same first and last token, same type."""
        return self.counts.total.correct

    @property
    def predicted(self) -> int:
        """Predicted segments."""
        return self.counts.total.predicted

    @property
    def gold(self) -> int:
        """Gold segments."""
        return self.counts.total.gold

    @property
    def precision(self) -> float:
        """Share of the predicted segments that are right."""
        return self.counts.total.precision

    @property
    def recall(self) -> float:
        """Share of the gold segments that were found."""
        return self.counts.total.recall

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall over all segments."""
        return self.counts.total.f1

    @property
    def types(self) -> dict[str, Tally]:
        """The tally of each type, sorted by name."""
        return {kind: self.counts.types[kind] for kind in sorted(self.counts.types)}

    @property
    def signature(self) -> str:
        """How this number was made, in one line."""
        made = {"model": self.model, "decoding": self.decoding}
        return signature(corpus=self.corpus, scheme=self.scheme, illegal=self.strategy, **made)

    def to_dict(self) -> dict[str, object]:
        """The same as plain values, for JSON."""
        return {
            "tokens": self.tokens,
            "accuracy": self.accuracy,
            **_figures(self.counts.total),
            "types": {kind: _figures(tally) for kind, tally in self.types.items()},
            "strategy": self.strategy,
            "scheme": self.scheme,
            "signature": self.signature,
        }

    def report(self) -> str:
        """The text that conlleval prints for these counts, to the byte."""
        total = self.counts.total
        lines = [
            f"processed {self.tokens} tokens with {total.gold} phrases; "
            f"found: {total.predicted} phrases; correct: {total.correct}."
        ]
        if self.tokens:
            lines.append(f"accuracy: {self.accuracy:6.2f}%; {_ratios(total)}")
        for kind in _type_names(self.types):
            # Perl pads bytes, not characters.
            padding = " " * (17 - len(kind.encode("utf-8", "surrogatepass")))
            lines.append(f"{padding}{kind}: {_ratios(self.types[kind])}  {self.types[kind].predicted}")
        return "\n".join(lines) + "\n"


def _figures(tally: Tally) -> dict[str, float]:
    return {name: getattr(tally, name) for name in ("gold", "predicted", "correct", "precision", "recall", "f1")}


def _ratios(tally: Tally) -> str:
    return f"precision: {tally.precision:6.2f}%; recall: {tally.recall:6.2f}%; FB1: {tally.f1:6.2f}"


def _type_names(types: dict[str, Tally]) -> Iterator[str]:
    """Type names as conlleval lists them: it prints a name that Perl holds for false twice, once per side."""
    for kind, tally in types.items():
        yield kind
        if kind in ("", "0") and tally.gold and tally.predicted:
            yield kind


@overload
def evaluate(
    gold: Iterable[Tags], predicted: Iterable[Tags], *, scheme: str | Scheme = ..., strategy: Strategy = ...
) -> Evaluation: ...
@overload
def evaluate(
    gold: Iterable[Tags], predicted: Iterable[Tags], *, scheme: str | Scheme = ..., strategy: Literal["both"]
) -> dict[str, Evaluation]: ...
def evaluate(
    gold: Iterable[Tags],
    predicted: Iterable[Tags],
    *,
    scheme: str | Scheme = "BIO",
    strategy: Strategy | Literal["both"] = "retain",
) -> Evaluation | dict[str, Evaluation]:
    """The score of predicted tags against gold tags, each given as one list of tags per sentence.

    `strategy` says what happens to illegal predicted segments: `retain` counts them, as conlleval does; `discard` drops
    them; `both` gives a dict of the two. `seqeval` and `strict` give the numbers of seqeval's default and strict mode.
    """
    gold, predicted, scheme = list(gold), list(predicted), Scheme.get(scheme)
    if strategy == "both":
        return {
            rule: Evaluation(count(gold, predicted, scheme=scheme, strategy=rule), scheme.name, rule)
            for rule in ("retain", "discard")
        }
    return Evaluation(count(gold, predicted, scheme=scheme, strategy=strategy), scheme.name, strategy)
