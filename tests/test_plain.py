"""Functions of plain NumPy on Tensors: the names they say, the programs they make."""

from __future__ import annotations

import copy
import functools
import gc
import math
import operator
import pickle
import sys
import types
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests import plain_helpers as helpers
from tests.plain_programs import BY_VALUES, PROGRAMS

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import plain_numpy

X = np.array([0.3, 1.2, 0.7])


def total(f, args, where):
    """Return the function of the differentiated arguments that sums what `f` returns and writes, weighted."""

    def run(*given):
        filled = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        for i, x in zip(where, given, strict=True):
            filled[i] = x
        out = f(*filled)
        found = [] if out is None else list(out) if isinstance(out, tuple) else [out]
        found += [a for a, b in zip(filled, args, strict=True) if isinstance(b, np.ndarray)]
        sums = 0.0
        for k, y in enumerate(found):
            if y.dtype.kind in "fc":
                weights = np.random.default_rng(k).random(y.shape)
                sums = sums + np.sum(weights * np.real(y)) + np.sum(weights * np.imag(y) ** 2)
        return sums

    return run


def differences(f, args):
    """Return the gradient of `f` by central differences; df/dx - i df/dy for complex numbers."""
    gradients = []
    for k, x in enumerate(args):
        g = np.zeros_like(x)
        for i in np.ndindex(x.shape):
            for unit in (1, 1j) if x.dtype.kind == "c" else (1,):
                ends = []
                for sign in (1, -1):
                    moved = [a.copy() for a in args]
                    moved[k][i] += sign * 1e-6 * unit
                    ends.append(f(*moved))
                g[i] += (ends[0] - ends[1]) / 2e-6 / unit
        gradients.append(g)
    return gradients


def floating(args):
    return [i for i, a in enumerate(args) if isinstance(a, np.ndarray) and a.dtype.kind in "fc"]


@pytest.mark.filterwarnings("ignore:Setting the shape")  # which NumPy's own arrays say from 2.5 on
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_plain_numpy_differentiate_unmodified(name):
    f, args = PROGRAMS[name]
    where = [0] if name == "ring_means" else floating(args)
    given = [args[i] for i in where]
    argnums = tuple(range(len(given)))
    wanted = differences(total(f, args, where), given)
    gradient = fg.grad(total(plain_numpy(f), args, where), argnums)
    value = fg.vjp(total(plain_numpy(f), args, where), *[a.copy() for a in given])[0]
    np.testing.assert_allclose(value, total(f, args, where)(*[a.copy() for a in given]), rtol=1e-12)
    for found, g in zip(gradient(*[a.copy() for a in given]), wanted, strict=True):
        np.testing.assert_allclose(found, g, rtol=1e-6, atol=1e-7)


COMPILED = [
    "bodies",
    "forward_substitution",
    "orthonormal_columns",
    "thomas",
    "relax",
    "waves",
    "shortest_paths",
    "sparse_product",
    "correlations",
    "ring_means",
    "contour",
    "fourier",
    "limited_diffusion",
    "diagonal_activity",
    "counted",
    "visited",
]


@pytest.mark.parametrize("name", COMPILED)
def test_programs_of_plain_numpy_are_compiled_unmodified(name):
    f, args = PROGRAMS[name]
    where = [0] if name == "ring_means" else floating(args)
    given = [args[i] for i in where]
    assert name not in BY_VALUES
    gradient = fg.value_and_grad(total(plain_numpy(f), args, where), tuple(range(len(given))))
    value, wanted = gradient(*given)
    compiled, found = fg.jit(gradient)(*given)
    np.testing.assert_allclose(compiled, value, rtol=1e-12)
    for g, w in zip(found, wanted, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-12)


# ---- which names are bound ------------------------------------------------------------------------

PARTS = [
    helpers.sines,
    helpers.doubled,
    helpers.applied,
    helpers.closure,
    helpers.local_names,
    helpers.local_class,
    helpers.objects,
    helpers.outside,
    helpers.scaling,
    helpers.everything,
    lambda x: helpers.even(4, x[0]) + sum(helpers.powers(x)),
    functools.partial(helpers.even, 2),
]


