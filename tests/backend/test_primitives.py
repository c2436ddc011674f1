"""Every primitive of the table on a device: values and reverse steps of the CPU, and no hidden transfer."""

from __future__ import annotations

from tests.backend.checks import check_primitive
from tests.helpers import grouped
from tests.ops.test_primitives import SAMPLES, Sample

ELSEWHERE = {  # primitives with tests of their own: what moves, and a stream that is not the CPU's
    *("to_device", "staged_to_device", "draw"),
}


def is_checked(sample: Sample) -> bool:
    """Return whether a sample has arrays that may be on a device."""
    if sample.primitive in ELSEWHERE or "refused" in sample.label:
        return False
    if sample.primitive == "minors" and sample.args[0].dtype.char not in "dD":
        return False  # of nearly singular matrices two ways leave different rounding errors, large ones here
    return any(hasattr(a, "shape") for a in sample.args)


@grouped("sample", filter(is_checked, SAMPLES), "primitive", quick=1)
def test_primitive(sample):
    check_primitive(sample)
