"""Kernels of a user's own, and the page that shows them."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest
from tests.backend.checks import on_device

import fgrad as fg
from fgrad import extend
from fgrad.errors import NoValueError

PAGE = Path(__file__).parents[2] / "docs" / "cuda.md"


def test_the_page():
    failed, tried = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert not failed
    assert tried > 20


def test_memory_is_that_of_a_tensor_on_a_device():
    t = on_device(np.ones(3))
    assert extend.device_memory(t) is t._value.buffer
    with pytest.raises(TypeError, match=r"this Tensor is on 'cpu'; move it there first: t.to\(\"cuda\"\)"):
        extend.device_memory(fg.tensor([1.0]))
    for transform in (fg.vmap, fg.jit):
        with pytest.raises(NoValueError, match="device_memory"):
            transform(lambda x: extend.device_memory(x))(t)
