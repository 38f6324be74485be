"""A folder appears whole or not at all, whoever else writes it, and is read as one version of itself."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import stat
from pathlib import Path

import pytest

from maskedcrf import folders
from maskedcrf.errors import DataError, MaskedCRFError
from maskedcrf.folders import READ_ATTEMPTS, FolderFiles, atomic_folder, read_consistently

NAMES = ("config", "weights", "card")
ROUNDS = 200


def write(target: Path, text: str) -> None:
    with atomic_folder(target) as aside:
        for name in NAMES:
            (aside / name).write_text(text)


def read(target: Path) -> set[str]:
    return {(target / name).read_text() for name in NAMES}


@pytest.fixture(params=[True, False], ids=["exchange", "two steps"])
def _exchange(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system call that exchanges two names, and where there is none."""
    if not request.param:
        monkeypatch.setattr(folders, "_exchange", lambda aside, target: False)


@pytest.mark.usefixtures("_exchange")
def test_a_new_folder_takes_the_old_ones_place(tmp_path: Path) -> None:
    for text in ("old", "new"):
        write(tmp_path / "model", text)
        assert read(tmp_path / "model") == {text}
    assert os.listdir(tmp_path) == ["model"]  # noqa: PTH208


@pytest.mark.usefixtures("_exchange")
def test_of_two_writers_at_once_the_later_wins_whole(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with atomic_folder(target) as first:
        (first / "config").write_text("first")
        write(target, "second")
        assert read(target) == {"second"}
        (first / "weights").write_text("first")
        (first / "card").write_text("first")
    assert read(target) == {"first"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_old_folder_is_put_back_where_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "model", "old")
    rename = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if self.name.endswith(".tmp"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail)
    monkeypatch.setattr(folders, "_exchange", lambda aside, target: False)
    with pytest.raises(MaskedCRFError, match=r"No space left.*what was there before is untouched"):
        write(tmp_path / "model", "new")
    assert read(tmp_path / "model") == {"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_link_stays_a_link_and_permissions_follow_the_umask(tmp_path: Path) -> None:
    write(tmp_path / "versions", "old")
    (tmp_path / "model").symlink_to("versions")
    write(tmp_path / "model", "new")
    assert (tmp_path / "model").is_symlink()
    assert read(tmp_path / "versions") == {"new"}
    plain = tmp_path / "plain"
    plain.mkdir()
    assert stat.S_IMODE((tmp_path / "versions").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def _write_and_die(target: Path) -> None:
    with atomic_folder(target) as aside:
        (aside / "config").write_text("half")
        os._exit(1)


def test_what_a_killed_writer_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    target = tmp_path / "model"
    process = multiprocessing.get_context("fork").Process(target=_write_and_die, args=(target,))
    process.start()
    process.join()
    assert [path.name.endswith(".tmp") for path in tmp_path.iterdir()] == [True]
    with atomic_folder(target) as living:
        write(target, "new")
        assert living.is_dir()
        assert {path.name for path in tmp_path.iterdir()} == {"model", living.name}


def _write_often(target: Path, text: str) -> None:
    for _ in range(ROUNDS):
        write(target, text)


def test_two_processes_that_write_one_folder_never_mix_it(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write(target, "a")
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_write_often, args=(target, text)) for text in "ab"]
    for writer in writers:
        writer.start()
    seen = list[set[str]]()
    while any(writer.is_alive() for writer in writers):
        seen.append(read_consistently(target, lambda: read(target)))
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert all(content in ({"a"}, {"b"}) for content in [*seen, read(target)])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_folder_replaced_while_it_is_read_is_read_anew(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write(target, "old")
    texts = ["new", "newer"]

    def slowly() -> set[str]:
        first = (target / "config").read_text()
        if texts:
            write(target, texts.pop())
        return {first} | read(target)

    assert read_consistently(target, slowly) == {"new"}


def test_a_folder_that_never_stays_the_same_is_refused_in_one_line(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write(target, "old")
    with pytest.raises(DataError, match=f"replaced {READ_ATTEMPTS} times while it was being read; try again later"):
        read_consistently(target, lambda: write(target, "new"))


def test_what_is_wrong_with_a_folder_that_stays_the_same_is_said(tmp_path: Path) -> None:
    target = tmp_path / "model"
    write(target, "old")
    shutil.rmtree(target)
    with pytest.raises(DataError, match=r"config: No such file or directory"):
        read_consistently(target, lambda: read(target))


def test_a_file_is_read_once_and_never_through_a_link(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_text("old")
    files = FolderFiles(tmp_path)
    before = files.read("config")
    (tmp_path / "config").write_text("new")
    assert files.read("config") == before == b"old"
    assert list(files.digests()) == ["config"]
    (tmp_path / "card").unlink()
    (tmp_path / "card").symlink_to("weights")
    with pytest.raises(DataError, match=r"card:1: no such file \(or a link, which is not followed\)"):
        files.read("card")
