"""NumPy's own loops of linear algebra over stacks of matrices, called by address inside compiled programs.

They call LAPACK as `numpy.linalg` does, so results have its bits, complex ones too. Where one fails its
results are NaN: then, as by `lapack`, NumPy is asked once more, which raises what it raises.
"""

from __future__ import annotations

import numpy as np

from fgrad.kernels import native, vm

_TEXT = """
CONTRACT = "args({names}), {conditions}"
{constants}

def kernel(slots, args, lo, hi):
{pointers}
    places, sizes = np.empty({arrays}, np.int64), np.empty({dims}, np.int64)
    steps = np.empty({count}, np.int64)
    first, last, bad = np.int64(lo), np.int64(hi), np.int64(0)
{look}
    if bad == 0:
        sizes[0] = last - first
{lines}
        invoke(args[{function}], address(places), address(sizes), address(steps), args[{data}])
{check}
"""
_COPY = """    for e in range(first * args[{length}], last * args[{length}]):
        x{to}[e] = x0[e]
"""
_LOOK = """    begin, end = first * args[{step}] // SIZE, (last - 1) * args[{step}] // SIZE
    for e in range(begin, end + args[{length}]):
        if not math.isfinite(x{k}[e]):
            bad = np.int64(1)
"""
_REFUSE = """    if bad != 0:
        int64_at(slots, args, {failed})[0] = REFUSED
"""
_CHECK = """        for i in range(first, last):
            v = x{k}[i * args[{length}]]
            if v != v:
                bad = np.int64(1)
"""


def kernel(
    dtypes: tuple[str, ...],
    dims: int,
    strides: int,
    *,
    finite: tuple[int, ...] = (),
    checked: int = -1,
    overwrites: bool = False,
) -> native.Kernel:
    """Return the kernel of a loop; each of its steps is a matrix.

    Its numbers are the slots of operands and results, and, where it looks or checks, of what failed; then by
    how many bytes matrices follow each other in each of them, 0 if there is one, and how many elements of its
    dtype each has; then the sizes of axes, and the strides along them, as the loop takes them; its address,
    and of what it is given besides.

    Args:
        dtypes: those of real numbers, by operand and result: complex numbers are pairs of them.
        dims: how many sizes there are.
        strides: how many strides.
        finite: operands that have to be finite: iterations may never end beside infinities.
        checked: of which operand or result the first element is NaN where the loop failed.
        overwrites: whether the loop writes to its first operand, which is copied to the last result then.
    """
    count, fails = len(dtypes), bool(finite) or checked >= 0
    step = count + fails
    length = step + count
    size = length + count
    stride = size + dims
    pointers = [f"x{k} = {d}_at(slots, args, {k})" for k, d in enumerate(dtypes)]
    last = count - 1 if overwrites else count  # arrays that the loop knows
    lines = []
    for k in range(last):
        lines += [f"places[{k}] = address(x{last if overwrites and not k else k}) + first * args[{step + k}]"]
        lines += [f"steps[{k}] = args[{step + k}]"]
    lines += [f"sizes[{k + 1}] = args[{size + k}]" for k in range(dims)]
    lines += [f"steps[{last + k}] = args[{stride + k}]" for k in range(strides)]
    look = "".join(_LOOK.format(k=k, step=step + k, length=length + k) for k in finite)
    if overwrites:
        look += _COPY.format(to=last, length=length)
    check = _CHECK.format(k=checked, length=length + checked) if checked >= 0 else ""
    conditions = ["hi > 0", f"min({', '.join(f'step{k}, length{k}' for k in range(count))}) >= 0"]
    for k, d in enumerate(dtypes):
        conditions += [f"(hi - 1) * step{k} + {np.dtype(d).itemsize} * length{k} <= nbytes(x{k})"]
    names = [f"x{k}" for k in range(count)] + ["failed"] * fails
    names += [f"{word}{k}" for word in ("step", "length") for k in range(count)]
    return native.deferred(
        _TEXT.format(
            names=", ".join([*names, "*rest"]),
            conditions=", ".join(conditions),
            constants=f"REFUSED, SIZE = {vm.REFUSED}, {np.dtype(dtypes[0]).itemsize}",
            pointers="\n".join(f"    {line}" for line in pointers),
            arrays=last,
            dims=dims + 1,
            count=last + strides,
            look=look.rstrip("\n"),
            lines="\n".join(f"        {line}" for line in lines),
            function=stride + strides,
            data=stride + strides + 1,
            check=(check + (_REFUSE.format(failed=count) if fails else "")).rstrip("\n"),
        )
    )