@pytest.mark.parametrize("f", PARTS, ids=lambda f: getattr(f, "__name__", "partial"))
def test_names_are_bound_wherever_python_keeps_them(f):
    at = X[1:2] if f is PARTS[-1] else X

    def one(g):
        return lambda x: np.sum(g(x[0] if f is PARTS[-1] else x))

    (wanted,) = differences(one(f), [at])
    bound = one(plain_numpy(f))
    for gradient in (fg.grad(bound), fg.jit(fg.grad(bound)), lambda x: fg.vmap(fg.grad(bound))(x[None])[0]):
        np.testing.assert_allclose(gradient(at), wanted, rtol=1e-6, atol=1e-8)


def test_nobody_else_sees_a_difference():
    before = dict(vars(helpers))
    code = {k: v.__code__ for k, v in before.items() if isinstance(v, types.FunctionType)}
    fg.grad(plain_numpy(helpers.everything))(X)
    assert dict(vars(helpers)) == before
    assert helpers.np is np
    assert all(getattr(helpers, k).__code__ is c for k, c in code.items())
    assert type(helpers.buffer(2)) is np.ndarray
    with pytest.raises(ValueError, match="plain_numpy"):
        fg.grad(_unbound)(X)


def _unbound(x):
    y = np.zeros(3)
    y[0] = x[0]
    return y.sum()


def test_where_nothing_is_traced_the_function_itself_runs():
    found = plain_numpy(helpers.scaled)(2.0, X)
    assert type(found) is np.ndarray
    given = X.copy()
    plain_numpy(_square_in_place)(given)
    np.testing.assert_array_equal(given, X**2)
    assert isinstance(plain_numpy(helpers.scaled)(2.0, fg.tensor(X)), fg.Tensor)
    with fg.GradManager():
        assert isinstance(plain_numpy(helpers.buffer)(2), fg.Tensor)


def _square_in_place(x):
    np.multiply(x, x, x)


def test_globals_are_those_of_now(monkeypatch):
    f = fg.grad(plain_numpy(helpers.scaling))
    np.testing.assert_array_equal(f(X), [2, 2, 2])
    monkeypatch.setattr(helpers, "SCALE", 5.0)
    np.testing.assert_array_equal(f(X), [5, 5, 5])
    monkeypatch.setattr(helpers, "zeros", lambda n: fnp.ones(n) * 0)
    monkeypatch.setattr(helpers, "sine", np.cos)
    g = plain_numpy(helpers.everything)
    np.testing.assert_allclose(fg.grad(g)(X), differences(helpers.everything, [X])[0], rtol=1e-6)
    monkeypatch.setattr(
        helpers, "buffer", lambda n: np.full(n, 7.0)
    )  # a function of this module is of the package
    assert float(plain_numpy(helpers.applied)(fg.tensor(X), f=helpers.buffer)) == helpers.applied(
        X, f=helpers.buffer
    )


def test_what_is_written_to_globals_arrives_in_the_module(monkeypatch):
    monkeypatch.setattr(helpers, "COUNT", 0)
    f = fg.grad(plain_numpy(helpers.counting))
    np.testing.assert_array_equal(f(X), [1, 1, 0])
    assert helpers.COUNT == 1
    np.testing.assert_array_equal(f(X), [2, 2, 0])
    monkeypatch.setattr(helpers, "COUNT", 10)
    np.testing.assert_array_equal(f(X), [11, 11, 0])
    monkeypatch.setattr(helpers, "TABLE", None)
    fg.grad(plain_numpy(helpers.remembering))(X)
    assert helpers.TABLE[2] is functools
    for refused in (helpers.deleting, helpers.writing_generator):
        with pytest.raises(TypeError, match=r"global (TABLE|COUNT).* in time"):
            plain_numpy(refused)(fg.tensor(X))


