import mpmath as mp
import numpy as np
import pytest

from fgrad.expr import special
from fgrad.expr.node import apply, var
from fgrad.kernels import cpu, vector

NAMES = ("exp", "expm1", "log1p", "tanh", "erfc")
ULPS = {"erfc": 4.0}


def points(name, dtype):
    x = np.concatenate(
        [np.linspace(-6, 6, 241), np.linspace(-120, 88, 105), [1e-30, 1e-5, -1e-5, -0.999, 26.5, 9.0]]
    )
    if name == "log1p":
        x = np.concatenate([x[x > -1], np.geomspace(1e-300, 1e300, 60), -np.geomspace(1e-9, 0.99, 40)])
    if name == "exp" and dtype == np.float64:
        x = np.concatenate([x, np.linspace(-744, 709, 50)])
    with np.errstate(over="ignore", under="ignore"):
        x = x.astype(dtype)
    return x[np.isfinite(x)]


def errors(y, x, exact):
    info = np.finfo(y.dtype)
    found = []
    for a, b in zip(y, x, strict=True):
        e = exact(mp.mpf(float(b)))
        if abs(e) > float(info.max):
            assert np.isinf(a)
            continue
        found.append(
            float(abs(mp.mpf(float(a)) - e) / (float(info.eps) * abs(e) + float(info.smallest_subnormal)))
        )
    return max(found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_they_are_right_to_a_few_units_in_the_last_place(dtype):
    x = var("x")
    kernel = cpu.elementwise((x,), tuple(apply(name, x) for name in NAMES))
    for i, name in enumerate(NAMES):
        at = points(name, dtype)
        assert errors(kernel(at)[i], at, getattr(mp, name)) < ULPS.get(name, 2.0), name


def test_text_is_substituted_and_only_what_is_needed_is_defined():
    text = vector.substituted("y = math.exp(x) + math.sin(x) + math.expm1(x)")
    assert text == "y = fast_exp(x) + math.sin(x) + fast_expm1(x)"
    head = vector.preamble("fast_tanh(x)", np.dtype("f"))
    assert head.count("@helper") == 2
    assert "def fast_expm1" in head
    assert vector.preamble("math.sin(x)", np.dtype("d")) == ""


@pytest.mark.parametrize("name", ["erf", "erfc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_error_functions_in_numpy(name, dtype):
    at = points(name, dtype)
    assert errors(getattr(special, name)(at), at, getattr(mp, name)) < 4


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
