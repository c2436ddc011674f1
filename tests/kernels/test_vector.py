import os
import platform
import re

import mpmath as mp
import numpy as np
import pytest
from tests.helpers import optimised

from fgrad.compiler.elementwise import elementwise
from fgrad.expr import special
from fgrad.expr.atoms import ATOMS
from fgrad.expr.node import apply, var
from fgrad.kernels import checks, compilation, functions, native, store, vector

mp.mp.prec = 120
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"  # then a point takes as long as a thousand
FEW, MANY = (200, 200) if INTERPRETED else (3000, 100_000)
X, Y = var("x"), var("y")
# name        exact value
EXACT = {
    "exp": mp.exp,
    "exp2": lambda x: mp.mpf(2) ** x,
    "expm1": mp.expm1,
    "log": mp.log,
    "log2": lambda x: mp.log(x, 2),
    "log10": mp.log10,
    "log1p": mp.log1p,
    "sin": mp.sin,
    "cos": mp.cos,
    "tan": mp.tan,
    "arcsin": mp.asin,
    "arccos": mp.acos,
    "arctan": mp.atan,
    "sinh": mp.sinh,
    "cosh": mp.cosh,
    "tanh": mp.tanh,
    "arcsinh": mp.asinh,
    "arccosh": mp.acosh,
    "arctanh": mp.atanh,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
    "erf": mp.erf,
    "erfc": mp.erfc,
    "power": mp.power,
    "arctan2": mp.atan2,
    "hypot": mp.hypot,
}
UNARY = [name for name in EXACT if ATOMS[name].arity == 1]
WIDER = {np.float32: np.float64, np.float64: np.longdouble}
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])
HUGE_ARGUMENTS = [4194303.5, 4194304.0, 4194305.0, 1e7, 1e10, 1e22, 1e200, 1.7e308]


def kernel(name, dtype):
    """Return the function for arrays of `dtype`, and check that it is vector code that runs."""
    run = elementwise((X, Y)[: ATOMS[name].arity], (apply(name, *(X, Y)[: ATOMS[name].arity]),))
    assert "def fast_" in run.text(np.dtype(dtype))
    return run


def spread(low, high, count, rng):
    """Return numbers of both signs, whose logarithms are spread evenly."""
    return 10 ** rng.uniform(low, high, count) * rng.choice([-1.0, 1.0], count)


def points(name, dtype, count):
    """Return numbers of every magnitude, and more of them where the function does something."""
    rng, info = np.random.default_rng(0), np.finfo(dtype)
    low, high = np.log10(float(info.smallest_subnormal)), np.log10(float(info.max)) - 1e-9
    last = {np.float32: 110.0, np.float64: 760.0}[dtype]
    part = count // 5
    x = [spread(low, high, part, rng), rng.uniform(-3, 3, part), rng.uniform(-last, last, part)]
    x += [spread(-9, 3, part, rng)]
    if name in {"sin", "cos", "tan"}:  # near the zeros, and up to the limit of the reduction
        x += [rng.integers(0, 2**22, part) * (np.pi / 2), rng.uniform(-4.3e6, 4.3e6, part)]
    elif name.startswith(("log", "arccosh")):
        x += [1 + spread(-17, 0, part, rng), -1 + 10 ** rng.uniform(-17, 0, part)]
    elif name in {"arcsin", "arccos", "arctanh"}:
        x += [
            rng.uniform(-1, 1, part),
            1 - 10 ** rng.uniform(-17, 0, part),
            10 ** rng.uniform(-17, 0, part) - 1,
        ]
    elif name in {"erf", "erfc"}:
        x += [rng.uniform(-1, 28, part)]
    with np.errstate(all="ignore"):
        return np.concatenate(x).astype(dtype)


