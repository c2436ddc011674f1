"""The translation of kernels, against Numba and Python, which say what the same text means."""

import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.helpers import grouped, optimised, unchecked
from tests.kernels import by_numba

from fgrad.compiler.elementwise import elementwise
from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import apply, var
from fgrad.kernels import checks, compilation, native, vm
from fgrad.kernels.scalars import UntranslatableError

pytestmark = pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")

INTEGERS = [*(-7, -3, -2, -1, 0, 1, 2, 3, 5, 120, 2**40), -(2**63), 2**63 - 1]
FLOATS = [*(0.0, -0.0, 1.5, -2.5, 3.0, -7.25, 1e-40, 1e30, math.inf, -math.inf, math.nan)]
PAIRS = [
    *(("int64", "int64"), ("int32", "int32"), ("int8", "int64"), ("uint64", "uint64"), ("uint8", "uint8")),
    *(("uint32", "int64"), ("float32", "float32"), ("float64", "float64")),
    *(("float64", "int64"), ("int32", "float32"), ("float32", "float64"), ("uint64", "float64")),
]
FLOAT = ("x + y", "x - y", "x * y")
WHOLE = (
    *(
        *FLOAT,
        "x // y",
        "x % y",
        "x & y",
        "x | y",
        "x ^ y",
        "x << bits",
        "x >> bits",
        "min(x, y)",
        "max(x, y)",
    ),
)
COMPARED = ("x < y", "x <= y", "x > y", "x >= y", "x == y", "x != y", "x < y and y < x", "x < y or x == y")
SIGNED = ("-x", "abs(x)")
ONE = (*SIGNED, "x % y", "math.sqrt(x)", "math.copysign(x, y)", "math.hypot(x, y)", "math.isfinite(x)")


def run(kernel, buffers, args=(), hi=1, lo=0):
    slots = checks.addresses(buffers)
    vm.call(kernel, np.array([*range(len(buffers)), *args], np.int64), slots, lo, hi)


def both_ways(text, *buffers, args=(), hi=1):
    """Return what a kernel writes to the third of its buffers: the same however it is compiled, as in all."""
    results = []
    for compiler in (native.compiled, by_numba.compiled):
        given = [np.array(b) for b in buffers]
        run(compiler(text), given, args, hi)
        results.append(given)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)
        if one.dtype.kind == "f":
            np.testing.assert_array_equal(
                np.signbit(one) & ~np.isnan(one), np.signbit(other) & ~np.isnan(one)
            )
    return results[0][2]


def kernel(*lines, head="", kinds=("float64", "float64", "float64")):
    """Return the text of a kernel whose buffers are a, b, c..."""
    given = [
        f"{name} = {kind}_at(slots, args, {k})"
        for k, (name, kind) in enumerate(zip("abcd", kinds, strict=False))
    ]
    body = "\n".join(f"    {line}" for line in [*given, *lines])
    return f"{head}\ndef kernel(slots, args, lo, hi):\n{body}\n"


def samples(kind):
    if "float" in kind:
        return np.array(FLOATS, kind)
    return np.array(INTEGERS, object).astype(np.int64).astype(kind)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_operators(first, second):
    x, y = (np.array(a) for a in np.broadcast_arrays(samples(first)[:, None], samples(second)))
    floats = "float" in first + second
    mixed = {first, second} in ({"int64", "uint64"}, {"int32", "uint64"})  # compared exactly, not added
    whole = [] if floats or mixed else [*WHOLE, *SIGNED, "~x"]
    rest = [*(() if mixed else ("x / y",)), *COMPARED, *(FLOAT if floats else ())]
    rest += ONE if "float" in first and "float" in second else ()
    lines = [f"d[i * {len(whole)} + {k}] = {code}" for k, code in enumerate(whole)]
    lines += [f"c[i * {len(rest)} + {k}] = {code}" for k, code in enumerate(rest)]
    body = ["x, y = a[i], b[i]", "bits = np.int64(y) & 31", *lines]
    head = "for i in range(np.int64(lo), np.int64(hi)):"
    text = kernel(head, *(f"    {line}" for line in body), kinds=(first, second, "float64", "int64"))
    both_ways(text, x, y, np.zeros(x.size * len(rest)), np.zeros(x.size * len(whole), np.int64), hi=x.size)


