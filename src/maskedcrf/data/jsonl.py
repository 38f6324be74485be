"""JSON lines: a sentence a line, as tokens with tags or as text with character spans.

    {"tokens": ["fly", "to", "Lima"], "tags": ["O", "O", "B-LOC"]}
    {"tokens": ["fly", "to", "Lima"], "ner_tags": [0, 0, 1]}                          with labels=["O", "B-LOC"]
    {"text": "fly to Lima.", "spans": [{"start": 7, "end": 11, "label": "LOC"}]}

Without `tags`, `ner_tags` and `spans` a line is a sentence to be tagged. Spans count code points, `end` is exclusive.
A span must begin and end where a token does: it is never moved or dropped to make it fit.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from maskedcrf.data.sentence import Sentence
from maskedcrf.errors import DataError
from maskedcrf.files import file_name, numbered_lines
from maskedcrf.tags.scheme import Scheme
from maskedcrf.tags.segments import Segment, encode

JOINER = "\u200d"
ASCII_TOKEN = re.compile(r"\w+|[^\w\s]")


class Token(NamedTuple):
    """A token and where it stands in its text."""

    text: str
    start: int
    end: int


def read_jsonl(
    path: str | os.PathLike[str], *, labels: Sequence[str] | None = None, scheme: str | Scheme = "BIO"
) -> Iterator[Sentence]:
    """The sentences of a file, one by one; `-` is standard input, gzip is seen by its first bytes.

    `labels` names the tags where they are numbers; `scheme` is what spans are written in.
    """
    scheme = Scheme.get(scheme)
    name = file_name(path)
    for number, line in numbered_lines(path):
        if line.strip():
            where = f"{name}:{number}"
            tokens, tags = _sentence(json_record(line, where), where, labels, scheme)
            yield Sentence(tuple(tokens), None if tags is None else tuple(tags), name, number, one_line=True)


def read_text(path: str | os.PathLike[str]) -> Iterator[Sentence]:
    """The lines of a plain text, tokenised; a blank line is a sentence without tokens, so that none is lost."""
    name = file_name(path)
    for number, line in numbered_lines(path):
        yield Sentence(tuple(token.text for token in tokenise(line)), None, name, number, one_line=True)


def tokenise(text: str) -> list[Token]:
    """The tokens of a text, with their places in it."""
    return [Token(text[start:end], start, end) for start, end in places(text)]


def places(text: str) -> list[tuple[int, int]]:
    """Where tokens begin and end: words, and every other visible character alone, so that none is left out.

    Accents, variation selectors and joiners stay with what they follow; Chinese and kana are cut by the character.
    """
    if text.isascii():  # the same, much faster
        return [found.span() for found in ASCII_TOKEN.finditer(text)]
    starts: list[int] = []
    ends: list[int] = []
    before, previous = "space", ""
    for position, character in enumerate(text):
        kind = _kind(character)
        if kind != "space":
            glued = kind == "mark" or previous == JOINER or (kind == "word" and before == "word")
            if glued and before != "space":
                ends[-1] = position + 1
            else:
                starts.append(position)
                ends.append(position + 1)
        if kind != "mark" or before == "space":
            before = kind
        previous = character
    return list(zip(starts, ends, strict=True))


@lru_cache(maxsize=1 << 16)
def _kind(character: str) -> str:
    if character.isspace():
        return "space"
    if unicodedata.category(character)[0] == "M" or unicodedata.category(character) == "Cf":
        return "mark"
    if "\U0001f3fb" <= character <= "\U0001f3ff":  # skin tones
        return "mark"
    alone = unicodedata.name(character, "").startswith(("CJK ", "HIRAGANA ", "KATAKANA "))
    return "word" if (character.isalnum() or character == "_") and not alone else "other"


def json_record(line: str, where: str) -> dict[str, Any]:
    """The object on one line; whatever else stands there is refused."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
        raise DataError(f'{where}: not JSON ({reason}); write one object a line, such as {{"tokens": []}}') from error
    if not isinstance(record, dict):
        raise DataError(f"{where}: {type(record).__name__} where an object with tokens or text is needed")
    return record


def _sentence(
    record: dict[str, Any], where: str, labels: Sequence[str] | None, scheme: Scheme
) -> tuple[list[str], list[str] | None]:
    words = tokens_or_text(record, where)
    if not isinstance(words, str):
        tags = record.get("tags", record.get("ner_tags"))
        return words, None if tags is None else tag_names(tags, len(words), where, labels)
    found = tokenise(words)
    spans = record.get("spans")
    return [token.text for token in found], None if spans is None else _tags(spans, words, found, where, scheme)


