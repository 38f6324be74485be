"""Gold checked before training: what the scheme forbids is refused, repaired or dropped, and always reported.

>>> kept, report = check_gold([Sentence(("a", "b"), ("O", "I-LOC"), "train.conll", 7)], "BIO", policy="repair")
>>> kept[0].tags
('O', 'B-LOC')
>>> report.places
(IllegalStep(where='train.conll:8', previous='O', tag='I-LOC'),)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple, get_args

from maskedcrf.data.sentence import Sentence, in_chunks
from maskedcrf.errors import DataError
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Strategy, UnknownTagError, all_violations, discard, read_known, retain

Policy = Literal["error", "repair", "drop"]
REPAIRS = {"retain": retain, "discard": discard}


class IllegalStep(NamedTuple):
    """An illegal step of the gold: file:line of its second tag, and both tags; None is the sentence's edge."""

    where: str
    previous: str | None
    tag: str | None

    def __str__(self) -> str:
        return f"{self.where}: {self.previous or 'sentence start'} -> {self.tag or 'sentence end'}"


@dataclass(frozen=True, slots=True)
class GoldReport:
    """What a check found and what was done about it."""

    scheme: str
    policy: Policy
    strategy: Strategy
    """How `repair` repairs: `retain` makes the segment legal, `discard` takes it out."""
    sentences: int
    """Sentences looked at; `touched` of them held illegal steps and were repaired or dropped."""
    tokens: int
    touched: int
    tokens_dropped: int
    places: tuple[IllegalStep, ...]
    """Every illegal step, in order."""

    def __str__(self) -> str:
        if not self.places:
            return f"{self.sentences} sentences, no illegal tag under {self.scheme}"
        done = f"repaired ({self.strategy})" if self.policy == "repair" else f"dropped ({self.tokens_dropped} tokens)"
        first = f"{len(self.places)} illegal steps under {self.scheme}; {self.touched} sentences {done}"
        return "\n".join([first, *map(str, self.places)])

    def as_dict(self) -> dict[str, Any]:
        """The report for a JSON file."""
        places = [{"where": where, "from": previous, "to": tag} for where, previous, tag in self.places]
        return {**asdict(self), "places": places}


def check_gold(
    sentences: Iterable[Sentence],
    scheme: str | Scheme,
    *,
    policy: Policy = "error",
    strategy: Strategy = "retain",
) -> tuple[list[Sentence], GoldReport]:
    """The sentences with legal tags only, and the report; with `error` an illegal step raises, naming the first.

    `repair` rewrites the tags of a sentence with the strategy, `drop` leaves the sentence out.
    """
    scheme = Scheme.get(scheme)
    for name, value, known in (("gold policy", policy, get_args(Policy)), ("strategy", strategy, REPAIRS)):
        if value not in known:
            raise DataError(f"unknown {name} {value!r}; known are {', '.join(known)}")
    kept: list[Sentence] = []
    places: list[IllegalStep] = []
    count = tokens = touched = dropped = 0
    for chunk in in_chunks(sentences):
        illegal = _illegal(chunk, scheme)
        for number, sentence in enumerate(chunk):
            found = illegal.get(number)
            places += found or []
            if found is None or policy == "error":
                kept.append(sentence)
            elif policy == "repair":
                kept.append(_repair(sentence, scheme, strategy))
            else:
                dropped += len(sentence)
        count, tokens, touched = count + len(chunk), tokens + sum(map(len, chunk)), touched + len(illegal)
    if places and policy == "error":
        raise DataError(
            f"{places[0]} is illegal in {scheme.name} ({_and_more(len(places))}); "
            "name the file's scheme if it is another (--file-scheme; maskedcrf check shows which fit), "
            "else choose a policy (--illegal-gold repair or drop), or correct the file"
        )
    return kept, GoldReport(scheme.name, policy, strategy, count, tokens, touched, dropped, tuple(places))


def _illegal(chunk: list[Sentence], scheme: Scheme) -> dict[int, list[IllegalStep]]:
    """The illegal steps of each sentence that has any, by its number in the chunk."""
    tags = [_tags(sentence) for sentence in chunk]
    try:
        steps = all_violations(tags, read_known(tags, scheme))
    except UnknownTagError as error:
        where = chunk[error.sentence].where(error.position)
        raise DataError(f"{where}: {error.reason}; name the file's scheme and tag column") from error
    found: dict[int, list[IllegalStep]] = {}
    for number, (position, before, after) in steps:
        where = chunk[number].where(min(position, len(tags[number]) - 1))
        found.setdefault(number, []).append(IllegalStep(where, before, after))
    return found


def _tags(sentence: Sentence) -> tuple[str, ...]:
    if sentence.tags is None:
        raise DataError(f"{sentence.where(0)}: no tags here; training and scoring need them on every token")
    return sentence.tags


def _repair(sentence: Sentence, scheme: Scheme, strategy: Strategy) -> Sentence:
    tags = tuple(REPAIRS[strategy](_tags(sentence), scheme))
    # The tags are one of the columns: written back, the file must say the same.
    columns = tuple(tags if column is sentence.tags else column for column in sentence.columns)
    return replace(sentence, tags=tags, columns=columns)


def _and_more(count: int) -> str:
    return "the only place" if count == 1 else f"the first of {count} places"