def pairs(name, dtype, count):
    rng, high = np.random.default_rng(0), np.log10(float(np.finfo(dtype).max))
    part = count // 4
    if name == "hypot":
        low = np.log10(float(np.finfo(dtype).smallest_subnormal))
        y = [spread(low, high, part, rng), rng.uniform(-3, 3, part), spread(low, high, 2 * part, rng)]
        x = [spread(low, high, part, rng), rng.uniform(-3, 3, part), y[2] / 4 * rng.uniform(-3, 3, 2 * part)]
    elif name == "arctan2":
        y = [spread(-high, high, part, rng), rng.uniform(-3, 3, part), spread(-high, high, part, rng)]
        x = [spread(-high, high, part, rng), rng.uniform(-3, 3, part), y[2] / 4 * rng.uniform(-3, 3, part)]
    else:
        y = [
            10 ** rng.uniform(-high, high, part),
            10 ** rng.uniform(-2, 2, part),
            1 + spread(-9, -3, part, rng),
        ]
        x = [spread(-4, 4, part, rng), rng.uniform(-50, 50, part), 10 ** rng.uniform(0, 7, part)]
        y += [10 ** rng.uniform(-high, high, part)]
        x += [rng.uniform(-1.05, 1.05, part) * high / np.maximum(abs(np.log10(y[3])), 0.1)]
    with np.errstate(all="ignore"):
        return [np.concatenate(a).astype(dtype) for a in (y, x)]


def units(y, expected):
    """Return how far `y` is from `expected`, of a wider dtype, in units of its last place."""
    info = np.finfo(y.dtype)
    with np.errstate(all="ignore"):
        rounded = expected.astype(y.dtype)
        unit = np.abs(np.spacing(np.where(np.isfinite(rounded), rounded, info.max)))
        found = np.abs(y.astype(expected.dtype) - expected) / unit.astype(expected.dtype)
    overflown = np.isinf(y) & (np.abs(expected) > float(info.max) * (1 - float(info.eps)))
    same = (y == rounded) | (np.isnan(y) & np.isnan(expected)) | overflown & (np.sign(y) == np.sign(expected))
    return np.where(same, 0, np.where(np.isnan(found), np.inf, found)).astype(float)


def worst(name, dtype, operands, expected):
    found = units(kernel(name, dtype)(*operands), expected)
    i = int(np.argmax(found))
    return found[i], [x[i] for x in operands]


@DTYPES
@pytest.mark.parametrize("name", EXACT)
def test_they_are_right_to_two_units_in_the_last_place(name, dtype):
    operands = [points(name, dtype, FEW)] if name in UNARY else pairs(name, dtype, FEW)
    inside = np.ones(operands[0].shape, bool)
    with np.errstate(all="ignore"):
        for x in operands:
            inside &= np.isfinite(x)
        rough = ATOMS[name].reference(*(x.astype(float) for x in operands))
        inside &= np.isfinite(rough) & (
            (rough != 0) | (name not in {"exp", "exp2", "power", "erfc", "sigmoid"})
        )
    operands = [x[inside] for x in operands]
    values = [EXACT[name](*map(mp.mpf, map(float, row))) for row in zip(*operands, strict=True)]
    head = np.array([float(v) for v in values])
    rest = np.array([float(v - mp.mpf(float(v))) if mp.isfinite(v) else 0.0 for v in values])
    kind = np.float64 if dtype == np.float32 else np.longdouble
    if kind is np.longdouble and np.finfo(kind).nmant < 60:
        pytest.skip("NumPy has no wider numbers here")
    error, at = worst(name, dtype, operands, head.astype(kind) + rest.astype(kind))
    assert error <= 2, (error, at)


@DTYPES
@pytest.mark.parametrize("name", [name for name in EXACT if hasattr(np, name)])
def test_they_are_right_at_a_hundred_thousand_points(name, dtype):
    wide = WIDER[dtype]
    if np.finfo(wide).nmant < np.finfo(dtype).nmant + 8:
        pytest.skip("NumPy has no wider numbers here")
    operands = [points(name, dtype, MANY)] if name in UNARY else pairs(name, dtype, MANY)
    with np.errstate(all="ignore"):
        expected = ATOMS[name].reference(*(x.astype(wide) for x in operands))
    error, at = worst(name, dtype, operands, expected)
    assert error <= 2, (error, at)


def edges(dtype):
    info = np.finfo(dtype)
    x = [0.0, np.inf, np.nan, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 1e3, float(info.max), float(info.tiny)]
    x += [float(info.smallest_subnormal), 5 * float(info.smallest_subnormal), 1 / float(info.eps)]
    x += [1 / float(info.eps) - 1, 2 / float(info.eps), *(v for v in HUGE_ARGUMENTS if v < float(info.max))]
    return np.array([*x, *(-v for v in x)], dtype)


