"""Settings: from the environment, each read when it is needed; what is no number is refused by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from fgrad import config

INTEGERS = {
    "FGRAD_CACHE_SIZE": (config.cache_size, 2**28, 12),
    "FGRAD_CACHE_ENTRIES": (config.cache_entries, 1024, 12),
    "FGRAD_DISABLE_JIT": (config.jit_disabled, False, True),
    "FGRAD_QUIET": (config.quiet, False, True),
    "FGRAD_PRIVATE": (config.private, True, True),
    "FGRAD_CHECK": (config.checked, False, True),
    "FGRAD_PROCESS_EFFECTS": (config.process_effects, True, True),
    "FGRAD_CUDA_GRAPHS": (config.cuda_graphs, True, True),
    "FGRAD_NUM_THREADS": (config.num_threads, None, 12),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_read_when_they_are_needed(name, monkeypatch):
    read, default, twelve = INTEGERS[name]
    for unset in (None, ""):
        monkeypatch.delenv(name, raising=False) if unset is None else monkeypatch.setenv(name, unset)
        assert read() == default or (default is None and 1 <= read() <= 8)
    monkeypatch.setenv(name, "12")
    assert read() == twelve
    monkeypatch.setenv(name, "0")
    assert read() in {False, 1, 2}
    monkeypatch.setenv(name, "many")
    with pytest.raises(ValueError, match=f"{name} must be an integer, not 'many'"):
        read()


def test_bounds_of_numbers(monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", "-3")
    assert config.cache_entries() == 2
    monkeypatch.setenv("FGRAD_NUM_THREADS", "-3")
    assert config.num_threads() == 1


def test_seconds(monkeypatch):
    monkeypatch.delenv("FGRAD_MPI_TIMEOUT", raising=False)
    assert config.mpi_timeout() == 300
    monkeypatch.setenv("FGRAD_MPI_TIMEOUT", "1.5")
    assert config.mpi_timeout() == 1.5
    monkeypatch.setenv("FGRAD_MPI_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="FGRAD_MPI_TIMEOUT must be a number of seconds, not 'soon'"):
        config.mpi_timeout()


def test_words(monkeypatch):
    monkeypatch.delenv("FGRAD_TRACEBACK", raising=False)
    assert not config.full_traceback()
    monkeypatch.setenv("FGRAD_TRACEBACK", "full")
    assert config.full_traceback()
    monkeypatch.setenv("FGRAD_TRACEBACK", "long")
    with pytest.raises(ValueError, match="FGRAD_TRACEBACK is 'short' or 'full', not 'long'"):
        config.full_traceback()


def test_the_folder_of_kernels(monkeypatch, tmp_path):
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(tmp_path))
    assert config.cache_dir() == tmp_path
    monkeypatch.setenv("FGRAD_CACHE_DIR", "~/kernels")
    assert config.cache_dir() == Path.home() / "kernels"


def test_blocks_decide_before_the_environment(monkeypatch):
    monkeypatch.setenv("FGRAD_DISABLE_JIT", "1")
    with config.disable_jit(False):
        assert not config.jit_disabled()
        with config.disable_jit():
            assert config.jit_disabled()
        assert not config.jit_disabled()
    assert config.jit_disabled()
