"""A checkpoint that is damaged, or made of several, is refused in one line."""

from __future__ import annotations

import json
import shutil

import pytest
from safetensors.torch import load_file, save_file
from small_corpus import SMALL, corpus

from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger

OPTIONS = {**SMALL, "checkpoint_steps": 1, "ema_decay": 0.9}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """The folder of a training that was stopped before its model was saved."""
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tagger, "save", stop)
        with pytest.raises(KeyboardInterrupt):
            Tagger.train(corpus(12), corpus(4, 1), output=folder / "model", **OPTIONS)
    return folder


@pytest.fixture
def stopped(original, tmp_path):
    """A copy of its one checkpoint, with which the same command goes on."""
    [checkpoint] = shutil.copytree(original, tmp_path / "copy").glob("model.training/step-*")
    return checkpoint


def stop(*arguments, **named):
    raise KeyboardInterrupt


def train_on(checkpoint):
    return Tagger.train(corpus(12), corpus(4, 1), output=checkpoint.parents[1] / "model", **OPTIONS)


def edited(checkpoint, change):
    path = checkpoint / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"fingerprint": ""}', "{", "", "[" * 100_000, "\udc80"])
def test_a_state_that_is_not_whole_is_refused_in_one_line(stopped, content):
    (stopped / "state.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(MaskedCRFError, match="state.json") as error:
        train_on(stopped)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change", [{"state": {}, "groups": []}, {"state": 1}, {"state": {"no": 1}}, {"groups": 5}, {"digests": []}]
)
def test_a_state_of_another_form_is_refused_in_one_line(stopped, change):
    edited(stopped, change)
    with pytest.raises(MaskedCRFError, match="damaged checkpoint .*; overwrite the run") as error:
        train_on(stopped)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["model", "optimiser", "best", "average"])
def test_tensors_of_another_checkpoint_are_refused_and_the_file_is_named(stopped, name):
    path = stopped / f"{name}.safetensors"
    content = path.read_bytes()
    save_file({key: value + 1 for key, value in load_file(path).items()}, path)
    with pytest.raises(MaskedCRFError, match=f"{name}.safetensors is not the one that state.json was saved with"):
        train_on(stopped)
    path.unlink()
    with pytest.raises(MaskedCRFError, match=f"{name}.safetensors is not the one"):
        train_on(stopped)
    path.write_bytes(content)
    assert train_on(stopped).tags


def test_a_checkpoint_without_digests_is_still_gone_on_from(stopped):
    path = stopped / "state.json"
    state = json.loads(path.read_text())
    assert set(state.pop("digests")) == {"model", "optimiser", "best", "average"}
    path.write_text(json.dumps(state))
    assert train_on(stopped).tags
