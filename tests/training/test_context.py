"""Training on sentences with their neighbours: learnt, batched by all that is seen, resumed to the same weights."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from context_corpus import documents, settings, text_of
from token_lists import sentences_of

from maskedcrf.data.sentence import NO_CONTEXT, Context, Sentence
from maskedcrf.tagger import Tagger
from maskedcrf.training import loop
from maskedcrf.training.dataset import build_corpus
from maskedcrf.training.settings import Settings, SettingsError
from maskedcrf.training.train import build_model


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tmp_path_factory.mktemp("bert") / "model"


def make_run(folder, work=None, *, train=None, encoder=None, **more) -> loop.TrainingRun:
    chosen = Settings.of({**settings(folder, **(encoder or {})), "epochs": 2, **more}).resolved(20)
    data = build_corpus(train or documents(10), documents(4, 1), None, chosen)
    torch.manual_seed(chosen.seed)
    return loop.TrainingRun(build_model(data, chosen), data, chosen, work=work, fingerprint=data.fingerprint(chosen))


def test_what_only_the_neighbours_tell_is_learnt_with_a_context_alone(bert, tmp_path):
    files = [tmp_path / name for name in ("train.conll", "dev.conll")]
    for file, sentences in zip(files, (documents(60), documents(20, 1)), strict=True):
        file.write_text(text_of(sentences))
    f1 = [
        Tagger.train(*files, **settings(bert, context=context)).record.scores["dev"]["retain"]["f1"]
        for context in (3, 0)
    ]
    assert f1[0] == 100
    assert f1[1] < 80


def test_a_run_with_context_stopped_after_any_step_goes_on_to_the_same_weights(bert, tmp_path):
    more = {"checkpoint_steps": 1, "word_dropout": 0.2}
    whole = make_run(bert, **more)
    list(loop.run_epochs(whole))
    for stop in (2, 5, 7):
        work = tmp_path / str(stop)
        work.mkdir()
        for event in loop.run_epochs(make_run(bert, work, **more)):
            if isinstance(event, loop.Step) and event.step == stop + 1:
                break
        second = make_run(bert, work, **more)
        loop.resume(second)
        assert second.state.step == stop
        list(loop.run_epochs(second))
        for name, value in second.model.state_dict().items():
            assert torch.equal(value, whole.model.state_dict()[name]), (stop, name)


def test_batches_are_cut_by_all_the_words_that_are_seen(bert):
    run = make_run(bert, forward_tokens=24)  # of documents of two sentences of two words, a piece each
    assert set(run.lengths) == {4}
    [(parts, size)] = loop.tensor_batches(run, [list(range(8))])
    assert (len(parts), size) == (2, 8)
    assert all(part.features["mask"].shape == part.tags.shape == (4, 2) for part in parts)
    assert set(make_run(bert, encoder={"context": 0}).lengths) == {2}


def test_hidden_words_are_hidden_in_the_sentence_and_not_around_it(bert):
    run = make_run(bert, word_dropout=0.999, train=[Sentence(("a", "sat"), ("B-X", "O")), Sentence(("the",), ("O",))])
    [([part], _)] = loop.tensor_batches(run, [[0, 1]])
    unknown, known = (
        1,
        {
            word: run.model.encoder.prepare(sentences_of([[word]]))["pieces"][0, 1].item()
            for word in ("a", "sat", "the")
        },
    )
    assert part.features["pieces"].tolist() == [
        [2, unknown, unknown, known["the"], 3],
        [2, known["a"], known["sat"], unknown, 3],
    ]


def test_neighbours_are_those_of_the_file_whatever_is_dropped_or_kept_for_dev(bert):
    train = [Sentence((f"w{n}",), ("I-X" if n == 3 else "B-X",)) for n in range(20)]
    chosen = Settings.of({**settings(bert, context=1), "illegal_gold": "drop"})
    corpus = build_corpus(train, None, None, chosen)
    contexts = {each.tokens: each.context for each in corpus.sentences + corpus.dev}
    assert len(corpus.dev) == 2
    ends = {0: ((), ("w1",)), 19: (("w18",), ())}
    assert contexts == {
        (f"w{n}",): Context(*ends.get(n, ((f"w{n - 1}",), (f"w{n + 1}",)))) for n in range(20) if n != 3
    }


def test_without_a_context_nothing_is_around(bert):
    corpus = build_corpus(documents(5), documents(5, 1), None, Settings.of(settings(bert, context=0)))
    assert {each.context for each in corpus.sentences + corpus.dev} == {NO_CONTEXT}


@pytest.mark.parametrize(("context", "differs"), [(0, False), (3, True)])
@pytest.mark.parametrize("part", ["train", "dev"])
def test_a_run_is_another_if_documents_end_elsewhere(bert, context, differs, part):
    chosen = Settings.of(settings(bert, context=context))
    data = {"train": documents(5), "dev": documents(5, 1)}
    apart = [replace(sentence, document=number) for number, sentence in enumerate(data[part])]
    found = {
        build_corpus(given["train"], given["dev"], None, chosen).fingerprint(chosen)
        for given in (data, {**data, part: apart})
    }
    assert (len(found) == 2) == differs


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ({"context": 8}, "encoder: context needs a transformer: no other part looks at the sentences around, got "),
        ({"transformer": "x", "context": -1}, "encoder.context: Input should be greater than or equal to 0, got -1"),
        ({"transformer": "x", "context": 513}, "encoder.context: Input should be less than or equal to 512, got 513"),
    ],
)
def test_a_context_that_cannot_be_is_refused_in_one_line(encoder, message):
    with pytest.raises(SettingsError) as refused:
        Settings.of({"encoder": encoder})
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)