def test_recursion_through_closures():
    def made():
        @plain_numpy
        def even(n, x):
            y = np.zeros(1)
            y[0] = x
            return y[0] if n == 0 else odd(n - 1, y[0]) * 2

        def odd(n, x):
            y = np.zeros(1)
            y[0] = x
            return even(n - 1, y[0]) * 3

        return even

    assert fg.grad(made(), argnums=1)(4, 1.5) == 36


def test_variables_of_outer_functions_stay_shared():
    calls = 0

    @plain_numpy
    def f(x):
        nonlocal calls
        calls += 1
        y = np.zeros(1)
        y[0] = x * factor
        return y[0]

    factor = 2.0
    assert fg.grad(f)(1.0) == 2
    factor = 3.0
    assert fg.grad(f)(1.0) == 3
    assert calls == 2


class Model:
    def __init__(self, n):
        self.n = n

    @plain_numpy
    def run(self, x):
        y = np.zeros(self.n)
        y[0] = x[0]
        return self.squares(y)

    @plain_numpy
    def squares(self, y):
        z = np.empty_like(y)
        z[:] = y * y
        return z.sum()


@plain_numpy
class Bound(helpers.Doubling):
    def run(self, x):
        y = np.zeros(3)
        y[1] = self.helped(x)
        return y.sum()

    def helped(self, x):
        return self.fill(x[0] ** 2).sum()


class Child(Bound):
    def helped(self, x):
        return 2 * super().helped(x)


def test_methods_that_change_names():
    namespace = {"np": np}
    exec("class Model: pass\ndef up(self, x): return np.exp(x)\ndef down(self, x): return np.exp(-x)\n"
         "def f(x): return Model().down(x)", namespace)  # fmt: skip
    model, up, down = namespace["Model"], namespace["up"], namespace["down"]
    model.up, model.down = up, down
    f = plain_numpy(namespace["f"])
    assert fg.grad(f)(1.0) == -np.exp(-1.0)
    del model.up, model.down
    model.down, model.up = up, down  # in the places of one another
    assert fg.grad(f)(1.0) == np.exp(1.0)


def test_methods_and_classes():
    np.testing.assert_array_equal(fg.grad(Model(3).run)(X), [2 * X[0], 0, 0])
    np.testing.assert_allclose(fg.grad(lambda x: Bound(2).run(x))(X), [4 * X[0], 0, 0])
    np.testing.assert_allclose(fg.grad(lambda x: Child(2).run(x))(X), [8 * X[0], 0, 0])
    assert type(Bound(2).run(X)) is np.float64
    assert isinstance(Child(2), Bound)
    assert not isinstance(Bound(2), Child)
    assert issubclass(Child, Bound)
    assert pickle.loads(pickle.dumps(Bound(2))).calls == 0
    bound_method = plain_numpy(helpers.Base(3).fill)
    assert isinstance(bound_method(X[0]), np.ndarray)


def test_transformed_functions_in_between():
    @fg.jit
    def filled(x):
        y = np.zeros(3)
        y[1] = x[0] ** 2
        return y.sum()

    @fg.custom_vjp
    def ruled(x):
        y = np.zeros(3)
        y[1] = x[0] ** 2
        return y.sum()

    def backward(x, ct):
        y = np.zeros(3)
        y[0] = 5 * ct
        return (y,)

    ruled.defvjp(lambda x: (ruled(x), x), backward)

    @plain_numpy
    def f(x):
        def body(i, c):
            y = np.zeros(3)
            y[i] = x[i]
            return c + y.sum()

        return filled(x) + ruled(x) + fg.lax.fori_loop(0, 3, body, 0.0)

    np.testing.assert_allclose(fg.grad(f)(X), [2 * X[0] + 6, 1, 1])
    np.testing.assert_allclose(fg.jit(fg.grad(f))(X), [2 * X[0] + 6, 1, 1])
    np.testing.assert_allclose(fg.grad(plain_numpy(filled))(X), [2 * X[0], 0, 0])
    np.testing.assert_allclose(plain_numpy(filled)(X), X[0] ** 2)


