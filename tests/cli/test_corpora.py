"""`check` on real corpora finds exactly the illegal gold transitions that are known to be there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from maskedcrf.cli import main

pytestmark = pytest.mark.corpora

KNOWN = {
    "weibo/train.conll": ("BIO", 1350, 73778, [1266, 22000, 24537, 28617, 35046, 35119, 49249, 62980, 62990, 69376]),
    "weibo/dev.conll": ("BIO", 270, 14509, []),
    "weibo/test.conll": ("BIO", 270, 14842, [4450, 5021, 10279, 14155]),
    "resume/train.char.bio": ("BIO", 3825, 124099, 2),
    "resume/dev.char.bio": ("BIO", 472, 13890, []),
    "resume/test.char.bio": ("BIO", 477, 15100, []),
    "conll2003/train.txt.gz": ("IOB1", 14041, 203621, [152428, 175436]),
    "conll2003/dev.txt.gz": ("IOB1", 3250, 51362, []),
    "conll2003/test.txt.gz": ("IOB1", 3453, 46435, []),
    "conll2000/train.txt.gz": ("BIO", 8936, 211727, []),
    "conll2000/test.txt.gz": ("BIO", 2012, 47377, []),
    "msra/test.bio.txt.gz": ("BIO", 3442, 172601, []),
    "msra/test_4365.char.bmes.gz": ("BMES", 4365, 172601, []),
}


def file_of(corpora: Path, name: str) -> Path:
    """A file of the folder of corpora; not everybody who has one has all of them."""
    if not (corpora / name).exists():
        pytest.skip(f"{name} is not in the folder of corpora")
    return corpora / name


@pytest.mark.parametrize("name", KNOWN)
def test_check_finds_the_known_illegal_transitions(capsys, corpora: Path, name):
    scheme, sentences, tokens, lines = KNOWN[name]
    code = main(["check", "--scheme", scheme, "--json", str(file_of(corpora, name))])
    answer = json.loads(capsys.readouterr().out)
    assert (answer["sentences"], answer["tokens"]) == (sentences, tokens)
    found = [step["line"] for step in answer["illegal"]]
    assert (found if isinstance(lines, list) else len(found)) == lines
    assert code == bool(lines)
    if name == "resume/train.char.bio":
        assert {(step["from"], step["to"]) for step in answer["illegal"]} == {(None, "I-ORG")}


@pytest.mark.parametrize("name", KNOWN)
def test_check_suggests_the_scheme_the_corpus_is_in(capsys, corpora: Path, name):
    main(["check", "--json", str(file_of(corpora, name))])
    assert json.loads(capsys.readouterr().out)["scheme"] == KNOWN[name][0]
