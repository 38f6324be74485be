"""What the guides show a command printing is what it prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from maskedcrf.cli import main

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
FILES = {
    "predictions.conll": ("a B-PER B-PER\nb I-PER I-PER\nc O O\nd B-LOC I-LOC\n\ne O O\nf O I-PER\n\ng B-LOC I-ORG\n"),
    "train.conll": ("Anna NNP B-PER\nleft VBD O\nNew NNP I-LOC\nYork NNP I-LOC\n\nBern NNP B-LOC\nZurich NNP B-LOC\n"),
}


@pytest.mark.parametrize("guide", ["audit.md", "schemes.md"])
def test_the_first_example_of_a_guide_holds(guide, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text)
    block = re.search(r"^```\n(\$ .*?)^```$", (GUIDES / guide).read_text(), re.DOTALL | re.MULTILINE).group(1)
    for example in re.split(r"^\$ maskedcrf ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = example.partition("\n")
        main(shlex.split(command))
        assert capsys.readouterr().out == expected