@DTYPES
@pytest.mark.parametrize("name", EXACT)
def test_special_points_are_numpys(name, dtype):
    operands = (
        [edges(dtype)] if name in UNARY else [a.ravel() for a in np.meshgrid(edges(dtype), edges(dtype))]
    )
    with np.errstate(all="ignore"):
        expected = ATOMS[name].reference(*operands)
        wide = (
            ATOMS[name].reference(*(x.astype(np.longdouble) for x in operands))
            if hasattr(np, name)
            else expected
        )
    y = kernel(name, dtype)(*operands)
    exact = ~np.isfinite(expected) | (expected == 0) | (expected == operands[0])
    with np.errstate(all="ignore"):
        good = np.where(exact, (y == expected) & (np.signbit(y) == np.signbit(expected)), units(y, wide) <= 2)
    good |= np.isnan(y) & np.isnan(expected)
    assert good.all(), [(*(x[i] for x in operands), y[i], expected[i]) for i in np.flatnonzero(~good)[:5]]


@DTYPES
@pytest.mark.parametrize("name", EXACT)
def test_no_bit_depends_on_where_a_vector_or_a_piece_ends(name, dtype):
    run = kernel(name, dtype)
    operands = [points(name, dtype, 500)] if name in UNARY else pairs(name, dtype, 500)
    with np.errstate(all="ignore"):
        whole = run(*operands)
        for start in range(40):
            for count in (1, 5, start):
                part = run(*(x[start : start + count] for x in operands))
                np.testing.assert_array_equal(
                    part.view(np.uint8), whole[start : start + count].view(np.uint8)
                )


def test_powers_of_the_base_are_exact():
    whole = np.arange(-1074.0, 1024.0)
    np.testing.assert_array_equal(kernel("log2", np.float64)(2.0**whole), whole)
    np.testing.assert_array_equal(kernel("exp2", np.float64)(whole), 2.0**whole)
    np.testing.assert_array_equal(kernel("log10", np.float64)(10.0 ** np.arange(23)), np.arange(23.0))


@DTYPES
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("count", [1, 3, 7, 67])
def test_huge_arguments_do_not_disturb_their_neighbours(name, dtype, count):
    # the vectors that hold one are computed by calls, which must leave the registers of the loop as they were
    rng = np.random.default_rng(count)
    for _ in range(20):
        x = rng.uniform(-9, 9, count).astype(dtype)
        x[rng.random(count) < 0.2] = 1e9
        wide = WIDER[dtype]
        assert units(kernel(name, dtype)(x), ATOMS[name].reference(x.astype(wide))).max() <= 2


def test_loops_over_trigonometric_functions_call_whole_vectors():
    if INTERPRETED:
        pytest.skip("nothing is compiled")
    code = compilation.assembly(kernel("sin", np.float64).text(np.dtype("d")), "function", "f")
    code = optimised(code)
    assert "x double> @fgrad_libm_sin_" in code.partition("define ")[2]


@pytest.mark.skipif(
    platform.machine().lower() not in {"x86_64", "amd64"}, reason="other processors have others"
)
@pytest.mark.parametrize(("features", "bits"), [("+sse2", 128), ("+avx", 256), ("+avx,+avx512f", 512)])
def test_fallbacks_are_made_for_vectors_that_the_processor_has(features, bits, monkeypatch):
    if INTERPRETED:
        pytest.skip("nothing is compiled")
    text = kernel("cos", np.float32).text(np.dtype("f"))
    monkeypatch.setattr(store, "processor", lambda: ("generic", features))
    code = compilation.assembly(text, "function", "f")
    lanes = {int(n) for n in re.findall(r"^define [^@]*@.?fgrad_libm_cosf_(\d+)", code, re.MULTILINE)}
    assert lanes == {n for n in (2, 4, 8, 16) if 32 * n <= bits}


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_what_is_left_to_the_c_library(kind):
    if INTERPRETED:
        pytest.skip("nothing is compiled")
    found, few = set(), (X, Y, var("z"))
    for name, atom in ATOMS.items():
        text = elementwise(few[: atom.arity], (apply(name, *few[: atom.arity]),)).text(np.dtype(kind))
        code = compilation.assembly(text, "function", "f")
        found |= set(re.findall(r'^declare [^@]*@"?([a-z]\w*)"?\(', code, re.MULTILINE))
    assert {name.removesuffix("f") for name in found} - {checks.SYMBOL} == {"sin", "cos", "tan", "nextafter"}


