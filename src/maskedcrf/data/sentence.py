"""Sentence: tokens, their tags, and where in which file they stood."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens and perhaps tags; as many of the one as of the other."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    file: str = ""
    line: int = 1
    """Line of the first token; each further token stands on the next line."""
    columns: tuple[tuple[str, ...], ...] = ()
    """Every column of the file, tokens and tags among them, so that it can be written back whole."""
    separator: str = " "
    """What stands between the columns when they are written."""

    def where(self, position: int) -> str:
        """`file:line` of a token, as every message about it begins."""
        return f"{self.file or '<memory>'}:{self.line + position}"

    def with_column(self, number: int, cells: Iterable[str]) -> Sentence:
        """The same sentence with one of its columns written anew."""
        columns = list(self.columns)
        columns[number] = tuple(cells)
        return Sentence(self.tokens, self.tags, self.file, self.line, tuple(columns), self.separator)

    def with_first_characters(self) -> Sentence:
        """The same sentence, each token cut to its first character: Weibo's files write 口0 腔1 for 口腔."""
        return replace(self, tokens=tuple(token[:1] for token in self.tokens))

    def __len__(self) -> int:
        return len(self.tokens)


def in_chunks(sentences: Iterable[Sentence], tokens: int = 1 << 16) -> Iterator[list[Sentence]]:
    """Lists of whole sentences of about this many tokens each, for work that goes by the array."""
    chunk: list[Sentence] = []
    size = 0
    for sentence in sentences:
        chunk.append(sentence)
        size += len(sentence.tokens)
        if size >= tokens:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