def test_division_of_integers_is_pythons():
    pairs = [(a, b) for a in INTEGERS for b in INTEGERS if (a, b) != (-(2**63), -1)]
    x, y = np.array(pairs, np.int64).T.copy()
    text = kernel(
        "for i in range(lo, hi):", "    c[i] = a[i] // b[i]", "    a[i] = a[i] % b[i]", kinds=("int64",) * 3
    )
    buffers = [x.copy(), y, np.zeros_like(x)]
    run(native.compiled(text), buffers, hi=x.size)
    assert buffers[2].tolist() == [a // b if b else 0 for a, b in pairs]
    assert buffers[0].tolist() == [a % b if b else 0 for a, b in pairs]


def test_the_smallest_integer_by_minus_one_does_not_trap():
    text = kernel("c[0] = a[0] // b[0]", "c[1] = a[0] % b[0]", kinds=("int64",) * 3)
    out = np.ones(2, np.int64)
    run(native.compiled(text), [np.array([-(2**63)]), np.array([-1]), out])
    assert out.tolist() == [-(2**63), 0]


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64", "float32", "float64"])
def test_conversions(kind):
    names = ["int8", "uint16", "int32", "int64", "float32", "float64", "bool"]
    targets = [f"np.float64({'bool' if n == 'bool' else f'np.{n}'}(a[i]))" for n in names]
    lines = [f"    c[i * {len(names)} + {k}] = {code}" for k, code in enumerate(targets)]
    text = kernel("for i in range(np.int64(lo), np.int64(hi)):", *lines, kinds=(kind, "bool", "float64"))
    x = np.array([0, 1, 2.75, 100], np.float64).astype(kind)
    out = both_ways(text, x, x != 0, np.zeros(x.size * len(names)), hi=x.size).reshape(-1, len(names))
    expected = [[np.float64(v.astype(n)) for n in names] for v in x]
    np.testing.assert_array_equal(out, expected)


def test_bits():
    text = kernel(
        "for i in range(lo, hi):", "    c[i] = np.int32(np.float32(a[i]).view(np.int32) + 1).view(np.float32)"
    )
    x = np.linspace(-2, 3, 9)
    expected = (x.astype("f").view(np.int32) + 1).view("f")
    np.testing.assert_array_equal(both_ways(text, x, x, np.zeros(9), hi=9), expected)


def test_a_variable_that_a_loop_makes_wider():
    text = kernel(
        "total, count = np.int32(0), 0",
        "for i in range(lo, hi):",
        "    total = total + np.int32(2147483647)",
        "    for k in range(np.uintp(1), np.uintp(3)):",
        "        count = count + 0.5 if a[i] > 0 else count",
        "c[0] = total",
        "c[1] = count",
    )
    x = np.array([1.0, -1.0, 2.0])
    assert both_ways(text, x, x, np.zeros(2), hi=3).tolist() == [3.0 * 2147483647, 2.0]


def test_branches_with_variables_of_two_kinds():
    text = kernel(
        "for i in range(lo, hi):",
        "    if a[i] > 0:",
        "        k = 7",
        "        r, s = 1, -a[i]",
        "    elif a[i] < 0:",
        "        k = 3",
        "        r, s = 0.5, np.float32(a[i])",
        "    else:",
        "        k = 1",
        "        r, s = -1, 0.1",
        "    t, u = (s, r) if k & 1 != 0 and k > 1 else (r, s)",
        "    c[i] = t + 100 * (u + k)",
    )
    x = np.array([0.1, -0.1, 0.0, np.nan])
    both_ways(text, x, x, np.zeros(4), hi=4)


def test_a_name_that_stands_for_another_thing_in_each_loop():
    text = kernel(
        "for i in range(lo, hi):",
        "    for k in range(3):",
        "        left = k - 1",
        "        b[i] += left",
        "    for q in range(np.uintp(2), np.uintp(4)):",
        "        left = q * np.uintp(5)",
        "        c[i] += left",
        "    left = a[i] < 0",
        "    c[i] += 0.5 if left else 0.25",
    )
    x = np.array([-1.0, 1.0])
    assert both_ways(text, x, x, np.zeros(2), hi=2).tolist() == [25.5, 25.25]


def test_what_a_condition_guards_is_not_read():
    # the second buffer has one number only; what lies behind it must not matter
    page = np.zeros(1)
    text = kernel(
        "for i in range(np.int64(lo), np.int64(hi)):",
        "    far = 1 << 50",
        "    x = b[far] if a[i] > 5 else b[0]",
        "    y = a[i] > 5 and b[far] > 0",
        "    z = a[i] < 5 or b[far] > 0",
        "    c[i] = x + (1 if y else 0) + (10 if z else 0)",
    )
    x = np.array([1.0, 2.0])
    assert both_ways(text, x, page, np.zeros(2), hi=2).tolist() == [10.0, 10.0]


def test_loops_that_are_left_and_places_that_are_changed():
    text = kernel(
        "k, steps = np.int64(0), np.int64(0)",
        "while True:",
        "    c[k] += a[k] * a[k]",
        "    c[k] -= 1",
        "    k += 1",
        "    if a[k] < 0:",
        "        break",
        "    for j in range(np.int64(5)):",
        "        if j == k:",
        "            break",
        "        steps += 1",
        "c[k] = steps",
    )
    x = np.array([3.0, 4.0, 5.0, -1.0, 9.0])
    assert both_ways(text, x, x, np.zeros(5)).tolist() == [8.0, 15.0, 24.0, 3.0, 0.0]


def test_helper_functions_have_names_of_their_own():
    head = """
TWO, F = 2, np.float32


@helper
def half(x):
    y: float = x / TWO
    return y


@helper
def third(x):
    "Return something near."
    y = half(x) - half(half(half(x)))
    return F(y)

"""
    text = kernel(
        "y = 5.0", "for i in range(lo, hi):", "    c[i] = third(a[i]) + y + half(np.inf)", head=head
    )
    x = np.linspace(1, 2, 4)
    assert np.isinf(both_ways(text, x, x, np.zeros(4), hi=4)).all()


@grouped("name, dtype", itertools.product(sorted(ATOMS), ["float32", "float64"]))
def test_every_function_of_elements_is_known(name, dtype):
    params = tuple(var(letter) for letter in "xyz"[: ATOMS[name].arity])
    text = elementwise(params, (apply(name, *params) * 1,)).text(np.dtype(dtype))  # a truth value is 1 or 0
    assert compilation.assembly(text, "kernel", "kernel")


BORDERS = """
U1 = np.uintp(1)
U2 = np.uintp(2)
U3 = np.uintp(3)


def kernel(slots, args, lo, hi):
    a, b = float64_at(slots, args, 0), float64_at(slots, args, 1)
    places, out = alone(int64_at(slots, args, 2)), float64_at(slots, args, 3)
    for i in range(lo, hi):
        for k in {turns}(U2):
            first = places[k]
        for k in {turns}(U3):
            far = a[i * U3 + k - U2] if np.int64(k) >= np.int64(U2) else 0.0
            near = a[i * U3 + k - U1] if np.int64(k) + np.int64(U1) >= np.int64(U2) else 0.0
            own = b[i * U2 + k - U1] if np.int64(k) + np.int64(4) >= np.int64(5) else 0.0
            out[i * U3 + k] = far + own
"""


def test_turns_with_conditions_of_their_own_are_written_out_without_a_warning(capfd):
    """LLVM threads such conditions, cannot count the turns then, and says so on the standard error stream."""
    a, b, out = np.arange(6.0), 10 + np.arange(4.0), np.zeros(6)
    run(native.compiled(BORDERS.format(turns="unrolled")), [a, b, np.zeros(2, np.int64), out], hi=2)
    assert capfd.readouterr().err == ""
    assert out.tolist() == [0, 10, 11, 0, 12, 16]


def test_comparisons_in_a_chain():
    lines = ["x = a[i]", "c[i] = 1 if -1 < x < 2 else 0", "b[i] = 1 if -1.0 <= x <= 2.0 < 3.0 else 0"]
    text = kernel("for i in range(lo, hi):", *(f"    {line}" for line in lines))
    x = np.array([-1.0, 0.0, 2.0, np.nan])
    assert both_ways(text, x, x, x, hi=4).tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sign", "+-")
def test_bits_do_not_depend_on_where_a_loop_is_cut(sign, dtype):
    """Of products beside sums, in vectors, shorter ones behind them, and what is left."""
    rows = []
    for k in range(8):
        r, c = divmod(k, 4)
        pairs = (
            f"b0[i * U8 + U{2 * r}] * b1[i * U8 + U{c}]",
            f"b0[i * U8 + U{2 * r + 1}] * b1[i * U8 + U{c + 4}]",
        )
        others = (f"b2[i * U4 + U{r}] * b1[i * U8 + U{c}]", f"b2[i * U4 + U{r + 2}] * b1[i * U8 + U{c + 4}]")
        rows.append(f"b3[i * U8 + U{k}] = ({' + '.join(pairs)}) {sign} ({' + '.join(others)})")
    text = "\n".join([
        *(f"U{k} = np.uintp({k})" for k in range(9)),
        "def kernel(slots, args, lo, hi):",
        *(f"    b{k} = alone({dtype}_at(slots, args, {k}))" for k in range(3)),
        f"    b3 = {dtype}_at(slots, args, 3)",
        "    for i in range(lo, hi):",
        *(f"        {row}" for row in rows),
    ])  # fmt: skip
    count = 82
    random = np.random.default_rng(3)
    given = [random.normal(size=count * n).astype(dtype) for n in (8, 8, 4)]
    made, found = native.compiled(text + "\n"), []
    for cuts in ([0, count], [0, 64, count], [0, 48, 71, count], list(range(count + 1))):
        out = np.zeros(8 * count, dtype)
        for lo, hi in itertools.pairwise(cuts):
            run(made, [*given, out], hi=hi, lo=lo)
        found.append(out.tobytes())
    assert len(set(found)) == 1


@unchecked("kernels are no vector code")
def test_long_sums_are_taken_in_vectors():
    text = kernel("s = 0.0", "for i in range(lo, hi):", "    s = add_any(s, a[i])", "c[0] = s")
    written = compilation.assembly(text, "kernel", "kernel")
    assert "double>" in optimised(written)


@pytest.mark.parametrize(
    "line",
    [
        *("c[0] = a[0] ** 2", "c[0] = +args[0]", "c[0] = a[0] < 2 < b[0]", "c[0] = a[0] // b[0]"),
        *("c[0] = np.uint64(3) + args[0]", "c[0] = np.float32(2) + np.int8(3)", "c[0] = ~a[0]"),
        *("for k in (1, 2): c[k] = k", "for k in range(1, 9, 2): c[k] = k", "c[0] = a[0] and b[0]"),
        *("c[0] = missing", "c[0] = missing(1)", "c[0] = math.gamma(a[0])", "c[0] = a", "a[0, 0] = 1"),
        *("c[0] = larger(np.float32(1), 1.0)", "c[0] = complex64_at(slots, args, 0)[0]", "del a"),
        *("c[0] = max(a[0], b[0])", "c[0] = np.sin(a[0])", "assert lo", "c[0] = math.exp(2)", "return"),
        *(
            "a.x = 3",
            "c[0] = [1][0]",
            "x, y = 1",
            "while lo: pass\n    else: c[0] = 1",
            "c[a[0]] = 1",
            "x = 1\n    for k in range(2): x = x + 1 if lo else lo\n    c[0] = x",
        ),
    ],
)
def test_what_is_not_known_is_refused(line):
    with pytest.raises(UntranslatableError):
        compilation.assembly(kernel(line), "kernel", "kernel")


def test_a_function_that_calls_itself():
    head = "@helper\ndef f(x):\n    return f(x)\n"
    with pytest.raises(UntranslatableError):
        compilation.assembly(kernel("c[0] = f(a[0])", head=head), "kernel", "kernel")


def test_a_kernel_without_its_result():
    text = "def kernel(this, args, count):\n    args[0] = count\n"
    with pytest.raises(UntranslatableError):
        compilation.assembly(text, "entry", "kernel")


def test_the_interpreter_of_tables_by_numba():
    # it has most of the intrinsics, which are declared once for both
    add = native.compiled(
        "def kernel(slots, args, lo, hi):\n    x, y = int64_at(slots, args, 0), int64_at(slots, args, 1)\n"
        "    y[0] += x[0]\n"
    )
    program = vm.Assembler()
    with program.loop(4, [(0, 8)]):
        program.call(add, [0, 1], 0, 1)
        program.copy(2, 1, 8)
    program.swap(2, 1)
    program.view(1, 3)
    results = []
    for kernel in (vm.interpreter(vm.Assembler()), by_numba.compiled(vm._TEXT)):
        buffers = [np.arange(1, 5), np.zeros(1, int), np.zeros(1, int), np.zeros(1, int)]
        slots = checks.addresses(buffers)
        vm.call(kernel, program.words, slots, 0, len(program))
        results.append([b.tolist() for b in buffers])
    assert results[0] == results[1]
    assert results[0][1:] == [[10], [10], [0]]


SCRIPT = """
import sys
import numpy as np
import fgrad
from fgrad.kernels import native

def model(p, x, n):
    h = np.tanh(x @ p["w"] + p["b"])
    z = np.where(h > 0.1, np.sin(h), h ** 3) / (1 + np.exp(-h))
    rows = p["w"][n % 3]
    def step(c, y):
        return np.cos(c) * y, c
    c, ys = fgrad.lax.scan(step, z[0], z)
    d = fgrad.lax.while_loop(lambda s: s[1] < 5, lambda s: (s[0] * 1.5, s[1] + 1), (c, 0))[0]
    e = fgrad.lax.cond(n[0] > 1, lambda v: v * 2, lambda v: v - 1, d)
    return np.sum(e) + np.prod(rows) + np.cumsum(ys).max() + np.hypot(rows, 1.0).mean() + (n // 2).sum()

rng = np.random.default_rng(0)
p = {"w": rng.standard_normal((3, 4)), "b": rng.standard_normal(4)}
x, n = rng.standard_normal((6, 3)), np.arange(5)
f = fgrad.value_and_grad(model)
value, grads = fgrad.jit(f)(p, x, n)
plain, slow = f(p, x, n)
assert np.allclose(value, plain) and all(np.allclose(grads[k], slow[k]) for k in p)
windows = fgrad.nn.max_pool(fgrad.nn.conv(np.ones((2, 2, 9, 9)), np.ones((3, 2, 3, 3))), 2)
print(native.statistics().compiled > 3, "numba" in sys.modules)
"""


def test_compiled_programs_do_not_import_numba(tmp_path):
    env = {**os.environ, "FGRAD_CACHE_DIR": str(tmp_path / "cache"), "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


@unchecked("places are those of the checks")
def test_places_do_not_wrap_around_but_where_something_is_taken_away():
    """LLVM makes no vectors of many strided accesses without knowing that, and must not be told more."""
    text = """
U3 = np.uintp(3)


def kernel(slots, args, lo, hi):
    x, out = float64_at(slots, args, 0), float64_at(slots, args, 1)
    n = np.uintp(args[2])
    for i in range(lo, hi):
        out[i * U3 + n] = x[i * U3]{}
"""
    for more, flags, plain in (
        ("", 3, 0),
        (" + x[U3 - i * U3 + n]", 3, 2),
        ("\n        k = i * U3 + n", 3, 2),
    ):
        written = compilation.assembly(text.format(more), "kernel", "symbol")
        operations = [line for line in written.splitlines() if " = mul " in line or " = add " in line]
        assert sum("nuw nsw" in line for line in operations) == flags, operations
        assert sum("nuw" not in line for line in operations) == plain, operations
        assert "getelementptr inbounds" in written
    x, out = np.arange(12.0), np.zeros(15)
    run(native.compiled(text.format(" + x[U3 - i * U3 + n]")), [x, out], (3,), hi=3)
    expected = np.zeros(15)
    expected[[3, 6, 9]] = [x[0] + x[6], x[3] + x[3], x[6] + x[0]]
    np.testing.assert_array_equal(out, expected)


ONCE = """
@helper
def twice(x):
    y = x + x
    return y


@helper
def clamped(x, top):
    if x > top:
        x = top
        excess = np.int64(1)
    else:
        excess = np.int64(0)
    return x + excess


def kernel(slots, args, lo, hi):
    x, out = int64_at(slots, args, 0), int64_at(slots, args, 1)
    total = np.int64(0)
    last = np.int64(-1)
    for i in range(np.int64(lo), np.int64(hi)):
        here = x[i]
        if here > 2:
            part = twice(here)
            total += part
        else:
            for j in range(here):
                inner = twice(j) + here
                total = total + inner
        after = clamped(twice(here), 9)
        last = after
        k = np.int64(0)
        while k < after:
            step = k + 1
            k = step
        out[i] = total + after + k
    out[np.int64(hi)] = last
"""


def test_variables_that_are_assigned_once_need_no_memory():
    x = np.array([0, 1, 2, 3, 7, -4, 40])
    expected, total, after = [], 0, 0
    for here in x.tolist():
        total += 2 * here if here > 2 else sum(2 * j + here for j in range(here))
        after = 10 if 2 * here > 9 else 2 * here
        expected.append(total + after + max(after, 0))
    found, out = native.compiled(ONCE), np.zeros(len(x) + 1, np.int64)
    run(found, [x, out], hi=len(x))
    np.testing.assert_array_equal(out, [*expected, after])
    written = compilation.assembly(ONCE, "kernel", "f")
    # of `total`, `last`, `k`, the two counters, the parameter `x` and `excess`
    assert written.count(" alloca ") == 7
