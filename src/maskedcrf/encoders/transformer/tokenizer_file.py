"""tokenizer.json of a stranger: what it may make of a text is bounded before any text meets it; needs no torch."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from typing import Any

from maskedcrf.errors import DataError

LARGEST = 1 << 26
MAX_STEPS = 64
"""Normalisers and cutters, one after the other."""
MAX_EXPANSION = 16
"""Characters that all normalisers together may make of one; U+FDFA alone becomes 18, but within one step."""
MAX_REPLACEMENT_BYTES = 64
"""Of one character in a table of replacements; SentencePiece's own needs 33."""
MAX_AFFIX = 64


def check_tokenizer(content: bytes, where: str) -> dict[str, Any]:
    """The parsed tokenizer.json, or a refusal of one that makes much out of little."""
    if len(content) > LARGEST:
        raise DataError(f"{where}: larger than {LARGEST >> 20} MiB, which no tokenizer needs")
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not readable as JSON ({str(error).splitlines()[0]})") from error
    if not isinstance(parsed, dict):
        raise DataError(f"{where}: no tokenizer; save the model again")
    try:
        problem = _problem(parsed)
    except (TypeError, AttributeError, KeyError, ValueError, RecursionError, binascii.Error) as error:
        raise DataError(
            f"{where}: not a tokenizer as the tokenizers library writes it; save the model again"
        ) from error
    if problem:
        raise DataError(f"{where}: {problem}; refused, a short text would fill the memory")
    return parsed


def _problem(parsed: dict[str, Any]) -> str | None:
    steps = list(_steps(parsed.get("normalizer"), "normalizers"))
    cutters = list(_steps(parsed.get("pre_tokenizer"), "pretokenizers"))
    if max(len(steps), len(cutters)) > MAX_STEPS:
        return f"more than {MAX_STEPS} normalisers or cutters in a row"
    expansion = 1.0
    for step in steps:
        expansion *= max(1.0, _expansion(step))
    if expansion > MAX_EXPANSION:
        return f"its normalisers make up to {expansion:.0f} characters of one, {MAX_EXPANSION} are the most"
    if any(_longest_replacement(step) > MAX_REPLACEMENT_BYTES for step in steps):
        return f"a normaliser writes more than {MAX_REPLACEMENT_BYTES} bytes for one character"
    model = parsed.get("model") or {}
    affixes = (model.get("continuing_subword_prefix") or "", model.get("end_of_word_suffix") or "")
    if max(map(len, affixes)) > MAX_AFFIX:
        return f"it begins or ends pieces with more than {MAX_AFFIX} characters"
    return None


def _steps(step: Any, inner: str) -> Iterator[dict[str, Any]]:
    """The steps of a sequence, and of sequences in it, in order."""
    if step is None:
        return
    if step["type"] == "Sequence":
        for one in step[inner]:
            yield from _steps(one, inner)
    else:
        yield step


def _expansion(step: dict[str, Any]) -> float:
    """How many characters the step can make of one."""
    if step["type"] == "Replace":
        pattern = step["pattern"].get("String")
        # What a regular expression finds may be one character, or the nothing between two.
        return len(step["content"]) / len(pattern) if pattern else 1.0 + len(step["content"])
    return 1.0 + len(step["prepend"]) if step["type"] == "Prepend" else 1.0


def _longest_replacement(step: dict[str, Any]) -> int:
    """Bytes of the longest replacement in a compiled table: a size, a trie of that size, strings that end in 0."""
    if step["type"] != "Precompiled":
        return 0
    table = base64.b64decode(step["precompiled_charsmap"])
    return max(map(len, table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")))
