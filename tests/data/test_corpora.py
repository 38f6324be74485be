"""The table of corpora, on small files written here; and, with MASKEDCRF_CORPORA set, on the real ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from maskedcrf.data.corpora import CHECKSUMS, CORPORA, count, load
from maskedcrf.data.demo_corpus import demo_corpus
from maskedcrf.errors import DataError

# What the real files hold, counted without this project: sentences, tokens, entities that begin legally, types.
# `illegal` is what the file's own scheme forbids. OntoNotes is licensed and was never counted here.
FACTS = {
    "weibo": {"sentences": (1350, 270, 270), "tokens": (73778, 14509, 14842), "entities": (1885, 389, 414)},
    "resume": {"sentences": (3825, 472, 477), "tokens": (124099, 13890, 15100), "entities": (13438, 1497, 1630)},
    "msra": {"sentences": (45000, 4365), "tokens": (2171573, 172601), "entities": (75059, 6181)},
    "msra-3442": {"sentences": (45000, 3442), "tokens": (2171573, 172601), "entities": (75059, 6190)},
    "conll2003": {"sentences": (14041, 3250, 3453), "tokens": (203621, 51362, 46435), "entities": (23499, 5942, 5648)},
    "conll2000": {"sentences": (8936, 2012), "tokens": (211727, 47377), "entities": (106978, 23852)},
    "atis": {"sentences": (4478, 500, 893), "tokens": (50497, 5703, 9164), "entities": (14851, 1709, 2837)},
    "snips": {"sentences": (13084, 700, 700), "tokens": (117700, 6384, 6354), "entities": (33958, 1794, 1790)},
}
ILLEGAL = {"weibo": (10, 0, 4), "resume": (2, 0, 0), "conll2003": (2, 0, 0)}
TYPES = {"weibo": 8, "resume": 8, "msra": 3, "msra-3442": 3, "conll2003": 4, "conll2000": 11, "atis": 83, "snips": 39}
LONGEST = {"msra": 1475, "msra-3442": 2427}


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def test_every_corpus_of_the_paper_is_in_the_table() -> None:
    assert set(CORPORA) == {*FACTS, "ontonotes4"}
    for info in CORPORA.values():
        assert info.licence
        assert info.source
        assert all(info.train.counts)
    known = {name.partition("/")[0] for name in CHECKSUMS}
    assert known == {name.partition("-")[0] for name in FACTS}


def test_the_demo_is_a_corpus_too() -> None:
    corpus = load("demo")
    assert (corpus.train, corpus.dev, corpus.test) == demo_corpus()
    assert corpus.differences == ()


def test_weibo_tokens_lose_their_position_digits(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path, f"weibo/{split}.conll", "科0\tB-PER.NAM\n310\tI-PER.NAM\n\ufffd\ufffd0\tO\n\n")
    corpus = load("weibo", tmp_path)
    assert corpus.train[0].tokens == ("科", "3", "\ufffd")
    assert corpus.train[0].tags == ("B-PER.NAM", "I-PER.NAM", "O")


def test_msra_comes_in_one_scheme_with_one_set_of_types(tmp_path: Path) -> None:
    write(tmp_path, "train.bio.txt.gz", "".join(f"{c}\tB-PER\n\n" for c in "abcdefghij"))
    write(tmp_path, "test_4365.char.bmes", "x B-NR\ny M-NR\nz E-NR\nw S-NS\nv O\nu S-NT\n\n")
    corpus = load("msra", tmp_path)
    assert corpus.test[0].tags == ("B-PER", "I-PER", "I-PER", "B-LOC", "O", "B-ORG")
    assert (len(corpus.train), len(corpus.dev)) == (9, 1)
    assert corpus.tags == ("B-LOC", "B-ORG", "B-PER", "I-PER", "O")


def test_the_drawn_dev_part_follows_the_seed(tmp_path: Path) -> None:
    write(tmp_path, "conll2000/train.txt", "".join(f"w{n} X B-NP\n\n" for n in range(100)))
    write(tmp_path, "conll2000/test.txt", "w X B-NP\n\n")
    dev = [load("conll2000", tmp_path, seed=seed).dev for seed in (0, 0, 1)]
    assert dev[0] == dev[1] != dev[2]
    assert len(dev[0]) == 10


def test_conll2003_drops_document_marks_and_keeps_its_scheme(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- -X- O\n\nin IN O O\nLima NNP I-NP I-LOC\n\n"
    for name in ("eng.train", "eng.testa", "eng.testb"):
        write(tmp_path, name, text)
    corpus = load("conll2003", tmp_path)
    assert corpus.scheme == "IOB1"
    assert [s.tokens for s in corpus.train] == [("in", "Lima")]


def test_triples_are_found_under_their_publishers_names(tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        write(tmp_path, f"atis/{split}/seq.in", "to  lima \n")
        write(tmp_path, f"atis/{split}/seq.out", "O B-city \n")
    assert load("atis", tmp_path).dev[0].tokens == ("to", "lima")


def test_a_licensed_copy_of_ontonotes_may_be_either_of_two(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path, f"{split}.char.bmes", "北 B-GPE\n京 E-GPE\n\n")
    corpus = load("ontonotes4", tmp_path)
    assert corpus.train[0].tags == ("B-GPE", "E-GPE")
    assert "train: 1 sentences, expected 15724" in corpus.differences
    assert [len(part.counts) for part in (CORPORA["ontonotes4"].train, CORPORA["ontonotes4"].test)] == [2, 2]


def test_differences_name_figures_and_files(tmp_path: Path) -> None:
    for split in ("train", "dev", "test"):
        write(tmp_path, f"{split}.char.bio", "x\tB-NAME\n\n")
    differences = load("resume", tmp_path).differences
    assert "test: 1 sentences, expected 477" in differences
    assert any("dev.char.bio is not the file we know" in line for line in differences)


def test_a_missing_corpus_is_refused_with_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no train\.conll or weiboNER_2nd_conll\.train .* github\.com/hltcoe"):
        load("weibo", tmp_path)
    with pytest.raises(DataError, match="unknown corpus 'conll2030': did you mean conll2003"):
        load("conll2030", tmp_path)


@pytest.mark.corpora
@pytest.mark.parametrize("name", FACTS)
def test_real_corpora_are_read_whole(corpora: Path, name: str) -> None:
    corpus = load(name, corpora)
    assert corpus.differences == ()
    parts = [corpus.train, corpus.dev, corpus.test]
    if CORPORA[name].dev is None:
        parts = [corpus.train + corpus.dev, corpus.test]
    found = [count(part, corpus.scheme) for part in parts]
    illegal = ILLEGAL.get(name, (0,) * len(parts))
    assert tuple(counts.sentences for counts in found) == FACTS[name]["sentences"]
    assert tuple(counts.tokens for counts in found) == FACTS[name]["tokens"]
    assert tuple(counts.illegal for counts in found) == illegal
    # In IOB1 the illegal B- begins an entity all the same; in BIO the facts count B- alone.
    extra = (0,) * len(parts) if corpus.scheme == "IOB1" else illegal
    assert tuple(counts.entities - more for counts, more in zip(found, extra, strict=True)) == FACTS[name]["entities"]
    assert len({tag[2:] for tag in corpus.tags if tag != "O"}) == TYPES[name]
    assert max(map(len, corpus.test)) == LONGEST.get(name, max(map(len, corpus.test)))
    assert all(token for part in parts for sentence in part for token in sentence.tokens)
