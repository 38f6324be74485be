"""What to label next: the sentences a model is least certain of, with its reading as a suggestion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from maskedcrf.data.sentence import Sentence
from maskedcrf.inspection.reading import in_context, read_sentences
from maskedcrf.inspection.top import Top
from maskedcrf.tagger.tagger import Tagger
from maskedcrf.tags.segments import Segment, encode


def most_uncertain(tagger: Tagger, sentences: Iterable[Sentence], number: int) -> list[Sentence]:
    """The sentences of the greatest exact entropy, each text once, with the tags that the model gives them."""
    unlabelled = (replace(sentence, tags=None, columns=()) for sentence in sentences)
    kept: Top[Sentence] = Top(number)
    chosen: set[tuple[str, ...]] = set()
    for reading in read_sentences(tagger, in_context(tagger, unlabelled), gold_scheme=tagger.output_scheme):
        tokens = reading.sentence.tokens
        if tokens in chosen:
            continue
        tags = encode([Segment(*span) for span in reading.predicted], len(tokens), tagger.output_scheme)
        dropped = kept.add(reading.entropy, replace(reading.sentence, tags=tuple(tags)))
        chosen.add(tokens)
        if dropped is not None:
            chosen.discard(dropped.tokens)
    return kept.best_first()
