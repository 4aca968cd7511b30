"""Files that are there whole or not at all, and locks."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from dragoman.model.files import (
    atomic_directory,
    atomic_open,
    atomic_path,
    atomic_write,
    exclusive,
    file_sha256,
    remove_parts,
)


def test_what_fails_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    atomic_write(path, "äh")
    with pytest.raises(OSError, match="full"), atomic_open(path) as file:
        file.write(b"half")
        raise OSError("full")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
    assert path.read_bytes() == "äh".encode()
    assert file_sha256(path) == "e8d37fa1dacd0edfe3a496dbef355e24a4e2510f300c61b149a93e08cfecc4c7"


def test_a_file_being_written_has_the_suffix_of_its_name(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "a.png", durable=False) as part:
        assert part.suffix == ".png"
        assert part.parent == tmp_path
        part.touch()
    assert (tmp_path / "a.png").is_file()


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    with atomic_directory(folder) as work:
        (work / "one").touch()
    with pytest.raises(ValueError, match="no"), atomic_directory(folder) as work:
        (work / "half").touch()
        raise ValueError("no")
    assert [path.name for path in folder.iterdir()] == ["one"]
    with atomic_directory(folder) as work:
        (work / "two").touch()
    assert [path.name for path in folder.iterdir()] == ["two"]
    assert list(tmp_path.iterdir()) == [folder]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is flushed to the disk, and what takes another name, in order."""
    found: list[str] = []
    fsync, replace, rename = os.fsync, Path.replace, Path.rename

    def flush(descriptor: int) -> None:
        found.append(f"fsync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        fsync(descriptor)

    def move(path: Path, to: Path) -> Path:
        found.append(f"rename {Path(to).name}")
        return replace(path, to) if path.is_file() else rename(path, to)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(Path, "replace", move)
    monkeypatch.setattr(Path, "rename", move)
    return found


def test_content_is_on_the_disk_before_its_name_and_the_name_before_the_block_ends(
    tmp_path: Path, calls: list[str]
) -> None:
    atomic_write(tmp_path / "a", "text")
    flushed, renamed, folder = calls
    assert flushed.startswith("fsync .part-") and [renamed, folder] == ["rename a", f"fsync {tmp_path.name}"]
    calls.clear()
    with atomic_directory(tmp_path / "b") as work:
        (work / "one").touch()
    assert calls == ["fsync one", f"fsync {work.name}", "rename b", f"fsync {tmp_path.name}"]


def test_what_killed_writers_left_is_swept_below_too(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name in (".part-node-1-2-x.tar", "below/.part-x"):
        (tmp_path / name).touch()
    (tmp_path / "below" / "kept").touch()
    remove_parts(tmp_path)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["kept"]


@pytest.mark.parametrize("folder", [True, False])
def test_a_second_holder_is_told_so_until_the_first_is_killed(tmp_path: Path, folder: bool) -> None:
    path = tmp_path if folder else tmp_path / "locks" / "lock"
    code = "import pathlib, sys, time\nfrom dragoman.model.files import exclusive\n"
    code += "with exclusive(pathlib.Path(sys.argv[1])) as held: print(held, flush=True); time.sleep(600)"
    first = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    with first.stdout:
        assert first.stdout.readline() == "True\n"
        with exclusive(path) as held:
            assert not held
        first.kill()
        first.wait()
    with exclusive(path, wait=True) as held:
        assert held
        if not folder:
            assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("umask, mode", [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_files_that_a_library_wrote_for_its_owner_alone_get_the_mode_of_new_files(
    tmp_path: Path, umask: int, mode: int
) -> None:
    before = os.umask(umask)  # another user serves what this one trained
    try:
        with atomic_path(tmp_path / "weights.safetensors") as part:
            save_file({"w": np.zeros(2)}, part)
        with atomic_directory(tmp_path / "bundle") as work:
            (work / "below").mkdir()
            save_file({"w": np.zeros(2)}, work / "below" / "w.safetensors")
    finally:
        os.umask(before)
    for name in ("weights.safetensors", "bundle/below/w.safetensors"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode
