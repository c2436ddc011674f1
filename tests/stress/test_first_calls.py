import os
import subprocess
import sys

import pytest

from fgrad.kernels import native

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="there is no fork"),
    pytest.mark.skipif(native.interpreted(), reason="nothing is compiled"),
]


def test_threads_that_make_a_first_call_together():
    command = [sys.executable, "-W", "ignore", "-m", "tests.stress.first_calls"]
    options = [
        "--count",
        "1",
        "--cold",
        "1",
        "--kinds",
        "jit",
        "softmax",
        "sort",
        "scan",
        "fork",
        "--seed",
        "7",
    ]
    ran = subprocess.run(
        [*command, *options], env={**os.environ}, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("{'right': 1}") == 5
