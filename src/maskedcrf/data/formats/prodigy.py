"""Prodigy's JSON lines: text, tokens, spans and the annotator's answer; only accepted examples are gold.

Of an example that asked about one span (`_is_binary`), the tokens outside the span are left open: nobody judged them.
Where a text stands twice, of two annotators or two passes, both must agree.
"""

from __future__ import annotations

import json
import os
from typing import Any

from maskedcrf.data.annotation import AnnotatedText, Span
from maskedcrf.data.formats.jsonl import spans_of
from maskedcrf.data.formats.options import ReadOptions, Records
from maskedcrf.data.formats.values import ANSWERS, json_lines, require_objects, text_of
from maskedcrf.errors import DataError
from maskedcrf.files import file_name

OTHER_RECIPES = {"label", "options", "accept", "audio_spans", "image"}


def read_prodigy(path: str | os.PathLike[str], options: ReadOptions) -> Records:
    """The accepted texts, one by one; rejected and ignored ones are left out and counted."""
    name = file_name(path)
    seen: dict[str, list[Span]] = {}
    for number, where, record in json_lines(path):
        text = text_of(record, where, "only texts with spans are read")
        answer = record.get("answer", "accept")
        if answer not in ANSWERS:
            raise DataError(f"{where}: the answer is {answer!r:.40}; it must be {', '.join(ANSWERS)}")
        if answer != "accept" and options.tag_column is not None:
            options.report.count(f"{answer}{'ed' if answer == 'reject' else 'd'} examples left out")
            continue
        if "spans" not in record and not OTHER_RECIPES.isdisjoint(record):
            raise DataError(f"{where}: no spans, but what other recipes ask for; only texts with spans are read")
        spans = None if options.tag_column is None else spans_of(record.get("spans") or [], text, where)
        tokens = _tokens(record.get("tokens"), text, where)
        is_partial = record.get("_is_binary") is True and spans is not None
        if spans is not None and not is_partial:
            if text in seen:
                _require_agreement(seen[text], sorted(spans), where)
                options.report.count("repeated examples left out")
                continue
            seen[text] = sorted(spans)
        yield AnnotatedText(text, spans, name, number, document=number, tokens=tokens, is_partial=is_partial)


def _require_agreement(before: list[Span], own: list[Span], where: str) -> None:
    if before != own:
        raise DataError(
            f"{where}: this text stood before with other spans; have Prodigy join them (review, data-to-spacy)"
        )


def _tokens(tokens: Any, text: str, where: str) -> tuple[tuple[int, int], ...] | None:
    """Where the tokens of the example stand; blanks that are tokens of their own are left out."""
    if tokens is None:
        return None
    places: list[tuple[int, int]] = []
    end = 0
    for token in require_objects(tokens, "tokens", where):
        start, after, word = token.get("start"), token.get("end"), token.get("text")
        if type(start) is not int or type(after) is not int or not end <= start < after <= len(text):
            raise DataError(f"{where}: token {json.dumps(word)[:40]} needs a start and end in the text, in order")
        if word is not None and text[start:after] != word:
            raise DataError(f"{where}: token {json.dumps(word)[:40]} is not what stands at {start}:{after}")
        if not text[start:after].isspace():
            places.append((start, after))
        end = after
    return tuple(places)
