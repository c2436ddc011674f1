"""Every primitive of the table on a device: values and reverse steps of the CPU, and no hidden transfer."""

from __future__ import annotations

import pytest
from tests.backend.checks import check_primitive
from tests.ops.test_primitives import SAMPLES

ELSEWHERE = {  # primitives with tests of their own: what moves, and a stream that is not the CPU's
    *("to_device", "staged_to_device", "draw"),
}
GROUPS: dict[str, list] = {}
for s in SAMPLES:
    if s.primitive not in ELSEWHERE and "refused" not in s.label:
        GROUPS.setdefault(s.primitive, []).append(s)
# of nearly singular matrices two ways leave different rounding errors, large ones in single precision
GROUPS["minors"] = [s for s in GROUPS["minors"] if s.args[0].dtype.char in "dD"]


@pytest.mark.parametrize("name", sorted(GROUPS))
def test_primitive(name):
    for sample in GROUPS[name]:
        if sample.args and any(hasattr(a, "shape") for a in sample.args):
            check_primitive(sample)