def tokens_or_text(record: dict[str, Any], where: str) -> list[str] | str:
    """The tokens of a record or, where it has none, its text as it stands."""
    if "tokens" in record:
        return strings(record["tokens"], "tokens", where)
    if "text" not in record:
        keys = json.dumps(list(record))[:80]
        raise DataError(f"{where}: neither tokens nor text (keys: {keys}); name the columns as `tokens`, `tags`")
    text = record["text"]
    if not isinstance(text, str):
        raise DataError(f"{where}: text must be a string, got {json.dumps(text)[:40]}")
    return strings([text], "text", where)[0]


def tag_names(tags: Any, size: int, where: str, labels: Sequence[str] | None) -> list[str]:
    """Tags as strings, one for each of `size` tokens; numbers are looked up in `labels`."""
    numbers = isinstance(tags, list) and any(isinstance(tag, int) for tag in tags)
    if numbers and labels is None:
        raise DataError(f"{where}: the tags are numbers; say what they mean with labels=[...]")
    if numbers and labels is not None:
        for tag in tags:
            if type(tag) is not int or not 0 <= tag < len(labels):
                raise DataError(
                    f"{where}: {tag!r} is none of the {len(labels)} labels; read without tags if unlabelled"
                )
        tags = [labels[tag] for tag in tags]
    tags = strings(tags, "tags", where)
    if not all(map(_is_name, set(tags))):
        raise DataError(f"{where}: a tag is empty or holds a character that cannot be shown; write tags such as B-LOC")
    if len(tags) != size:
        raise DataError(f"{where}: {size} tokens but {len(tags)} tags; give every token one tag")
    return list(tags)


def _is_name(label: Any) -> bool:
    return isinstance(label, str) and label != "" and label.isprintable()


def strings(values: Any, key: str, where: str) -> list[str]:
    """The values, if they are a list of strings that can be written as UTF-8."""
    if not isinstance(values, list):
        raise DataError(f"{where}: {key} must be a list of strings, got {type(values).__name__}")
    for number, value in enumerate(values):
        if not isinstance(value, str):
            raise DataError(f"{where}: {key}[{number}] must be a string, got {json.dumps(value)[:40]}")
    try:
        "".join(values).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: {key} hold half a character ({error.reason}); write the text as UTF-8") from error
    return values


def _tags(spans: Any, text: str, tokens: Sequence[Token], where: str, scheme: Scheme) -> list[str]:
    """Spans as the tags of the tokens they cover."""
    if not isinstance(spans, list):
        raise DataError(f"{where}: spans must be a list of objects, got {type(spans).__name__}")
    starts, ends = [token.start for token in tokens], [token.end for token in tokens]
    segments: list[Segment] = []
    for start, end, label in sorted(_span(span, len(text), where) for span in spans):
        for border in (start, end):
            token = tokens[bisect_left(starts, border) - 1] if starts and border > starts[0] else None
            if token and border < token.end:
                near = f"its borders are {token.start} and {token.end}"
                raise DataError(f"{where}: span {start}:{end} {label} cuts the token {token.text!r}; {near}")
        segment = Segment(bisect_left(starts, start), bisect_right(ends, end), label)
        if segment.start >= segment.end:
            raise DataError(f"{where}: span {start}:{end} {label} covers no token; remove it or correct its numbers")
        if segments and segment.start < segments[-1].end:
            both = f"{segments[-1].type} and {label} both cover {tokens[segment.start].text!r}"
            raise DataError(f"{where}: {both}; spans may not overlap, keep one")
        segments.append(segment)
    return encode(segments, len(tokens), scheme)


def _span(span: Any, size: int, where: str) -> tuple[int, int, str]:
    shown = json.dumps(span)[:60]
    if not isinstance(span, dict) or not {"start", "end", "label"} <= span.keys():
        raise DataError(f"{where}: a span needs start, end and label, got {shown}")
    start, end, label = span["start"], span["end"], span["label"]
    if type(start) is not int or type(end) is not int or not _is_name(label):
        raise DataError(f"{where}: a span needs two whole numbers and a name, got {shown}")
    if not 0 <= start <= end <= size:
        raise DataError(f"{where}: span {start}:{end} {label} leaves the text, which has {size} code points")
    return start, end, label
