"""Dtypes and values are SciPy's for every kind of argument; `python -m tests.scipy.dtypes` runs all."""

from __future__ import annotations

from zlib import crc32

import pytest
from tests.dtypes import Call, differences
from tests.scipy.dtypes import CALLS, DEVIATIONS, OURS, THEIRS

pytestmark = [pytest.mark.filterwarnings("ignore")]  # SciPy's own, of what is compared with it
PARTS = 4


def part(k: int) -> list[Call]:
    return [c for c in CALLS if crc32(c.name.encode()) % PARTS == k]


@pytest.mark.parametrize("k", range(PARTS))
def test_results_are_those_of_scipy(k):
    step = lambda call: 3 if len(call.kinds) == 1 else 31
    found = differences(part(k), THEIRS, OURS, ("eager",), DEVIATIONS, step=step)
    assert [line for _, _, line in found if line] == []


@pytest.mark.parametrize("k", range(PARTS))
@pytest.mark.parametrize("mode", ["beside", "staged", "mapped", "gradients"])
def test_every_way_in_gives_the_same(k, mode):
    step = lambda call: 23 if len(call.kinds) == 1 else 149
    found = differences(part(k), THEIRS, OURS, (mode,), DEVIATIONS, step=step)
    assert [line for _, _, line in found if line] == []


def test_unsigned_integers_have_the_sigmoid_of_their_number():
    """Their negative wraps around."""
    import numpy as np
    from scipy import special

    import fgrad as fg

    for kind in ("bool", "uint8", "uint16", "uint32", "uint64"):
        x = np.array([0, 1, 1], kind)
        found = special.expit(fg.tensor(x))
        np.testing.assert_array_equal(found.numpy(), special.expit(x))
        assert found.dtype == special.expit(x).dtype
