"""The folder of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.model.finding import InputError
from muster.sim.sweep.folder import ResultFolder, write_atomically

KEY = "0" * 32


def test_a_result_is_read_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = ResultFolder(str(tmp_path / "a" / "b"))
    with folder.locked():
        assert folder.read(KEY) is None and folder.unreadable == []
        written = folder.write(KEY, {"metrics": {"waiting": {"mean": 1.5}}})
    assert ResultFolder(str(folder.path)).read(KEY) == written == {"key": KEY, "metrics": {"waiting": {"mean": 1.5}}}
    assert [file.name for file in (folder.path / "cells").iterdir()] == [f"{KEY}.json"]


UNUSABLE = ["", "{", "[]", '{"key": "1", "metrics": {}}', '{"metrics": {}}', "[" * 100_000, "\xff"]


@pytest.mark.parametrize("text", UNUSABLE, ids=range(len(UNUSABLE)))
def test_a_file_that_is_no_result_of_the_cell_is_reported(tmp_path: Path, text: str) -> None:
    folder = ResultFolder(str(tmp_path))
    with folder.locked():
        (tmp_path / "cells" / f"{KEY}.json").write_text(text, "latin-1")
        assert folder.read(KEY) is None
    assert folder.unreadable == [str(tmp_path / "cells" / f"{KEY}.json")]


def test_two_sweeps_do_not_write_to_one_folder(tmp_path: Path) -> None:
    folder = ResultFolder(str(tmp_path))
    with folder.locked(), pytest.raises(InputError, match="another sweep"), ResultFolder(str(tmp_path)).locked():
        pass
    with folder.locked():
        pass


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), ResultFolder(str(tmp_path / "file" / "x")).locked():
        pass


def test_an_unfinished_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "results.csv"
    write_atomically(file, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("muster.sim.sweep.folder.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old" and [one.name for one in tmp_path.iterdir()] == ["results.csv"]
