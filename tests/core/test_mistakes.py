"""Mistakes of newcomers: the message says what to write instead, and who writes that gets the gradient.

Each row is a program that somebody wrote for NumPy, SciPy or another library, what the message has to say,
and the program that it leads to, whose derivative is compared with differences of the first one.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from scipy import integrate, interpolate, linalg, ndimage, optimize, special, stats

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax, nn
from fgrad import scipy as fsp
from fgrad.compat.cpython import instructions_have_places

V, M = np.array([1.0, 2.0, 3.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
ROW = np.array([2.0, 1.0])


def powers(zeros):
    def f(x):
        y = zeros(3)
        for i in range(3):
            y[i] = x**i
        return y.sum()

    return f


def lower(cholesky):
    return lambda a: np.sum(cholesky(a + a.T) * M)


def decay(solve):
    return lambda k: solve(lambda t, y: -k * y, (0, 1), [1.0], rtol=1e-9, atol=1e-9).y[0, -1]


def decayed(odeint):
    return lambda k: odeint(lambda y, t: -k * y, [1.0], np.array([0.0, 1.0]))[-1, 0]


def nearest(minimize):
    return lambda x: minimize(lambda t: np.sum((t - x * x) ** 2), np.zeros(1)).x[0]


def nonlinear(root):
    return lambda x: root(lambda t: t**3 - x, np.full(3, 2.0)).x.sum()


def solved(f):
    return lambda x: f(lambda t: t**3 - x, np.full(3, 2.0)).sum()


def drawn(x):
    rng = np.random.default_rng(0)
    return rng.normal(x, 1.0)


# the mistake, words, the remedy, where
GRAD = {
    "array of Tensors": (lambda x: np.array([x[0] ** 2, x[1] ** 3]).sum(), [r"fgrad\.numpy\.array instead of",
        r"numpy\.stack", "plain_numpy"], lambda x: fnp.array([x[0] ** 2, x[1] ** 3]).sum(), V),
    "the same, stacked": (lambda x: np.asarray([x[0] ** 2, x[1] ** 3]).sum(), [r"fgrad\.numpy\.asarray",
        r"numpy\.stack"], lambda x: np.stack([x[0] ** 2, x[1] ** 3]).sum(), V),
    "asarray": (lambda x: np.sum(np.asarray(x) ** 2), [r"fgrad\.numpy\.asarray instead of numpy\.asarray"],
        lambda x: np.sum(fnp.asarray(x) ** 2), V),
    "stored": (powers(np.zeros), [r"fgrad\.numpy\.zeros", "plain_numpy"], powers(fnp.zeros), 2.0),
    "math.sin": (lambda x: math.sin(x), [r"numpy\.sin instead of math\.sin"], lambda x: np.sin(x), 2.0),
    "math.atan2": (lambda x: math.atan2(x, 2.0), [r"numpy\.arctan2"], lambda x: np.arctan2(x, 2.0), 2.0),
    "math.lgamma": (lambda x: math.lgamma(x), [r"fgrad\.scipy\.special\.gammaln"],
        lambda x: fsp.special.gammaln(x), 2.5),
    "math.fsum": (lambda x: math.fsum([x, x * x]), [r"numpy\.sum\(numpy\.stack\(items\)\)"],
        lambda x: np.sum(np.stack([x, x * x])), 2.0),
    "float": (lambda x: float(x) * 2, [r"leave float\(\) out"], lambda x: x * 2, 2.0),
    "int": (lambda x: int(x) * x, [r"numpy\.trunc"], lambda x: np.trunc(x) * x, 2.5),
    "vectorize": (lambda x: np.vectorize(lambda t: t * t if t > 1 else t)(x).sum(), [r"fgrad\.vectorize"],
        lambda x: fg.vectorize(lambda t: t * t if t > 1 else t)(x).sum(), V + 0.5),
    "Polynomial": (lambda c: np.polynomial.Polynomial(c)(2.0), [r"numpy\.polyval\(c\[::-1\], x\)"],
        lambda c: np.polyval(c[::-1], 2.0), V),
    "Polynomial at x": (lambda x: np.polynomial.Polynomial(V)(x).sum(), [r"numpy\.polyval"],
        lambda x: np.polyval(V[::-1], x).sum(), V),
    "draws": (drawn, [r"mean \+ scale \* rng\.normal"],
        lambda x: x + 1.0 * np.random.default_rng(0).normal(), 2.0),
    "logsumexp": (special.logsumexp, [r"fgrad\.scipy\.special\.logsumexp instead of scipy\.special"],
        fsp.special.logsumexp, V),
    "cholesky": (lower(lambda a: linalg.cholesky(a)), [r"fgrad\.scipy\.linalg\.cholesky"],
        lower(fsp.linalg.cholesky), M),
    "solve": (lambda a: linalg.solve(a, ROW).sum(), [r"fgrad\.scipy\.linalg\.solve"],
        lambda a: fsp.linalg.solve(a, ROW).sum(), M),
    "expm": (lambda a: linalg.expm(a).sum(), [r"fgrad\.scipy\.linalg\.expm"],
        lambda a: fsp.linalg.expm(a).sum(), M),
    "logpdf": (lambda m: stats.norm.logpdf(V, m).sum(), [r"fgrad\.scipy\.stats\.norm\.logpdf"],
        lambda m: fsp.stats.norm.logpdf(V, m).sum(), 1.5),
    "solve_ivp": (decay(lambda *a, **kw: integrate.solve_ivp(*a, **kw)),
        [r"fgrad\.scipy\.integrate\.solve_ivp"],
        decay(fsp.integrate.solve_ivp), 0.5),
    "odeint": (decayed(lambda *a: integrate.odeint(*a)), [r"fgrad\.scipy\.integrate\.odeint"],
        decayed(fsp.integrate.odeint), 0.5),
    "quad": (lambda x: integrate.quad(lambda t: np.sin(x * t), 0, 1)[0], [r"fgrad\.scipy\.integrate\.quad"],
        lambda x: fsp.integrate.quad(lambda t: np.sin(x * t), 0, 1)[0], 1.0),
    "CubicSpline": (lambda y: interpolate.CubicSpline([0.0, 1.0, 2.0], y)(0.5) ** 2,
        [r"fgrad\.scipy\.interpolate\.CubicSpline"],
        lambda y: fsp.interpolate.CubicSpline([0.0, 1.0, 2.0], y)(0.5) ** 2, V),
    "gaussian_filter": (lambda x: np.sum(ndimage.gaussian_filter(x, 1.0) ** 2),
        [r"fgrad\.scipy\.ndimage\.gaussian_filter"],
        lambda x: np.sum(fsp.ndimage.gaussian_filter(x, 1.0) ** 2), V),
    "brentq": (lambda x: optimize.brentq(lambda t: t * t - x, 0, 3), [r"fgrad\.scipy\.optimize\.brentq"],
        lambda x: fsp.optimize.brentq(lambda t: t * t - x, 0, 3), 2.0),
    "bisect": (lambda x: optimize.bisect(lambda t: t * t - x, 0, 3), [r"fgrad\.scipy\.optimize\.bisect"],
        lambda x: fsp.optimize.bisect(lambda t: t * t - x, 0, 3), 2.0),
    "minimize": (nearest(lambda *a: optimize.minimize(*a)), [r"fgrad\.scipy\.optimize\.minimize"],
        nearest(lambda f, x: fsp.optimize.minimize(f, x, tol=1e-12)), 2.0),
    "root": (nonlinear(lambda *a: optimize.root(*a)), [r"fgrad\.scipy\.optimize\.root", "afterwards"],
        nonlinear(fsp.optimize.root), V),
    "fsolve": (solved(lambda *a: optimize.fsolve(*a)), [r"fgrad\.scipy\.optimize\.root instead of .*fsolve"],
        solved(lambda f, x: fsp.optimize.root(f, x).x), V),
}  # fmt: skip


def differences(f, x):
    x = np.asarray(x, float)
    found = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[i] = 1e-4
        found[i] = (float(np.squeeze(f((x + step)[()]))) - float(np.squeeze(f((x - step)[()])))) / 2e-4
    return found


@pytest.mark.filterwarnings("ignore::fgrad.UnsolvedWarning")
@pytest.mark.parametrize("mistake", GRAD)
def test_a_mistake_leads_to_the_program_that_differentiates(mistake, capfd):
    wrong, words, right, x = GRAD[mistake]
    with pytest.raises(Exception) as caught:
        fg.grad(wrong)(x)
    capfd.readouterr()  # MINPACK prints a traceback
    text = str(caught.value)
    for word in [*words, r"test_mistakes\.py", "Only where its gradient is to be zero", r"detach\(\)"]:
        assert re.search(word, text, re.DOTALL), f"{word!r} is not in: {text}"
    assert text.index("detach()") > max(re.search(w, text, re.DOTALL).start() for w in words if w[0] != "a")
    assert "site-packages" not in text
    np.testing.assert_allclose(fg.grad(right)(x), differences(wrong, x), rtol=2e-4, atol=2e-4)


# ---- jit -----------------------------------------------------------------------------------------------


def added(n):
    total = 0
    for i in range(n):
        total += i
    return total


def doubled(x):
    while x < 10:
        x = x * 2
    return x


def chosen(x):
    if x > 1:
        return x * 2
    return -x


def between(x):
    return x if 0 < x < 3 else 0 * x


def both(x):
    return x if x > 0 and x < 3 else 0 * x


def asserted(x):
    assert x > 0
    return x


JIT = {
    "float": (lambda x: float(x) * 2, [r"float\(\)", r"Leave float\(\) out"], lambda x: x * 2, 2.0),
    "math.sin": (lambda x: math.sin(x), [r"Call numpy\.sin instead of math\.sin"], lambda x: np.sin(x), 2.0),
    "range": (added, [r"lax\.fori_loop", "static_argnums"],
        lambda n: lax.fori_loop(0, n, lambda i, t: t + i, 0), 5),
    "while": (doubled, [r"lax\.while_loop", "static_argnums"],
        lambda x: lax.while_loop(lambda x: x < 10, lambda x: x * 2, x), 3.0),
    "if": (chosen, [r"numpy\.where", r"lax\.cond", "static_argnums"],
        lambda x: np.where(x > 1, x * 2, -x), 2.0),
    "if, with cond": (lambda x: x * 2 if x > 1 else -x, [r"numpy\.where", r"lax\.cond"],
        lambda x: lax.cond(x > 1, lambda: x * 2, lambda: -x), 2.0),
    "a < x < b": (between, [r"numpy\.logical_and"],
        lambda x: np.where(np.logical_and(x > 0, x < 3), x, 0 * x), 2.0),
    "and": (both, [r"numpy\.logical_and"], lambda x: np.where(np.logical_and(x > 0, x < 3), x, 0 * x), 2.0),
    "assert": (asserted, ["assert"], lambda x: x, 2.0),
    "mask": (lambda x: x[x > 1].sum(), [r"numpy\.where\(mask, x, 0\)\.sum\(\)", "where"],
        lambda x: np.where(x > 1, x, 0).sum(), V),
    "array": (lambda x: np.array([x, x * x]), [r"fgrad\.numpy\.array", r"numpy\.stack"],
        lambda x: np.stack([x, x * x]), 2.0),
    "item of a list": (lambda i: [1.0, 2.0, 3.0][i], [r"numpy\.stack\(items\)\[i\]", "static_argnums"],
        lambda i: fnp.array([1.0, 2.0, 3.0])[i], 1),
    "scipy": (lambda x: special.logsumexp(x), [r"Call fgrad\.scipy\.special\.logsumexp"],
        fsp.special.logsumexp, V),
    "brentq": (lambda x: optimize.brentq(lambda t: t * t - x, 0, 3), [r"fgrad\.scipy\.optimize\.brentq"],
        lambda x: fsp.optimize.brentq(lambda t: t * t - x, 0, 3), 2.0),
}  # fmt: skip
BY_PLACE = {"a < x < b", "and"}  # what a line with an `if` of its own says in Python 3.10, too


@pytest.mark.parametrize("mistake", JIT)
def test_a_mistake_under_jit_leads_to_the_program_that_compiles(mistake):
    wrong, words, right, x = JIT[mistake]
    with pytest.raises(TypeError) as caught:
        fg.jit(wrong)(x)
    text = str(caught.value)
    if mistake not in BY_PLACE or instructions_have_places():
        for word in [*words, r"test_mistakes\.py", "jit does not have"]:
            assert re.search(word, text, re.DOTALL), f"{word!r} is not in: {text}"
    np.testing.assert_allclose(fg.jit(right)(x), wrong(x))


def test_a_shape_has_to_be_static():
    with pytest.raises(TypeError, match=r"static_argnums.*afterwards") as caught:
        fg.jit(lambda n: np.zeros(n) + 1.0)(3)
    assert "test_mistakes.py" in str(caught.value)
    np.testing.assert_array_equal(fg.jit(lambda n: np.zeros(n) + 1.0, static_argnums=0)(3), np.ones(3))


# ---- managers ------------------------------------------------------------------------------------------


def recorded(use):
    x = fg.tensor(V)
    gm = fg.GradManager().attach(x)
    use(gm, x)
    return x.grad


def backward_twice(gm, x):
    with gm:
        a, b = (x**2).sum(), x.sum()
        gm.backward(a)
        gm.backward(b)


def backward_of_both(gm, x):
    with gm:
        gm.backward([(x**2).sum(), x.sum()])


def backward_outside(gm, x):
    with gm:
        y = (x**2).sum()
    gm.backward(y)


def backward_inside(gm, x):
    with gm:
        gm.backward((x**2).sum())


def backward_of_a_tensor(gm, x):
    with gm:
        (x**2).sum().backward()


def without_return(x):
    x.sum()


TWO = [fg.tensor(V), fg.tensor(V)]
MANAGER = {
    "backward twice": (lambda: recorded(backward_twice), RuntimeError,
        ["backward.* has run", "sum of the losses"],
        lambda: recorded(backward_of_both), 2 * V + 1),
    "backward outside": (lambda: recorded(backward_outside), RuntimeError, ["block", "inside `with gm:`"],
        lambda: recorded(backward_inside), 2 * V),
    "y.backward()": (lambda: recorded(backward_of_a_tensor), AttributeError, [r"gm\.backward\(y\)"],
        lambda: recorded(backward_inside), 2 * V),
    "attach(w, b)": (lambda: fg.GradManager().attach(fg.tensor(V), fg.tensor(V)), TypeError,
        [r"attach\(\[w, b\]\)"],
        lambda: len(fg.GradManager().attach(TWO).attached_tensors()), 2),
    "requires_grad=": (lambda: fg.tensor(V, requires_grad=True), TypeError, [r"GradManager\(\)\.attach\(x\)"],
        lambda: recorded(backward_inside), 2 * V),
    "requires_grad": (lambda: setattr(fg.tensor(V), "requires_grad", True), AttributeError,
        [r"GradManager\(\)\.attach\(x\)", r"fgrad\.grad"], lambda: recorded(backward_inside), 2 * V),
    "requires_grad_()": (lambda: fg.tensor(V).requires_grad_(), AttributeError,
        [r"GradManager\(\)\.attach\(x\)"], lambda: recorded(backward_inside), 2 * V),
    "another argument": (lambda: fg.tensor(V, copy=True), TypeError, ["copy", "data, dtype and device"],
        lambda: fg.tensor(V), V),
    "missing return": (lambda: fg.grad(without_return)(V), TypeError, ["without_return", "return missing"],
        lambda: fg.grad(lambda x: x.sum())(V), np.ones(3)),
    "integer leaf": (lambda: fg.grad(lambda p: p["a"]["w"].sum())({"a": {"n": 3, "w": V}}), TypeError,
        [r"argument 0, leaf \['a'\]\['n'\], has dtype int64", "allow_int"],
        lambda: fg.grad(lambda p: p["a"]["w"].sum(), allow_int=True)({"a": {"n": 3, "w": V}})["a"]["w"],
        np.ones(3)),
    "dropout(key, x, 0.2)": (lambda: nn.dropout(fg.random.key(0), V, 0.2), TypeError,
        [r"dropout\(x, 0\.2, key\)"], lambda: nn.dropout(V, 0.0, fg.random.key(0)), V),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MANAGER)
def test_a_mistake_of_who_knows_another_library(mistake):
    wrong, error, words, right, expected = MANAGER[mistake]
    with pytest.raises(error) as caught:
        wrong()
    for word in words:
        assert re.search(word, str(caught.value), re.DOTALL), f"{word!r} is not in: {caught.value}"
    np.testing.assert_allclose(right(), expected)


def test_names_of_other_libraries_are_no_names_of_tensors():
    x = fg.tensor(V)
    for name in ("backward", "requires_grad", "zero_grad"):
        assert not hasattr(x, name)
        assert name not in dir(x)
    assert {"grad", "detach", "sum"} <= set(dir(x))


# ---- other libraries, and cells of notebooks -----------------------------------------------------------


def test_a_table_of_pandas_gives_its_array(monkeypatch, tmp_path):
    folder = tmp_path / "pandas"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import numpy as np\n"
        "class DataFrame:\n"
        "    def __init__(self, data): self.data = data\n"
        "    def to_numpy(self): return self.data\n"
        "    __array_ufunc__ = None\n"
        "    def __matmul__(self, other): return self.data @ np.asarray(other)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    import pandas as pd

    df = pd.DataFrame(M)
    with pytest.raises(TypeError, match=r"df\.to_numpy\(\) @ w instead of df @ w") as caught:
        fg.grad(lambda w: (df @ w).sum())(ROW)
    assert "test_mistakes.py" in str(caught.value)
    np.testing.assert_allclose(fg.grad(lambda w: (df.to_numpy() @ w).sum())(ROW), M.sum(axis=0))
    monkeypatch.delitem(sys.modules, "pandas")


def test_a_refusal_that_was_caught_is_forgotten():
    def f(x):
        with contextlib.suppress(TypeError):
            float(x)
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        fg.grad(f)(2.0)


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import math, fgrad as fg", store_history=True)
shell.run_cell("try:\\n    fg.grad(lambda x: math.sin(x))(1.0)\\nexcept TypeError as e:\\n    print(e)",
               store_history=True)
shell.run_cell("try:\\n    fg.jit(lambda x: x if x > 0 else -x)(1.0)\\nexcept TypeError as e:\\n    print(e)",
               store_history=True)
"""


def test_cells_have_numbers(tmp_path):
    pytest.importorskip("IPython")
    done = subprocess.run(
        [sys.executable, "-c", CELLS], capture_output=True, text=True, check=True,
        env={**os.environ, "IPYTHONDIR": str(tmp_path)},
    )  # fmt: skip
    assert "At In[2], line 2, call numpy.sin instead of math.sin" in done.stdout, done.stdout
    assert "bool() at In[3], line 2 needs" in done.stdout
    assert "lax.cond" in done.stdout
