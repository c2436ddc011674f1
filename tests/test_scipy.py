"""SciPy's functions of the array API standard (SCIPY_ARRAY_API=1) work on Tensors and differentiate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy", minversion="1.17", reason="earlier ones take fewer arrays but NumPy's")

from tests.scipy_functions import COMPILED, FUNCTIONS


@pytest.fixture(scope="module")
def verdicts():
    done = subprocess.run(
        [sys.executable, "-m", "tests.scipy_functions"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[1],
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name, verdicts):
    assert verdicts[name] == "right"


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_functions_refuse_to_lose_gradients(name, verdicts):
    assert verdicts[name] == "refused"
