from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fgrad
from fgrad import __main__ as command_line
from fgrad.kernels import native, store

KEYS = ("0123456789abcdef" * 2, "f" * 32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of a cache that holds two entries, part of a file, and files of somebody else."""
    path = tmp_path / "cache"
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(path))
    monkeypatch.setenv("FGRAD_CACHE_SIZE", "5000000")
    (path / "__pycache__").mkdir(parents=True)
    path.chmod(0o700)
    for name in (
        f"k_{KEYS[0]}.o",
        f"k_{KEYS[1]}.o",
        f"k_{KEYS[1]}.o.{'0' * 16}.tmp",
    ):
        (path / name).write_bytes(bytes(1000))
    for name in ("letter.txt", "k_letter.o", f"k_{'g' * 32}.o", "__pycache__/other.pyc"):
        (path / name).write_bytes(b"dear")
    return path


def left(folder):
    return sorted(p.name for p in folder.rglob("*") if p.is_file())


def test_info(folder):
    info = fgrad.cache.info()
    assert info == (folder, 2, 3000, 5_000_000, "")
    assert str(info).splitlines() == [
        f"folder   {folder}",
        "entries  2",
        "size     0.0 MB of at most 5.0 MB",
    ]


def test_clear_removes_entries_and_what_killed_writers_left_and_nothing_else(folder):
    (folder / f"k_{KEYS[0]}.o.0123456789abcdef.tmp").write_bytes(b"part")
    assert fgrad.cache.clear() == 2
    assert left(folder) == ["k_" + "g" * 32 + ".o", "k_letter.o", "letter.txt", "other.pyc"]
    assert fgrad.cache.info()[1:3] == (0, 0)
    assert fgrad.cache.clear() == 0


def test_a_folder_that_is_not_there_is_empty_and_not_made(folder, monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(folder / "missing"))
    assert fgrad.cache.folder() == folder / "missing"
    assert fgrad.cache.info()[1:3] == (0, 0)
    assert fgrad.cache.clear() == 0
    assert not (folder / "missing").exists()


def test_files_that_leave_meanwhile_are_not_counted(folder, monkeypatch):
    known = Path.lstat

    def lstat(path):
        if path.name == f"k_{KEYS[1]}.o":
            raise FileNotFoundError
        return known(path)

    (folder / f"k_{KEYS[1]}.o.{'0' * 16}.tmp").unlink()
    monkeypatch.setattr(Path, "lstat", lstat)
    assert fgrad.cache.info()[1:3] == (1, 1000)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no numeric users")
def test_a_folder_that_others_may_write_to_is_not_used(folder, capsys):
    folder.chmod(0o777)
    assert fgrad.cache.info().refusal == f"others may write to {folder} (its mode is 777)"
    assert command_line.main(["cache", "info"]) == 0
    assert f"not used: others may write to {folder} " in capsys.readouterr().out


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
def test_what_is_compiled_is_an_entry(folder, monkeypatch):
    monkeypatch.setattr(native, "_kernels", {})
    fgrad.cache.clear()
    native.compiled("def kernel(slots, args, lo, hi):\n    float64_at(slots, args, 0)[0] = 0.125\n")
    assert fgrad.cache.info().entries == 1
    assert fgrad.cache.info().bytes == sum(p.stat().st_size for p in folder.glob("k_*.o")) - 8
    assert fgrad.cache.clear() == 1
    assert not store.entries(folder)


@pytest.mark.parametrize("argv", [["cache"], ["cache", "info"]])
def test_command_line_says_what_there_is(folder, capsys, argv):
    assert command_line.main(argv) == 0
    assert capsys.readouterr().out == f"{fgrad.cache.info()}\n"
    assert fgrad.cache.info().entries == 2


def test_command_line_empties_it(folder, capsys):
    assert command_line.main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == f"entries removed: 2\n{fgrad.cache.info()}\n"
    assert fgrad.cache.info().entries == 0


def test_asking_for_the_cache_imports_no_compiler(folder):
    script = "import sys, fgrad; fgrad.cache.info(); assert not {'numba', 'llvmlite'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", script], check=True)
