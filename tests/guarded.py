"""Arrays against pages that nobody may touch: one element too far, before or behind, and the process ends.

    python -m tests.guarded            # every kernel, in odd sizes, offsets and strides
    python -m tests.guarded rows places
    python -m tests.guarded --count 9999  # with arguments that do not belong together: refused, or harmless
    python -m tests.guarded --overrun behind  # what the pages are for: a kernel that goes too far

NumPy takes all memory of arrays from `guards()` in its block: those that kernels get and those that they
make. An array ends where a page ends, or begins where one begins.
"""

import argparse
import contextlib
import ctypes
import mmap
import os
import sys
from itertools import product

import numpy as np

import fgrad as fg
from fgrad import lax, random
from fgrad.compiler.elementwise import elementwise
from fgrad.compiler.fuse import BLOCK
from fgrad.errors import BrokenContractError
from fgrad.expr.node import apply, var
from fgrad.kernels import (
    blas,
    functions,
    gather_scatter,
    scans,
    small_matrices,
    sorting,
    threads,
    windows,
)
from fgrad.ops import compiled, contraction
from fgrad.scipy import linalg

PAGE = mmap.PAGESIZE
SET_HANDLER = 304  # of NumPy's C API (NEP 49), the same in all releases since 1.22
SIZE, POINTER = ctypes.c_size_t, ctypes.c_void_p
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = POINTER
libc.mmap.argtypes = [POINTER, SIZE, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mprotect.argtypes = [POINTER, SIZE, ctypes.c_int]
libc.munmap.argtypes = [POINTER, SIZE]

_owned: dict[int, tuple[int, int, int]] = {}
_at_end = True
_taken = 0


def _take(_, size):
    """Return memory between two pages that cannot be read or written."""
    global _taken
    _taken += 1
    whole = -(-max(size, 1) // PAGE) * PAGE
    base = libc.mmap(None, whole + 2 * PAGE, 0, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    if base is None or libc.mprotect(base + PAGE, whole, mmap.PROT_READ | mmap.PROT_WRITE):
        return None
    start = base + PAGE + (whole - size if _at_end else 0)
    _owned[start] = base, whole + 2 * PAGE, size
    return start


def _give(_, start, __):
    if start:
        base, size, _ = _owned.pop(start)
        libc.munmap(base, size)


def _resize(_, start, size):
    new = _take(None, size)
    if start and new:
        ctypes.memmove(new, start, min(size, _owned[start][2]))
        _give(None, start, 0)
    return new


class _Handler(ctypes.Structure):
    """NumPy's PyDataMem_Handler."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", POINTER),
        ("malloc", ctypes.CFUNCTYPE(POINTER, POINTER, SIZE)),
        ("calloc", ctypes.CFUNCTYPE(POINTER, POINTER, SIZE, SIZE)),
        ("realloc", ctypes.CFUNCTYPE(POINTER, POINTER, POINTER, SIZE)),
        ("free", ctypes.CFUNCTYPE(None, POINTER, POINTER, SIZE)),
    )


def _capsule():
    kinds = dict(_Handler._fields_)
    functions = (_take, lambda _, n, size: _take(None, n * size), _resize, _give)
    names = ("malloc", "calloc", "realloc", "free")
    handler = _Handler(b"guarded", 1, None, *[kinds[n](f) for n, f in zip(names, functions, strict=True)])
    new = ctypes.PYFUNCTYPE(ctypes.py_object, POINTER, POINTER, POINTER)
    name = ctypes.create_string_buffer(b"mem_handler")
    capsule = new(("PyCapsule_New", ctypes.pythonapi))(
        ctypes.addressof(handler), ctypes.addressof(name), None
    )
    return capsule, handler, name


_ours = _capsule()


@contextlib.contextmanager
def guards(*, at_end):
    """Let the memory of new arrays in a block lie against a guard page: behind them, or before them."""
    global _at_end
    get = ctypes.PYFUNCTYPE(POINTER, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    api = (POINTER * (SET_HANDLER + 1)).from_address(get(np._core._multiarray_umath._ARRAY_API, None))
    choose = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(api[SET_HANDLER])
    old = choose(_ours[0])
    before, _at_end = _at_end, at_end
    try:
        yield
    finally:
        choose(old)
        _at_end = before


# ---- every kernel --------------------------------------------------------------------------------

RNG = np.random.default_rng(8)


def new(*shape, dtype="d"):
    """Return random numbers in an array of its own."""
    return RNG.standard_normal(shape).astype(dtype)


def scattered(*shape, dtype="d"):
    """Yield arrays of a shape that lie in various ways, from the first byte of their memory to the last."""
    yield new(*shape, dtype=dtype)
    yield new(*shape[::-1], dtype=dtype).T
    yield new(*shape, dtype=dtype)[::-1]
    step = (slice(None, None, 3),) * len(shape)
    yield new(*(3 * n - 2 for n in shape), dtype=dtype)[step]
    yield new(*(3 * n - 2 for n in shape), dtype=dtype)[step][..., ::-1]
    yield np.broadcast_to(new(*shape[:-1], 1, dtype=dtype), shape)
    yield np.broadcast_to(new(shape[-1], dtype=dtype), shape)


SHAPES = [(1, 1), (1, 7), (3, 5), (9, 1), (7, 67), (65, 3), (33, 257)]


def of_rows():
    """Run softmax, norms and their like, as programs of large arrays."""
    compiled.LARGE = contraction.LARGE = 1
    for dtype in "fd":
        for r, n in SHAPES:
            x, ct = new(r, n, dtype=dtype), new(r, n, dtype=dtype)
            for f in (fg.nn.softmax, fg.nn.log_softmax):
                fg.vjp(f, x)[1](ct)
            fg.vjp(lambda x: fg.nn.logsumexp(x, -1), x)[1](new(r, dtype=dtype))
            fg.vjp(fg.nn.layer_norm, x, new(n, dtype=dtype), new(n, dtype=dtype))[1](ct)
        for n in (BLOCK - 1, 2 * BLOCK + 3):
            np.dot(fg.tensor(new(n, dtype=dtype)), new(n, dtype=dtype))


def of_scans():
    """Run scans and sorts."""
    for dtype in "fd":
        for shape in (*SHAPES, (2, 3, 515), (1, 1, 1)):
            for axis, backwards, what in product(range(len(shape)), (False, True), scans.STEPS):
                count = 2 if what.startswith("recur") else 1
                operands = (new(*shape, dtype=dtype) for _ in range(count))
                scans.scanned(what, axis, *operands, backwards=backwards)
        for r, n in SHAPES:
            sorting.stable_order(new(r, n, dtype=dtype))


def of_places():
    """Read and add at places, some of which do not exist."""
    for dtype in "fd":
        for r, n in SHAPES:
            x = new(r, n, dtype=dtype)
            for kind in (np.int32, np.int64):
                for least, end in ((-n, n), (-n - 1, n), (-n, n + 1), (-(10**6), 10**6)):
                    second = RNG.integers(least, end, (r, 5)).astype(kind)
                    for first in (np.arange(-r, 0), np.arange(r) + 1, np.arange(r) - r - 1):
                        gather_scatter.read(x, first, second)
                    for unique in (False, True):
                        gather_scatter.added(
                            new(r, 5, dtype=dtype), np.arange(r), second, (r, n), unique=unique
                        )
            gather_scatter.add_rows(
                np.zeros((r, n), dtype), new(4, n, dtype=dtype), RNG.integers(-r - 1, r + 1, 4)
            )
            gather_scatter.narrowed(RNG.integers(-(2**40), 2**40, n))
        for size in (65_537, 262_144):  # shared by threads
            where = RNG.integers(-1001, 1002, (1, size))
            for second in (where, where.clip(-1001, 1000)):
                gather_scatter._added_in_parts(new(1, size, dtype=dtype), second, 1001, 3)
        gather_scatter._fetch(new(1, 1000, dtype=dtype))


def of_windows():
    """Pool with every padding, and convolve."""
    for dtype in "fd":
        for image in ((1, 1, 1), (2, 7, 9), (3, 4, 33)):
            for window, stride in (((2, 2), (2, 2)), ((3, 3), (1, 1)), ((5, 4), (2, 3))):
                for sides in ((0, 0), (1, 2), (7, 9), (-1, -2), (40, -38)):
                    padding = (sides, sides)
                    count = [
                        (n + sum(sides) - w) // s + 1
                        for n, w, s in zip(image[1:], window, stride, strict=True)
                    ]
                    if min(count) < 1:
                        continue
                    x, shape = new(*image, dtype=dtype), (image[0], *count)
                    given = window, stride, padding
                    out = windows.pooled("max", x, *given, shape)
                    windows.max_pool_back(new(*shape, dtype=dtype), out, x, *given)
                    windows.pooled("sum", x, *given, shape)
                    windows.pooled("spread", out, *given, image)
    for x, w, stride, sides, dilation, groups in (
        ((2, 3, 5, 9), (4, 3, 3, 2), (1, 1), ((1, 1), (0, 1)), (1, 1), 1),  # in registers
        ((1, 4, 6, 17), (6, 2, 3, 3), (1, 1), ((2, 1), (4, 0)), (1, 2), 2),
        ((2, 3, 5, 9), (4, 3, 3, 2), (2, 3), ((1, 1), (0, 1)), (1, 1), 1),  # by products of matrices
        ((2, 4, 6, 7), (2, 2, 3, 3), (2, 1), ((-1, 2), (5, -1)), (2, 1), 2),
        ((1, 2, 5, 6), (2, 2, 3, 3), (2, 1), ((1, 1), (2, 3)), (1, 1), 1),
    ):
        count = [
            (n + sum(p) - (k - 1) * d - 1) // s + 1
            for n, p, k, d, s in zip(x[2:], sides, w[2:], dilation, stride, strict=True)
        ]
        shape = (x[0], w[0], *count)
        given = stride, sides, dilation, groups
        a, b, ct = new(*x, dtype="f"), new(*w, dtype="f"), new(*shape, dtype="f")
        windows.convolve(a, b, *given, shape)
        windows.convolve_back(ct, b, x, *given)
        windows.convolve_kernel(ct, a, w, *given)


def of_matrices():
    """Factor matrices and solve systems, one by one and in stacks, from Python and in programs."""
    least, small_matrices.MANY = small_matrices.MANY, 1
    for dtype in "fd":
        for count, n, k in (
            (1, 1, 1),
            (1, 5, 3),
            (9, 3, 130),
            (16, 16, 1),
            (11, 7, 40),
            (3, 32, 5),
            (2, 33, 2),
        ):
            a, b = new(count, n, n, dtype=dtype), new(count, n, k, dtype=dtype)
            a = (a @ np.swapaxes(a, 1, 2) + n * np.eye(n)).astype(dtype)
            small_matrices.factor(a)
            for x in (a, np.swapaxes(a, 1, 2)):
                for lower, unit in ((False, False), (True, True)):
                    small_matrices.solve_triangular(x, b, lower=lower, unit=unit)
                    blas.solve_triangular(x, b, lower=lower, unit=unit)
            small_matrices.solve(a, b), small_matrices.solve(a[0], b), small_matrices.solve(a, b[-1])
            small_matrices.cofactor(a)

            def whole(a, b):
                x = linalg.cho_solve((np.linalg.cholesky(a), True), b) + np.linalg.solve(
                    np.swapaxes(a, 1, 2), b
                )
                x = np.linalg.svd(b)[1][:, :1] + np.linalg.eigh(a)[0] + np.sum(x, (1, 2))[:, None]
                q, r = np.linalg.qr(b)
                return np.sum(x, 1) + np.sum(q @ r, (1, 2)) + np.linalg.det(a) + np.linalg.slogdet(a)[1]

            whole = fg.jit(whole)
            slopes = fg.jit(fg.grad(lambda a, b, f=whole: np.sum(f(a, b) ** 2), (0, 1)))
            for _ in range(3):
                whole(a, b)
                slopes(a, b)
    small_matrices.MANY = least


def of_loops():
    """Run loops over elements of arrays that lie in every way."""
    x, y = var("x"), var("y")
    loop = elementwise((x, y), (apply("multiply", apply("exp", x), y), apply("less", x, y)))
    for dtype in "fd":
        for shape in ((67,), (5, 7), (3, 1, 5)) if dtype == "d" else ((7,),):
            for a in scattered(*shape, dtype=dtype):
                for b in (new(*shape, dtype=dtype), 2.0, a):
                    loop(a, b)


def of_programs():
    """Run compiled programs, from their first call to the native entry."""

    def summed(x, y):
        e = np.exp(-np.abs(x))
        return np.sum(np.where(e > 0.5, e * y, x), axis=1), np.max(e @ y.T), np.cumsum(x, 0)[::-2], e.T

    def placed(x, i):
        return x[i], x[:, i % x.shape[1]] @ x[0, i % x.shape[1]], x[i][::-1], np.argmax(x, 1)

    def joined(x, y):
        parts = [x[:, k : k + 2] for k in range(x.shape[1] - 1)]
        wide = np.concatenate([*parts, y], axis=1)
        return np.pad(wide, ((1, 2), (3, 0))), np.stack([x, y, x - y], 1)[1:, :, ::2], np.roll(x, 3, 1)

    def looped(x, y):
        def step(c, row):
            return np.tanh(c * 0.9 + row), c @ row

        c, found = lax.scan(step, x[0], y)
        return (
            c,
            found,
            lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 0.5 + s[1][::-1]), (0, c)),
        )

    def normal(x, y):
        return fg.nn.softmax(x, 1), fg.nn.logsumexp(y, 0), np.sort(x, 1), np.linalg.norm(x - y, axis=0)

    for r, n in ((3, 5), (7, 67), (33, 257)):
        x, y, i = new(r, n), new(r, n), RNG.integers(-r, r, 9)
        for f, args in (
            (summed, (x, y)),
            (placed, (x, i)),
            (joined, (x, y)),
            (looped, (x, y)),
            (normal, (x, y)),
        ):
            whole = fg.jit(f)
            slopes = fg.jit(fg.grad(lambda x, b, f=f: sum(np.sum(o * 1.0) for o in fg.tree.leaves(f(x, b)))))
            for _ in range(3):
                whole(*args)
                slopes(*args)
    random.normal(random.key(1), (77,))


FAMILIES = {
    f.__name__.removeprefix("of_"): f
    for f in (of_rows, of_scans, of_places, of_windows, of_matrices, of_loops, of_programs)
}


# ---- arguments that do not belong together ---------------------------------------------------------------


def recorded(families):
    """Return calls of kernels, one for each kernel and ranks of its arguments: (kernel, arguments, steps)."""
    found = {}
    share, call = threads.share, functions.Function.__call__

    def note(kernel, args, steps):
        found.setdefault((id(kernel), *map(np.ndim, args)), (kernel, [kept(a) for a in args], steps))

    def kept(a):
        return a.copy() if isinstance(a, np.ndarray) else a

    def shared(loop, args, count, elements):
        if isinstance(loop, functions.Function):  # those of compiled programs have numbers of their own
            note(loop, args, count)
        share(loop, args, count, elements)

    def called(self, *args):
        note(self, args[:-2] if self._is_loop else args, args[-1] if self._is_loop else None)
        call(self, *args)

    threads.share, functions.Function.__call__ = shared, called
    try:
        for name in families:
            FAMILIES[name]()
    finally:
        threads.share, functions.Function.__call__ = share, call
    return list(found.values())


def altered(a):
    """Return another argument in the place of one."""
    if isinstance(a, bool):
        return not a
    if isinstance(a, int):
        return int(RNG.choice([a - 1, a + 1, 0, -a, 2 * a, a + 2**31, -(2**62), 2**63 - 1]))
    if not isinstance(a, np.ndarray):
        return a
    shape = [max(0, int(RNG.choice([n, n, n - 1, n + 1, 0, 1, 2 * n]))) for n in a.shape]
    out = np.zeros(shape, a.dtype)
    if a.dtype.kind in "fi" and a.size:
        out[...] = np.resize(a, shape)
    return out


def attack(families, count):
    """Call kernels with altered arguments; return how many calls were refused, and how many ran."""
    calls, refused = recorded(families), 0
    count *= bool(calls)  # compiled programs may have none
    for n in range(count):
        kernel, args, steps = calls[n % len(calls)]
        args = [a if RNG.random() < 0.7 else altered(a) for a in args]
        steps = steps if steps is None or RNG.random() < 0.7 else abs(altered(steps)) % 1000
        try:
            kernel(*args, *(() if steps is None else (0, steps)))
        except (BrokenContractError, OverflowError, MemoryError):
            refused += 1
    return refused, count - refused


def overrun(at_end):
    """Go one element too far."""
    kernel = functions.compiled(
        'OUT = types.Array(types.float64, 1, "C")\n\n\n'
        "@typed(types.void(OUT, types.int64))\ndef kernel(out, n):\n"
        "    for i in range(3):\n        out[np.uintp(i + n)] = 1.0\n"
    )
    with guards(at_end=at_end):
        kernel(np.zeros(3), 0)
        sys.stdout.write("inside\n")
        sys.stdout.flush()
        kernel(np.zeros(3), 1 if at_end else -1)


def main():
    """Run kernels between guard pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", choices=[[], *FAMILIES], help="kernels to run; all if none")
    parser.add_argument("--count", type=int, default=0, help="how many calls with altered arguments")
    parser.add_argument("--overrun", choices=["before", "behind"], help="run a kernel that goes too far")
    chosen = parser.parse_args()
    if chosen.overrun:
        overrun(chosen.overrun == "behind")
    for name in chosen.families or FAMILIES:
        for at_end in (True, False):
            sys.stdout.write(f"{name}, a page {'behind' if at_end else 'before'}\n")
            sys.stdout.flush()
            with guards(at_end=at_end):
                if chosen.count:
                    refused, ran = attack([name], chosen.count)
                    sys.stdout.write(f"{refused} calls were refused, {ran} were harmless\n")
                else:
                    FAMILIES[name]()
    sys.stdout.write(f"all inside, {_taken} arrays\n")
    sys.stdout.flush()
    os._exit(0)  # whatever is still alive would be freed by functions that are gone by then


if __name__ == "__main__":
    main()
