"""Random damage of every format: no reader raises anything but the project's own error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from format_examples import EXAMPLES
from hypothesis import given, settings
from hypothesis import strategies as st

from maskedcrf.data.formats import read_sentences
from maskedcrf.errors import MaskedCRFError


def message_of(path: Path, format: Any) -> str | None:
    """What is said of a file that is refused; None if it is read, with a tag for each token."""
    try:
        sentences = list(read_sentences(path, format=format))
    except MaskedCRFError as error:
        return str(error)
    assert all(each.tags is None or len(each.tags) == len(each.tokens) for each in sentences)
    return None


FILES = [name for name, (_, file, _) in EXAMPLES.items() if "." in file]
FOLDERS = [name for name in EXAMPLES if name not in FILES]
CUTS = st.lists(
    st.tuples(
        st.floats(0, 1),
        st.integers(0, 9),
        st.binary(max_size=9)
        | st.sampled_from([b"[", b'"', b"\t", b"-", b"\n", b"{}", b"null", b"-1", b"1e9", b"\\ud800"]),
    ),
    max_size=4,
)


def damage(path: Path, cuts: list[tuple[float, int, bytes]]) -> None:
    raw = path.read_bytes()
    for place, gone, new in cuts:
        at = int(place * len(raw))
        raw = raw[:at] + new + raw[at + gone :]
    path.write_bytes(raw)


def require_our_own_error(path: Path, format: str) -> None:
    for chosen in (format, "auto"):
        message = message_of(path, chosen)
        assert message is None or ("\n" not in message and str(path) in message)


@settings(max_examples=30)
@pytest.mark.parametrize("name", FILES)
@given(cuts=CUTS)
def test_no_reader_raises_anything_but_our_own_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, cuts: list[tuple[float, int, bytes]]
) -> None:
    format, file, write = EXAMPLES[name]
    path = write(tmp_path_factory.mktemp("fuzz") / file)
    damage(path, cuts)
    require_our_own_error(path, format)


@settings(max_examples=30)
@pytest.mark.parametrize("name", FOLDERS)
@given(cuts=CUTS, which=st.integers(0, 9), is_gone=st.booleans())
def test_no_reader_of_folders_raises_anything_but_our_own_error(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    cuts: list[tuple[float, int, bytes]],
    which: int,
    is_gone: bool,
) -> None:
    format, file, write = EXAMPLES[name]
    path = write(tmp_path_factory.mktemp("fuzz") / file)
    files = sorted(each for each in path.rglob("*") if each.is_file())
    chosen = files[which % len(files)]
    if is_gone and not cuts:
        chosen.unlink()
    else:
        damage(chosen, cuts)
    require_our_own_error(path, format)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "text",
                    "data",
                    "annotations",
                    "result",
                    "value",
                    "labels",
                    "label",
                    "start",
                    "end",
                    "id",
                    "tokens",
                    "spans",
                    "entities",
                    "start_offset",
                    "answer",
                    "was_cancelled",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("format", ["jsonl", "doccano", "prodigy", "labelstudio"])
@given(
    record=st.dictionaries(
        st.sampled_from(
            ["text", "data", "annotations", "label", "tokens", "spans", "tags", "entities", "answer", "id", "open"]
        ),
        values,
    )
)
def test_no_json_makes_a_reader_raise_anything_but_our_own_error(
    tmp_path_factory: pytest.TempPathFactory, format: str, record: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("json") / "a.json"
    path.write_text(json.dumps([record] if format == "labelstudio" else record))
    assert "\n" not in (message_of(path, format) or "")
