"""What tests and examples rely on: a kernel cache of their own, fixed random numbers, a patient simulator."""

from __future__ import annotations

import faulthandler
import gc
import math
import os
import sys
import tempfile
import time
import zlib

import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from tests import slow
from tests.compiler.interpreting import kernels_in_python
from tests.helpers import simulate_devices, unchecked

import fgrad
from fgrad.kernels.store import doubt

settings.register_profile("fgrad", deadline=None, derandomize=True)  # a first call may compile
settings.load_profile("fgrad")

HANGS_AFTER = 300  # seconds

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    sys.setswitchinterval(1e-4)  # its barriers wait for the next thread switch: 5 ms each by default


def kernel_cache(config):
    """Return a folder for kernels that is not the user's: pytest's, unless others may write to it."""
    if config.pluginmanager.hasplugin("cacheprovider"):
        folder = config.cache.mkdir("kernels")
        folder.chmod(0o700)
        if not doubt(folder):
            return str(folder)
    folder = tempfile.TemporaryDirectory(prefix="fgrad-kernels-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    return folder.name


def pytest_configure(config):
    """Let all processes, and later runs, share what they compile."""
    config.pluginmanager.register(Watchdog(config))
    os.environ["FGRAD_CACHE_DIR"] = kernel_cache(config)
    os.environ.pop("FGRAD_CACHE_SIZE", None)
    os.environ["FGRAD_QUIET"] = "1"  # some tests look at stderr
    os.environ.setdefault("FGRAD_TRACEBACK", "full")  # who develops fgrad wants to see its frames


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for examples in what is not a test only."""
    found = yield
    return [c for c in found if not (isinstance(c, DoctestModule) and "tests" in file_path.parts)]


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(config, items):
    """Mark the tests that a quick run leaves out, and the examples that `FGRAD_CHECK=1` refuses to run.

    `SLOW_PART=1/4` keeps one quarter of the slow tests, `SLOW_PART=2/4` another one.
    """
    listed = slow.listed()
    for item in items:
        if slow.is_slow(item.nodeid, listed):
            item.add_marker(pytest.mark.slow)
        if isinstance(item, pytest.DoctestItem) and "as_njit(" in item.dtest.docstring:
            item.add_marker(unchecked("as_njit is refused"))
    part, parts = map(int, os.environ.get("SLOW_PART", "0/1").split("/"))
    left_out = {
        item
        for item in items
        if zlib.crc32(item.nodeid.encode()) % parts != part and item.get_closest_marker("slow")
    }
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def pytest_runtest_setup(item):
    """Let the page about GPUs find some."""
    if item.path.name == "cuda.md":
        simulate_devices()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    """Let no test, and nothing that it calls, leave NumPy's setting of warnings changed."""
    before = np.geterr()
    try:
        return (yield)
    finally:
        after = np.geterr()
        np.seterr(**before)
        assert after == before, "NumPy's errstate is not what it was before"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Spare the collector the tests themselves: they live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


class Watchdog:
    """Shows where a test hangs; unlike that of pytest, one timer (a thread) serves many tests."""

    def __init__(self, config):
        self.config, self.started, self.stderr = config, -math.inf, os.dup(sys.__stderr__.fileno())
        config.add_cleanup(self.stop)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self):
        """Start the timer anew, unless it started just now."""
        if time.monotonic() - self.started > HANGS_AFTER / 10:
            self.started = time.monotonic()
            leaves = self.config.getini("faulthandler_exit_on_timeout")
            faulthandler.dump_traceback_later(HANGS_AFTER, file=self.stderr, exit=leaves)
        return (yield)

    def stop(self):
        """All tests ran."""
        faulthandler.cancel_dump_traceback_later()
        os.close(self.stderr)


@pytest.fixture(autouse=True)
def names_of_examples(doctest_namespace):
    """Let examples name fgrad as all of its pages do."""
    doctest_namespace.update(fg=fgrad, fnp=fgrad.numpy, np=np)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every test and every run."""
    return np.random.default_rng(20)


@pytest.fixture
def interpreted():
    """Let Python run the kernels that are made."""
    with kernels_in_python():
        yield