@plain_numpy
def written(x):
    """Square the first element."""
    y = np.zeros(x.shape)
    y[0] = x[0] ** 2
    return y.sum()


def test_a_bound_function_looks_like_the_function_and_pickles():
    assert written.__name__ == "written"
    assert written.__doc__ == "Square the first element."
    assert pickle.loads(pickle.dumps(written)) is written
    assert pickle.loads(pickle.dumps(plain_numpy(helpers.scaling))).fun is helpers.scaling
    assert copy.deepcopy(written) is written
    assert plain_numpy(written) is written
    gradient = pickle.loads(pickle.dumps(fg.grad(plain_numpy(helpers.scaling))))
    np.testing.assert_array_equal(gradient(X), [2, 2, 2])
    assert plain_numpy(np.zeros) is fnp.zeros


def test_functions_are_made_again_once():
    f = plain_numpy(helpers.everything)
    fg.grad(f)(X)
    made = dict(f.bound_to().functions)
    fg.grad(f)(X)
    assert dict(f.bound_to().functions) == made
    assert f.bound_to().of(helpers.buffer) is f.bound_to().of(helpers.buffer)
    staged = fg.jit(f)
    staged(X)
    staged(X + 1)
    assert staged._traces == 1


def test_bound_functions_of_closures_die():
    def made():
        scale = np.ones(3)

        @plain_numpy
        def f(x):
            y = np.zeros(3)
            y[:] = x * scale
            return y.sum()

        return f

    f = made()
    fg.grad(f)(X)
    alive = weakref.ref(f)
    del f
    gc.collect()
    assert alive() is None


def test_threads_share_a_bound_function():
    f = fg.grad(plain_numpy(helpers.everything))
    wanted = fg.grad(plain_numpy(helpers.everything))(X)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(f, [X] * 32):
            np.testing.assert_array_equal(found, wanted)


def test_second_order_and_forward_mode():
    f = plain_numpy(helpers.everything)
    fg.testing.check_grads(f, (X,), order=2)
    np.testing.assert_allclose(fg.jvp(f, (X,), (X,))[1], fg.grad(f)(X) @ X)


def test_dtypes_and_numpys_other_names_are_numpys():
    @plain_numpy
    def f(x):
        y = np.zeros(2, np.float32)
        y[0] = x[0]
        assert y.dtype == np.float32
        assert np.finfo(y.dtype).bits == 32
        assert isinstance(y, np.ndarray)
        assert not isinstance(1.0, np.ndarray)
        assert np.random.default_rng(0).random() > 0
        assert np.bool is np.bool_
        with np.errstate(all="ignore"), np.printoptions(precision=3):
            np.testing.assert_allclose(0.0, 0.0)
        return (y * np.mgrid[0:2]).sum(dtype=np.float64) + np.lib.stride_tricks.sliding_window_view(
            x, 2
        ).sum()

    np.testing.assert_allclose(fg.grad(f)(X), [1, 2, 1])
    assert sys.modules["numpy"].zeros is np.zeros


def test_warnings_are_those_of_the_module():
    @plain_numpy
    def f(x):
        warnings.warn("as it stands", UserWarning, stacklevel=1)
        return x

    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("error")
        warnings.filterwarnings("default", module=__name__.replace(".", r"\."))
        fg.grad(f)(1.0)
    assert [str(w.message) for w in caught] == ["as it stands"]


def test_what_is_no_function_is_refused():
    for wrong in (3, "sum", helpers.Plain(1), operator.itemgetter(0)):
        with pytest.raises(TypeError, match="plain_numpy takes a function of Python"):
            plain_numpy(wrong)


# ---- what the errors say --------------------------------------------------------------------------


def element(x):
    y = np.zeros(3)
    y[1] = x[1] ** 2
    return y.sum()


def row(x):
    y = np.zeros((2, 3))
    y[1] = x
    return y.sum()


def added(x):
    y = np.zeros(3)
    y += x
    return y.sum()


