"""A folder appears whole or not at all, and what was there before outlives a failure at any moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from maskedcrf.errors import MaskedCRFError
from maskedcrf.files import atomic_folder


def write(target: Path, text: str) -> None:
    with atomic_folder(target) as aside:
        (aside / "file").write_text(text)


@pytest.fixture
def second_rename_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name.endswith(".tmp"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)


def test_the_old_folder_is_put_back_where_the_new_one_cannot_take_its_place(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    write(tmp_path / "model", "old")
    request.getfixturevalue("second_rename_fails")
    with pytest.raises(MaskedCRFError, match=r"No space left.*what was there before is untouched"):
        write(tmp_path / "model", "new")
    assert (tmp_path / "model" / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_last_copy_set_aside_by_a_run_that_was_killed_is_not_deleted(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    write(tmp_path / "model", "old")
    (tmp_path / "model").rename(tmp_path / ".model.old")
    request.getfixturevalue("second_rename_fails")
    with pytest.raises(MaskedCRFError):
        write(tmp_path / "model", "new")
    assert (tmp_path / "model" / "file").read_text() == "old"


def test_a_new_folder_takes_the_old_ones_place(tmp_path: Path) -> None:
    for text in ("old", "new"):
        write(tmp_path / "model", text)
        assert (tmp_path / "model" / "file").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
