"""Which tokenizer a model needs: the one whose words are those it was trained on, chosen by measurement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from maskedcrf.data.annotation import AnnotatedText
from maskedcrf.data.learned_tokenizer import learn_habits
from maskedcrf.data.sentence import Sentence
from maskedcrf.data.token_text import join_tokens
from maskedcrf.data.tokenizers import Tokenizer, get_tokenizer

CANDIDATES = ("unicode", "learned", "simple", "characters", "whitespace")
"""In the order in which equals are preferred."""
FOR_SPANS = ("unicode", "simple")
EVERY = 10
"""One sentence in so many is measured; habits are learnt from the others."""
BY_CHARACTER = 0.98
"""Share of tokens of one character above which tokens are characters."""
ENOUGH = 99.0
"""Per cent of tokens that must be cut as in training, or else a warning says which are not."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A tokenizer and how well its tokens agree with those trained on."""

    tokenizer: Tokenizer
    agreement: float
    """F1 of its tokens against the given ones, in per cent."""
    differences: tuple[tuple[str, int], ...] = ()
    """Tokens that it cuts otherwise, and how often, of those measured."""

    def warning(self) -> str | None:
        """What to say if too many tokens differ."""
        if self.agreement >= ENOUGH:
            return None
        examples = ", ".join(f"{token!r} {count}" for token, count in self.differences)
        return (
            f"raw text will be cut by {self.tokenizer.name!r}, which agrees with {self.agreement:.1f} % of the tokens "
            f"trained on; it cuts otherwise: {examples}; give the model tokens, or name a tokenizer (data.tokenizer)"
        )


def choose_tokenizer(records: Sequence[Sentence | AnnotatedText], name: str) -> Choice:
    """The tokenizer named, or with `auto` the one that agrees best with the records: their tokens, else their spans."""
    texts = [record for record in records if isinstance(record, AnnotatedText) and record.tokens is None]
    own = (_with_tokens(record) if isinstance(record, AnnotatedText) else record for record in records)
    given = [sentence for sentence in own if sentence.tokens]
    names = CANDIDATES if name == "auto" else [name]
    if texts and name == "auto":
        names = [choose_for_spans(texts).name]
    if texts and not given:
        return Choice(get_tokenizer(names[0]), 100.0)
    return choose_for_tokens(given, names)


def _with_tokens(text: AnnotatedText) -> Sentence:
    offsets = text.tokens or ()
    return Sentence(tuple(text.text[start:end] for start, end in offsets), text=text.text, offsets=offsets)


def choose_for_tokens(sentences: Sequence[Sentence], names: Sequence[str] = CANDIDATES) -> Choice:
    """The candidate that cuts the sentences' text most nearly into their tokens."""
    is_small = len(sentences) < 2 * EVERY
    measured = sentences if is_small else sentences[::EVERY]
    others = sentences if is_small else [each for number, each in enumerate(sentences) if number % EVERY]
    by_character = _is_by_character(sentences)
    texts = [_text_of(sentence, by_character=by_character) for sentence in measured]
    best: Choice | None = None
    for name in names:
        tokenizer = _candidate(name, others)
        found = Choice(tokenizer, *_measure(tokenizer, texts))
        if best is None or found.agreement > best.agreement:
            best = found
    assert best is not None
    if best.tokenizer.name == "learned":
        return Choice(_candidate("learned", sentences), best.agreement, best.differences)
    return best


def choose_for_spans(texts: Sequence[AnnotatedText], names: Sequence[str] = FOR_SPANS) -> Tokenizer:
    """The candidate whose tokens fit most of the spans."""
    found = [get_tokenizer(name) for name in names]
    return max(found, key=lambda each: sum(_fitting(text, each) for text in texts))


def _candidate(name: str, sentences: Sequence[Sentence]) -> Tokenizer:
    if name != "learned":
        return get_tokenizer(name)
    return get_tokenizer({"name": "learned", **learn_habits(each.tokens for each in sentences).to_json()})


def _is_by_character(sentences: Sequence[Sentence]) -> bool:
    """Whether the tokens are characters, as in corpora of Chinese: the text has no blanks between them."""
    lengths = [len(token) for sentence in sentences for token in sentence.tokens]
    return sum(length == 1 for length in lengths) > BY_CHARACTER * len(lengths)


def _text_of(sentence: Sentence, *, by_character: bool) -> tuple[str, Sequence[tuple[int, int]]]:
    if sentence.text is not None and sentence.offsets is not None:
        return sentence.text, sentence.offsets
    if by_character:
        ends = list(accumulate(map(len, sentence.tokens), initial=0))
        return "".join(sentence.tokens), list(pairwise(ends))
    return join_tokens(sentence.tokens)


def _measure(
    cut: Callable[[str], Sequence[tuple[int, int]]], texts: Sequence[tuple[str, Sequence[tuple[int, int]]]]
) -> tuple[float, tuple[tuple[str, int], ...]]:
    """F1 of the tokens in per cent, and the given tokens that are most often cut otherwise."""
    given = made = equal = 0
    missed: Counter[str] = Counter()
    for text, offsets in texts:
        own = set(cut(text))
        given, made = given + len(offsets), made + len(own)
        for start, end in offsets:
            if (start, end) in own:
                equal += 1
            else:
                missed[text[start:end]] += 1
    return (200 * equal / (given + made) if given + made else 100.0), tuple(missed.most_common(5))


def _fitting(text: AnnotatedText, cut: Tokenizer) -> int:
    ranges = cut(text.text)
    starts, ends = {start for start, _ in ranges}, {end for _, end in ranges}
    return sum(span.start in starts and span.end in ends for span in text.spans or ())
