"""Errors that come with a later call, with flags that the test writes as a device would."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
import torch

from maskedcrf import Constraints
from maskedcrf.crf import deferred_errors
from maskedcrf.crf.deferred_errors import DeferredErrors, HostFlag, Results
from maskedcrf.crf.scores import LatticeScores
from maskedcrf.errors import IllegalPathError

RULES = Constraints.from_scheme(["O", "B-X", "I-X"], "BIO")
SCORES = LatticeScores(
    torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool), torch.zeros(3, 3), torch.zeros(3), torch.zeros(3)
)
ILLEGAL, LEGAL = torch.tensor([[0, 2]]), torch.tensor([[0, 1]])


@pytest.fixture
def flags(monkeypatch: pytest.MonkeyPatch) -> list[HostFlag]:
    """Flags as they are handed out, not written; and a pool of their own for them to go back to."""
    monkeypatch.setattr(deferred_errors, "_flag_pool", [])
    flags = deferred_errors._allocate_flags()
    for flag in flags:
        flag.bits[0] = deferred_errors._NOT_WRITTEN
    return flags


def _results(loss: float) -> Results:
    return Results(torch.tensor([loss]), SCORES, LEGAL if loss < torch.inf else ILLEGAL, RULES)


def _defer(errors: DeferredErrors, flag: HostFlag, loss: float) -> None:
    errors.defer(flag, _results(loss))


def test_an_error_comes_with_the_call_after_the_device_has_written(flags: list[HostFlag]) -> None:
    errors = DeferredErrors()
    _defer(errors, flags[0], 1.0)
    _defer(errors, flags[1], torch.inf)
    errors.raise_arrived()
    flags[1].value.fill_(torch.inf)
    errors.raise_arrived()  # the device writes in order: the first is still to come
    flags[0].value.fill_(1.0)
    with pytest.raises(IllegalPathError, match="row 0, position 1: gold steps from O to I-X"):
        errors.raise_arrived()
    errors.raise_arrived()
    assert deferred_errors._flag_pool == flags[:2]


class _Intruder(HostFlag):
    """A flag at which, just when it is looked at, another thread looks too."""

    looks: list[Callable[[], None]]

    @property
    def is_written(self) -> bool:
        if self.looks:
            thread = threading.Thread(target=self.looks.pop())
            thread.start()
            thread.join()
        return True


def test_two_threads_never_take_the_same_flag_nor_one_that_is_not_written(flags: list[HostFlag]) -> None:
    """The other thread looks at the worst moment: between finding out that a flag is written and taking it."""
    errors, found = DeferredErrors(), []
    first = _Intruder(*flags[0])
    first.value.fill_(1.0)

    def look() -> None:
        try:
            errors.raise_arrived()
        except BaseException as error:
            found.append(error)

    _Intruder.looks = [look]
    errors._waiting.append((first, _results(1.0)))
    errors._waiting.append((flags[1], _results(torch.inf)))
    errors.raise_arrived()
    assert found == []
    assert [flag for flag, _ in errors._waiting] == [flags[1]]
    assert len(deferred_errors._flag_pool) == 1
    flags[1].value.fill_(torch.inf)
    with pytest.raises(IllegalPathError, match="gold steps from O to I-X"):
        errors.raise_arrived()


def test_the_pool_grows_when_two_threads_find_it_empty_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    class Emptied(list[HostFlag]):
        """Another thread took the last flag after this one had seen it."""

        def __bool__(self) -> bool:
            return True

    class OnADevice:
        is_cuda = True

    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(deferred_errors, "_flag_pool", Emptied())
    flags = [deferred_errors.new_host_flag(OnADevice()) for _ in range(40)]  # type: ignore[arg-type]
    assert len({flag.value.data_ptr() for flag in flags if flag}) == 40
    assert not any(flag.is_written for flag in flags if flag)


LAST_CALL = """
import torch
from maskedcrf import MaskedCRF
from maskedcrf.crf import deferred_errors

crf = MaskedCRF(["O", "B-X", "I-X"], scheme="BIO", backend="reference")
scores = crf._scores(torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool))
flag = deferred_errors._allocate_flags()[0]
results = deferred_errors.Results(torch.tensor([torch.inf]), scores, torch.tensor([[0, 2]]), crf.constraints)
crf._deferred.defer(flag, results)
flag.value.fill_(torch.inf)
"""
SAID = "maskedcrf: the last call of a layer failed: row 0, position 1: gold steps from O to I-X"


@pytest.mark.parametrize("end", ["", "del crf"])
def test_what_the_last_call_left_behind_is_said_at_the_end(end: str) -> None:
    done = subprocess.run([sys.executable, "-c", LAST_CALL + end], capture_output=True, text=True, check=True)
    assert done.stderr.count("maskedcrf") == 1
    assert done.stderr.startswith(SAID)


def test_a_forked_child_says_nothing_of_what_its_parent_asked() -> None:
    code = LAST_CALL + "torch.cuda._is_in_bad_fork = lambda: True"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
