"""Derivatives of kernels, to the second order: the adjoint against the tangent, both against differences."""

from __future__ import annotations

import pytest
from tests.adjoints.interpreted import check
from tests.adjoints.kernels import cases

CASES = cases()


@pytest.mark.parametrize("k", range(len(CASES)), ids=[k.__name__ for k, _ in CASES])
def test_a_kernel(k):
    kernel, args = CASES[k]
    assert check(kernel, *args, orders=2)


@pytest.mark.parametrize("k", [0, 3, 11, 13])
def test_stacks_that_grow(k):
    kernel, args = CASES[k]
    assert check(kernel, *args, stack=10_000)