@pytest.mark.parametrize("transformation", [fg.grad, fg.jit, lambda f: lambda x: fg.vmap(f)(x[None])])
@pytest.mark.parametrize("f", [element, row, added])
def test_writing_to_an_array_names_the_decorator_first(f, transformation):
    with pytest.raises((TypeError, ValueError)) as caught:
        transformation(f)(X)
    words = str(caught.value)
    assert 0 < words.index("fgrad.plain_numpy") < words.index("fgrad.numpy.zeros")
    assert "setting an array element" not in words
    assert f"{__file__}:{f.__code__.co_firstlineno + 2}" in words


def test_a_managers_block_says_so_too():
    x = fg.tensor(X)
    with pytest.raises(ValueError, match="plain_numpy"), fg.GradManager().attach(x):
        element(x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.array([x[0], x[1]]).sum(),
        lambda x: np.zeros(2).fill(x[0]),
        lambda x: np.fromiter((v for v in x), float).sum(),
        lambda x: math.sqrt(x[0]),
    ],
)
def test_conversions_name_the_decorator_too(f):
    with pytest.raises((TypeError, ValueError), match=r"lose its gradient.*(plain_numpy|numpy\.sqrt)"):
        fg.grad(f)(X)


# ---- what changes between calls --------------------------------------------------------------------------


def changing():
    """Return functions, and what changes something of what they call."""

    def times(x, w=2.0, *, shift=0.0):
        return np.zeros(3) + x * w + shift

    def otherwise(x, w=2.0, *, shift=0.0):
        return np.ones(3) * 0 + x * w * 7.0

    class Base:
        def method(self, x):
            return np.zeros(3) + x

        def __call__(self, x):
            return np.zeros(3) + x

        @staticmethod
        def plain(x):
            return np.zeros(3) + x

        def gone(self, x):
            return np.zeros(3) + x * 3.0

    class Derived(Base):
        def own(self, x):
            return x * 2.0

        def gone(self, x):
            return np.zeros(3) + x

    replaced = lambda self, x: np.zeros(3) + x * 5.0
    yield "code", lambda x: times(x), lambda: setattr(times, "__code__", otherwise.__code__)
    yield "defaults", lambda x: times(x), lambda: setattr(times, "__defaults__", (5.0,))
    yield "a keyword's default", lambda x: times(x), lambda: times.__kwdefaults__.update(shift=5.0)
    yield "keywords' defaults", lambda x: times(x), lambda: setattr(times, "__kwdefaults__", {"shift": 6.0})
    yield "a method", lambda x: Base().method(x), lambda: setattr(Base, "method", replaced)
    yield "what a call does", lambda x: Base()(x), lambda: setattr(Base, "__call__", replaced)
    yield "a static method", lambda x: Base.plain(x), lambda: setattr(Base, "plain", staticmethod(otherwise))
    yield "a method of the base", lambda x: Derived().method(x), lambda: setattr(Base, "method", replaced)
    yield (
        "a method before the base's",
        lambda x: Derived().method(x),
        lambda: setattr(Derived, "method", lambda self, x: np.zeros(3) + x * 9.0),
    )
    yield "a method that goes", lambda x: Derived().gone(x), lambda: delattr(Derived, "gone")
    yield "a method that needs it", lambda x: Derived().own(x), lambda: setattr(Derived, "own", replaced)

    def itself(x):
        return np.zeros(3) + x * 2.0

    yield "itself", itself, lambda: setattr(itself, "__code__", (lambda x: np.zeros(3) + x * 4.0).__code__)


@pytest.mark.parametrize("name", [name for name, _, _ in changing()])
def test_what_is_called_is_what_it_is_now(name):
    f, change = next((f, change) for label, f, change in changing() if label == name)
    bound = plain_numpy(f)
    value = lambda: fg.vjp(bound, X)[0]
    before = f(X)
    np.testing.assert_array_equal(value(), before)
    change()
    assert not np.allclose(f(X), before)
    for _ in range(2):
        np.testing.assert_array_equal(value(), f(X))
