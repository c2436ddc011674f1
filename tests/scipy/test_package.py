"""fgrad.scipy: found late, and clear about the extra it needs."""

import subprocess
import sys

import pytest

import fgrad


def test_modules_are_listed_and_others_are_not_found():
    assert {"special", "optimize", "integrate", "sparse"} <= set(dir(fgrad.scipy))
    with pytest.raises(AttributeError, match="has no attribute 'spezial'"):
        fgrad.scipy.spezial


@pytest.mark.parametrize("statement", ["fgrad.scipy.special", "import fgrad.scipy.optimize"])
def test_without_scipy_the_error_names_the_extra(statement):
    program = (
        "import sys; sys.modules['scipy'] = None\n"
        "import fgrad\n"
        f"try: {statement}\n"
        "except ImportError as error: print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "fgrad.scipy needs SciPy" in run.stdout
    assert "pip install 'fgrad[scipy]'" in run.stdout