def test_several_libm_fallbacks_fit_into_one_kernel():
    x = np.array([0.5, 1e9, -2.0, 1e20])
    run = elementwise((X,), tuple(apply(name, X) for name in ("sin", "cos", "tan")))
    for y, f in zip(run(x), (np.sin, np.cos, np.tan), strict=True):
        np.testing.assert_allclose(y, f(x), rtol=1e-15)


LINES = """
IN, OUT = (types.Array(types.float64, 1, "C", readonly=one) for one in (True, False))
DISTINCT = True


@typed(types.void(IN, OUT))
def kernel(x, out):
    kept = np.empty(64, np.float64)
    for k in range(64):
        kept[k] = 2.0 * x[k]
    a, b, c, d = libm_sin(x[0]), libm_sin(x[1]), libm_sin(x[2]), libm_sin(x[3])
    out[0], out[1], out[2], out[3] = a + kept[0], b + kept[1], c + kept[2], d + kept[3]
"""


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
def test_lines_without_a_loop_do_not_call_whole_vectors():
    """LLVM calls those by the usual convention, which they have not: behind that nothing is defined."""
    lines = optimised(compilation.assembly(LINES, "function", "f"))
    body = lines[lines.index("@f(") : lines.index("\n}", lines.index("@f("))]
    assert body.count("double @fgrad_libm_sin(double") == 4
    x, out = 1e8 * np.arange(1.0, 65.0), np.zeros(4)
    functions.compiled(LINES)(x, out)
    np.testing.assert_allclose(out, np.sin(x[:4]) + 2 * x[:4], rtol=1e-15)


def test_text_is_substituted_and_only_what_is_needed_is_defined():
    text = vector.substituted("y = math.exp(x) + math.nextafter(x, y) + math.expm1(x)")
    assert text == "y = fast_exp(x) + math.nextafter(x, y) + fast_expm1(x)"
    head = vector.preamble("fast_exp(x)", np.dtype("f"))
    assert head.count("@helper") == 2
    assert "def fast_scaled(" in head
    assert "libm" not in vector.preamble("fast_exp(x)", np.dtype("f"))
    assert vector.preamble("fast_sin(x)", np.dtype("d")).startswith(
        "# libm_sin of fgrad.kernels.vector.libm\n"
    )
    assert vector.preamble("math.sin(x)", np.dtype("d")) == ""


def points_of_error_functions(dtype):
    x = np.concatenate([np.linspace(-6, 6, 241), np.linspace(-120, 88, 105), [1e-30, 1e-5, -1e-5, 26.5, 9.0]])
    return x.astype(dtype)


@pytest.mark.parametrize("name", ["erf", "erfc"])
@DTYPES
def test_error_functions_in_numpy(name, dtype):
    x = points_of_error_functions(dtype)
    y, info = getattr(special, name)(x), np.finfo(dtype)
    for a, b in zip(y, x, strict=True):
        e = EXACT[name](mp.mpf(float(b)))
        room = float(info.eps) * abs(e) + float(info.smallest_subnormal)
        assert abs(mp.mpf(float(a)) - e) < 4 * room


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_special_functions_keep_dtypes_and_handle_edges(dtype):
    x = np.array([np.inf, -np.inf, np.nan, 0.0], dtype)
    for f, expected in {
        special.erf: [1, -1, np.nan, 0],
        special.erfc: [0, 2, np.nan, 1],
        special.sigmoid: [1, 0, np.nan, 0.5],
        special.softplus: [np.inf, 0, np.nan, np.log(dtype(2))],
    }.items():
        y = f(x)
        assert y.dtype == dtype
        np.testing.assert_array_equal(y, np.array(expected, dtype))
    assert special.erf(np.float64(0.5)).shape == ()
    assert special.erf(3).dtype == np.float64
    with pytest.raises(TypeError, match="real numbers"):
        special.erfc(np.array([1j]))


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
def test_a_function_of_the_c_library_keeps_an_argument_that_is_always_the_same():
    text = """
def kernel(slots, args, lo, hi):
    x = float64_at(slots, args, 0)
    for i in range(lo, hi):
        x[i] = x[i] + libm_tan(1e7)
"""
    made = optimised(compilation.assembly(text, "kernel", "same"))
    assert "double @fgrad_libm_tan(double %" in made  # which its variants for vectors have
