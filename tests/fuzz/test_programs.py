"""Three hundred random programs with fixed seeds: none is silently wrong, and a finding prints its script."""

from __future__ import annotations

import pytest
from tests.compiler.interpreting import kernels_in_python
from tests.fuzz.oracles import quiet, verdict
from tests.fuzz.session import NORMAL, case_of, described


def check(kind: str, seed: int) -> None:
    with quiet():
        case = case_of(kind, seed)
    found = verdict(case)
    assert not found.is_finding, described(kind, seed, case, found)


@pytest.mark.parametrize("part", range(12))
def test_programs_interpreted(part):
    small = [kind for kind in NORMAL if kind != "large"]
    with kernels_in_python():
        for seed in range(part * 21, (part + 1) * 21):
            check(small[seed % len(small)], seed)


@pytest.mark.parametrize("part", range(6))
def test_programs_compiled(part):
    for seed in range(1000 + part * 8, 1008 + part * 8):
        check(NORMAL[seed % len(NORMAL)], seed)
