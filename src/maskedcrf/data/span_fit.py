"""From an annotated text to sentences of tokens with tags; spans that do not fit are reported, never lost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from maskedcrf.data.annotation import AnnotatedText, ReadReport, Span
from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, encode

Misfits = Literal["error", "snap", "drop"]
Overlaps = Literal["error", "longest", "first"]
Ranges = Sequence[tuple[int, int]]
Cut = Callable[[str], Ranges]


def whole_text(text: str) -> Ranges:
    """One range: the text itself."""
    return [(0, len(text))]


@dataclass(frozen=True, slots=True)
class SpanFitter:
    """Cuts texts into sentences and tokens, and writes spans as tags."""

    tokenizer: Cut
    splitter: Cut = whole_text
    scheme: Scheme = field(default_factory=lambda: Scheme.get("BIO"))
    misfits: Misfits = "error"
    """A span that begins or ends inside a token, covers none, or crosses a sentence break: `error`, `drop` it, or
    `snap` it outwards to whole tokens where that is possible."""
    overlaps: Overlaps = "error"
    """Of spans that share a token: `error`, or keep the `longest` or the `first`."""
    report: ReadReport = field(default_factory=ReadReport)

    def sentences(self, text: AnnotatedText) -> Iterator[Sentence]:
        """The sentences of a text; one without tokens if it has none, so that no text is lost."""
        spans = sorted(text.spans or ())
        # A file that gives tokens has cut its sentences too.
        ranges = self.splitter(text.text) if text.tokens is None else whole_text(text.text)
        pieces = [(start, end, self._tokens(text, start, end)) for start, end in ranges]
        pieces = [piece for piece in pieces if piece[2]] or [(0, len(text.text), ())]
        starts = [span.start for span in spans]
        inside = [
            [span for span in spans[bisect_left(starts, start) : bisect_right(starts, end)] if span.end <= end]
            for start, end, _ in pieces
        ]
        self._report_crossing(text, spans, [span for row in inside for span in row])
        for (start, end, tokens), own in zip(pieces, inside, strict=True):
            tags = None if text.spans is None else self._tags(text, tokens, own)
            yield Sentence(
                tokens=tuple(text.text[first:last] for first, last in tokens),
                tags=tags,
                file=text.file,
                line=text.line + (text.text.count("\n", 0, tokens[0][0]) if text.is_file and tokens else 0),
                document=text.document,
                text=text.text[start:end],
                offsets=tuple((first - start, last - start) for first, last in tokens),
                open=_outside(tags, self.scheme) if text.is_partial else (),
                one_line=True,
                unit=text.unit,
            )

    def _tokens(self, text: AnnotatedText, start: int, end: int) -> Ranges:
        if text.tokens is not None:
            return text.tokens
        return [(start + first, start + last) for first, last in self.tokenizer(text.text[start:end])]

    def _report_crossing(self, text: AnnotatedText, spans: Sequence[Span], inside: Sequence[Span]) -> None:
        if len(inside) < len(spans):
            near = "no sentence holds it" if text.tokens else "split otherwise (--sentences, data.sentences)"
            for span in spans:
                if span not in inside:
                    self._refuse_or_count(text, span, "crosses a sentence break", near)

    def _tags(self, text: AnnotatedText, tokens: Ranges, spans: Sequence[Span]) -> tuple[str, ...]:
        starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
        fitted: list[tuple[Segment, Span]] = []
        for span in spans:
            first, after = bisect_right(ends, span.start), bisect_left(starts, span.end)
            if first >= after:
                self._refuse_or_count(text, span, "covers no token", "remove it or correct its numbers")
                continue
            begin, end = starts[first], ends[after - 1]
            if begin < span.start or end > span.end:
                cut = first if begin < span.start else after - 1
                why = f"cuts the token {text.text[starts[cut] : ends[cut]]!r}"
                near = f"the nearest boundaries are {begin}:{end} {text.text[begin:end]!r:.80}"
                if not self._refuse_or_count(text, span, why, near, can_snap=True):
                    continue
            fitted.append((Segment(first, after, span.label), span))
        return tuple(encode(self._without_overlaps(text, tokens, fitted), len(tokens), self.scheme))

    def _without_overlaps(
        self, text: AnnotatedText, tokens: Ranges, fitted: list[tuple[Segment, Span]]
    ) -> list[Segment]:
        if self.overlaps == "longest":
            fitted = sorted(fitted, key=lambda pair: pair[0].start - pair[0].end)
        kept: list[Segment] = []
        for segment, span in fitted:
            other = next((each for each in kept if each.start < segment.end and segment.start < each.end), None)
            if other is None:
                kept.append(segment)
                continue
            start, end = tokens[max(other.start, segment.start)]
            both = f"{other.type} and {segment.type} both cover {text.text[start:end]!r}"
            if self.overlaps == "error":
                raise DataError(
                    f"{text.where}: {both}; keep one of them, or choose: overlaps longest or first (--overlaps)"
                )
            self.report.count("overlapping spans dropped")
            self.report.places.append(f"{_describe(text, span)}: {both}; dropped ({self.overlaps} kept)")
        return sorted(kept)

    def _refuse_or_count(self, text: AnnotatedText, span: Span, why: str, near: str, *, can_snap: bool = False) -> bool:
        """Whether to snap a span that does not fit; otherwise it is dropped, or refused."""
        message = f"{_describe(text, span)} {why}; {near}"
        if self.misfits == "error":
            ways = "snap or drop" if can_snap else "drop"
            raise DataError(f"{message}; correct it, or choose: misfits {ways} (--misfits)")
        snaps = self.misfits == "snap" and can_snap
        done = "snapped" if snaps else "dropped"
        self.report.count(f"spans {done} that fit no tokens")
        self.report.places.append(f"{message}; {done}")
        return snaps


def _outside(tags: Sequence[str] | None, scheme: Scheme) -> tuple[int, ...]:
    return tuple(place for place, tag in enumerate(tags or ()) if tag == scheme.outside)


def _describe(text: AnnotatedText, span: Span) -> str:
    return f"{text.where}: span {span.start}:{span.end} {span.label} {text.text[span.start : span.end]!r:.80}"
