"""Every row of the table on a device: values and reverse steps of the CPU, and no hidden transfer."""

from __future__ import annotations

import pytest
from tests.backend.checks import REFUSED, check_row, on_device
from tests.ops.test_rows import SAMPLES

from fgrad.core.tensor import bind

MESSAGE = "of an array on cuda:0: there is no such function for CUDA"
GROUPS: dict[str, list] = {}
for s in SAMPLES:
    if s.row not in {*REFUSED, "to_device", "staged_to_device"} and "refused" not in s.label:
        GROUPS.setdefault(s.row, []).append(s)
# of nearly singular matrices two ways leave different rounding errors, large ones in single precision
GROUPS["minors"] = [s for s in GROUPS["minors"] if s.args[0].dtype.char in "dD"]


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_row(name):
    for sample in GROUPS[name]:
        if sample.args and any(hasattr(a, "shape") for a in sample.args):
            check_row(sample)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_no_library_has_is_refused_by_name(name):
    sample = next(s for s in SAMPLES if s.row == name)
    with pytest.raises(NotImplementedError, match=MESSAGE):
        bind(sample.row, *map(on_device, sample.args), **sample.params)
