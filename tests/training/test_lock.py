"""One process at a time trains one output."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from small_corpus import SMALL, corpus

from maskedcrf.errors import MaskedCRFError
from maskedcrf.tagger import Tagger
from maskedcrf.training.lock import lock_output

HOLDER = """
    import sys
    from pathlib import Path
    from maskedcrf.training.lock import lock_output
    with lock_output(Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()
"""


def holder(target):
    """Another process that holds the lock of an output until its standard input is closed, or it dies."""
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(target)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def train(target, **more):
    return Tagger.train(corpus(8), output=target, **{**SMALL, "epochs": 1}, **more)


@pytest.mark.parametrize("more", [{}, {"overwrite": True}])
def test_a_second_process_with_the_same_output_is_refused_in_one_line(tmp_path, more):
    target = tmp_path / "runs" / "model"
    with holder(target) as other:
        with pytest.raises(MaskedCRFError, match=r"^.*model: another process is training this model; wait for it, or"):
            train(target, **more)
        assert [path.name for path in target.parent.iterdir()] == ["model.lock"], "nothing is begun"
        other.stdin.close()
        assert other.wait() == 0
    assert list(tmp_path.iterdir()) == [], "nor is anything left, the folder it made included"


def test_who_died_holds_nothing(tmp_path):
    with holder(tmp_path / "model") as other:
        other.kill()
        other.wait()
    assert (tmp_path / "model.lock").exists()
    assert train(tmp_path / "model").tags
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_another_way_to_the_same_folder_is_the_same_output(tmp_path):
    (tmp_path / "link").symlink_to("model")
    with (
        lock_output(tmp_path / "model"),
        pytest.raises(MaskedCRFError, match=r"link: another process is training this model"),
        lock_output(tmp_path / "link"),
    ):
        pass


def test_outputs_beside_each_other_are_trained_at_once(tmp_path):
    with lock_output(tmp_path / "one"), lock_output(tmp_path / "two"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_an_output_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), lock_output(tmp_path / "model"):
        1 / 0  # noqa: B018
    with lock_output(tmp_path / "model"):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(MaskedCRFError, match="give an output folder that can be written"),
        lock_output(tmp_path / "file" / "model"),
    ):
        pass
