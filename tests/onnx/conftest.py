"""Taggers of each kind and their files, for the tests of the graph and of its eight bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx_models import KINDS, random_tagger

from maskedcrf.onnx.export import export
from maskedcrf.tagger import Tagger


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Tagger, Path]]:
    """A tagger of each kind, and its file."""
    folder = tmp_path_factory.mktemp("onnx")
    taggers = {kind: random_tagger(kind, folder / kind) for kind in KINDS}
    return {kind: (tagger, export(tagger, folder / f"{kind}.onnx")) for kind, tagger in taggers.items()}
