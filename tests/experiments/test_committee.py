"""A committee is one CRF whose scores are the mean of its members'."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from small_corpus import SMALL, corpus
from token_lists import sentences_of

from experiments import run, store
from experiments.committee import together
from experiments.grid import COMMITTEES, GROUPS, Run
from experiments.measure import emit
from experiments.reading import Results, Setting
from maskedcrf import Tagger
from maskedcrf.data.sentence import Sentence


@pytest.fixture(scope="module")
def members() -> list[Tagger]:
    return [Tagger.train(corpus(24), corpus(6, seed=1), progress=False, **SMALL, seed=seed) for seed in (1, 2, 3)]


def score_of_gold(tagger: Tagger, sentences: list[Sentence]) -> torch.Tensor:
    """(B,): before it is normalised."""
    (found,) = emit(tagger, sentences)
    crf = tagger.model.crf
    tags = torch.zeros(found.mask.shape, dtype=torch.long)
    for row, number in enumerate(found.numbers):
        tags[row, found.mask[row]] = torch.tensor([crf.tags.index(tag) for tag in sentences[number].tags or ()])
    with torch.no_grad():
        return crf.log_prob(found.emissions, tags, found.mask) + crf.log_partition(found.emissions, found.mask)


def test_of_one_it_is_that_one(members: list[Tagger]) -> None:
    assert together(members[:1]) is members[0]


def test_a_paths_score_is_the_mean_of_the_members_scores(members: list[Tagger]) -> None:
    sentences = corpus(8, seed=2)
    whole, *own = [score_of_gold(each, sentences) for each in (together(members), *members)]
    torch.testing.assert_close(whole, torch.stack(own).mean(0), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(whole, own[0], rtol=1e-2), "the members differ"


def test_its_path_is_the_legal_one_that_all_members_together_like_best(members: list[Tagger]) -> None:
    short = [sentence for sentence in corpus(40, seed=3) if len(sentence) <= 4][:3]
    (found,) = emit(together(members), short)
    decoded = together(members).model.crf.decode(found.emissions, found.mask)
    for number, row in zip(found.numbers, range(len(short)), strict=True):
        tokens = [short[number].tokens]
        paths = torch.tensor(list(product(range(len(members[0].tags)), repeat=len(tokens[0]))))
        total = torch.zeros(len(paths))
        for each in members:
            with torch.inference_mode():
                emissions = each.model.emissions(each.model.encoder.prepare(sentences_of(tokens))).expand(
                    len(paths), -1, -1
                )
                total += each.model.crf.log_prob(emissions, paths)
        assert decoded[row] == paths[total.argmax()].tolist(), "an illegal path has log probability -inf"


def test_the_members_are_left_as_they_were(members: list[Tagger]) -> None:
    before = [each.predict(["bob lee flew to rome ."])[0] for each in members]
    together(members).predict(["bob lee flew to rome ."])
    assert before == [each.predict(["bob lee flew to rome ."])[0] for each in members]


@pytest.mark.usefixtures("small_data")
def test_a_run_of_a_committee_trains_its_members_and_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(run, "tuned", lambda: {"conll2000/tuned+more": {"settings": {**SMALL, "epochs": 1}}})
    trained: list[int] = []
    train = Tagger.train

    def watched(*given: Any, **settings: Any) -> Tagger:
        trained.append(settings["seed"])
        return train(*given, **settings)

    monkeypatch.setattr(Tagger, "train", watched)
    line = run.execute(Run("conll2000", "tuned+more+dev+five", "mcrf", 2), "", "")
    assert trained == [2001, 2002, 2003, 2004, 2005]
    assert "|seeds:2001+2002+2003+2004+2005|" in line["signature"]
    assert not run.superseded(line)
    store.put(tmp_path, line)
    setting = Setting("conll2000", "tuned+more+dev+five")
    assert list(Results.read(tmp_path).f1(setting, "MCRF-training")) == [2]


def test_no_member_has_the_seed_of_another_run() -> None:
    runs = {each for group in GROUPS.values() for each in group}
    committees = [each for each in runs if each.encoder in COMMITTEES]
    seeds = [(each.corpus, each.encoder, seed) for each in committees for seed in each.seeds]
    assert len(seeds) == len(set(seeds)) == 5 * len(committees) > 0
    assert {seed for *_, seed in seeds}.isdisjoint(each.seed for each in runs)
