"""What large arrays leave behind."""

import platform
import subprocess
import sys

import pytest

from fgrad.kernels import memory

SCRIPT = """
import resource
import sys

import numpy as np

if len(sys.argv) > 1:
    from fgrad.kernels import memory  # whose package does what is tested
counts = []
for _ in range(6):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(10**6) for _ in range(4)]
    del arrays
    counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(min(counts))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other rules")
def test_large_arrays_get_the_same_pages_again():
    counts = [
        int(subprocess.run([sys.executable, "-c", SCRIPT, *a], check=True, capture_output=True).stdout)
        for a in ([], ["with"])
    ]
    assert counts[1] < 10
    assert counts[0] > counts[1]


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(memory, "ctypes", None)
    memory.keep()
