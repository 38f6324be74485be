"""Files cut into pieces, and pieces tagged: Parquet, JSON lines and columns, each written back as it came.

What a row holds is kept to the letter and something is added to it. A row that cannot be tagged is set aside with its
place and the reason; the rest goes on. Nothing here knows of Ray: a piece is bytes, so that it can travel.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from maskedcrf.bulk import lines, tables
from maskedcrf.bulk.rows import Options, Piece, Row, TaggedPiece, Text
from maskedcrf.errors import DataError, MaskedCRFError

if TYPE_CHECKING:
    from maskedcrf.onnx.tagger import OnnxTagger
    from maskedcrf.tagger import Tagger
    from maskedcrf.tagger.prediction import Prediction


class Format(NamedTuple):
    """How one kind of file is cut, read, written, and a row of it shown."""

    cut: Callable[[str, Options], Iterator[Piece]]
    rows: Callable[[Piece, str, Options, list[dict[str, Any]]], Iterator[Row]]
    written: Callable[[Piece, Sequence[tuple[Row, Prediction]], Options], bytes]
    describe: Callable[[Any], str]


FORMATS = {
    "parquet": Format(tables.cut_parquet, tables.parquet_rows, tables.format_parquet, tables.describe_row),
    "jsonl": Format(lines.cut_jsonl, lines.jsonl_rows, lines.format_jsonl, str),
    "conll": Format(lines.cut_conll, lines.conll_rows, lines.format_conll, lambda content: "\n".join(content[0])),
}


def cut(path: str, form: str, options: Options) -> Iterator[Piece]:
    """The file's pieces, in order; a DataError if it is damaged as a whole."""
    try:
        yield from FORMATS[form].cut(path, options)
    except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
        raise DataError(f"{path}: {error}") from error


def tag(tagger: Tagger | OnnxTagger, piece: Piece, *, path: str, form: str, options: Options) -> TaggedPiece:
    """The piece tagged; as many rows come out, or are set aside, as went in."""
    result = TaggedPiece()
    rows = list(FORMATS[form].rows(piece, path, options, result.rejects))
    texts = [row.text for row in rows]
    if form == "conll" and tagger.first_character:
        texts = [[token[:1] for token in text] for text in texts]
    too_long = [_refusal(tagger, text, options.longest) for text in texts]
    answers = iter(
        _answers(tagger, [text for text, refused in zip(texts, too_long, strict=True) if not refused], options)
    )
    answered = []
    for row, refused in zip(rows, too_long, strict=True):
        answer = refused or next(answers)
        if isinstance(answer, str):
            description = FORMATS[form].describe(row.content)
            result.rejects.append({"file": path, "place": row.place, "reason": answer, "content": description})
        else:
            answered.append((row, answer))
            result.sentences += bool(row.place)
            result.tokens += len(answer.tokens)
    result.rejects.sort(key=lambda reject: reject["place"])
    result.content = FORMATS[form].written(piece, answered, options)
    return result


def _refusal(tagger: Tagger | OnnxTagger, text: Text, longest: int) -> str | None:
    """Why a text is set aside whose longest sentence has too many tokens."""
    if len(text) <= longest:
        return None
    try:
        sentences = tagger.tokenizer.by_sentence(text) if isinstance(text, str) else [text]
    except MaskedCRFError as error:
        return str(error)
    size = max(map(len, sentences), default=0)
    return f"{size} tokens; at most {longest} are tagged at a time, split it" if size > longest else None


def _answers(tagger: Tagger | OnnxTagger, texts: Sequence[Text], options: Options) -> list[Prediction | str]:
    """A prediction for each text, or the reason why there is none."""
    try:
        return list(tagger.stream(texts, **options.question))
    except MaskedCRFError as error:
        if len(texts) == 1:
            return [str(error).removeprefix("input 0 (counted from 0): ")]
        return [_answers(tagger, [text], options)[0] for text in texts]
