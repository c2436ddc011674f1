from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from fgrad import nn

PUBLIC = sorted(name for name in dir(nn) if name[0] != "_" and inspect.isfunction(getattr(nn, name)))


def test_every_name_has_a_test():
    texts = "".join(p.read_text() for p in Path(__file__).parent.glob("test_*.py"))
    assert len(PUBLIC) == 38
    assert [name for name in PUBLIC if f"nn.{name}" not in texts] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_has_a_docstring_with_arguments(name):
    text = inspect.getdoc(getattr(nn, name))
    assert text
    assert "Args:" in text


def test_small_arrays_do_not_wait_for_numba():
    script = (
        "import sys, numpy as np, fgrad as fg\n"
        "x = np.ones((1, 2, 8, 8))\n"
        "nn = fg.nn\n"
        "f = lambda x: nn.max_pool(nn.gelu(nn.layer_norm(nn.conv(x, x[:, :, :2, :2]))), 2).sum()\n"
        "fg.grad(f)(x)\n"
        "assert 'numba' not in sys.modules and 'fgrad.compiler.elementwise' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
