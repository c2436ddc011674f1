"""Every row of the table on a device: values and reverse steps of the CPU, and no hidden transfer."""

from __future__ import annotations

import numpy as np
import pytest
from tests.backend.checks import PARTLY, REFUSED, check_row, on_device
from tests.ops.test_rows import SAMPLES

from fgrad.core.tensor import bind

MESSAGE = "of an array on cuda:0: there is no such function for CUDA"
GROUPS: dict[str, list] = {}
for s in SAMPLES:
    if s.row not in {*REFUSED, *PARTLY, "to_device", "staged_to_device"} and "refused" not in s.label:
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


@pytest.mark.parametrize("name", sorted(PARTLY))
def test_what_a_library_has_in_part_is_computed_there_and_else_refused(name):
    of_arrays = [s for s in SAMPLES if s.row == name]
    # orders as numbers, as slopes have them
    of_numbers = [s._replace(args=(n, *s.args[1:])) for n in (0.0, 2.0, -3.0) for s in of_arrays]
    samples = of_numbers if "whole orders" in PARTLY[name] else of_arrays
    for sample in samples:
        if any(getattr(a, "dtype", np.dtype(float)).kind == "c" for a in sample.args):
            with pytest.raises(NotImplementedError, match=MESSAGE):
                check_row(sample)
        else:
            check_row(sample)
    if samples is of_numbers:
        with pytest.raises(NotImplementedError, match="of orders other than"):
            check_row(next(s for s in of_arrays if s.label == "float64"))
