"""vectorize: numpy.vectorize is the oracle for values, differences for derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers import close, differences, exactly, is_numpy

import fgrad as fg

RNG = np.random.default_rng(0)

SIGNATURES = {
    "(n,m),(m)->(n)": (lambda a, x: a @ x, [(2, 3), (3,)]),
    "(n),(n)->()": (lambda x, y: np.sum(x * y), [(3,), (3,)]),
    "(n)->(n),()": (lambda x: (np.cumsum(x), np.max(x)), [(4,)]),
    "(n,m),(m,k)->(n,k)": (lambda x, y: np.sin(x @ y), [(2, 3), (3, 2)]),
    "(),(n)->(n)": (lambda s, x: s * x, [(), (3,)]),
    "(3),(3)->(3)": (lambda x, y: np.cross(x, y), [(3,), (3,)]),
    "( n , m )->( m , n )": (lambda x: x.T, [(2, 3)]),
    "(n)->(k)": (lambda x: x[:2], [(3,)]),
    "()->()": (lambda x: x * 2, [()]),
}
LOOPS = [
    ((),),
    ((5,),),
    ((4, 5),),
    ((4, 1), (5,)),
    ((1, 5), (4, 5)),
    ((2, 1, 3), (4, 3)),
    ((1,), (1, 1)),
    ((0,), (1,)),
]


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("loops", LOOPS, ids=str)
def test_signatures(signature, loops):
    f, cores = SIGNATURES[signature]
    args = [RNG.normal(size=(*loops[i % len(loops)], *core)) for i, core in enumerate(cores)]
    if any(0 in a.shape for a in args):  # NumPy wants to know the lengths of the output's axes
        out = fg.vectorize(f, signature=signature)(*args)
        assert all(y.shape[0] == 0 for y in (out if isinstance(out, tuple) else (out,)))
        return
    expected = np.vectorize(f, signature=signature)(*args)
    got = fg.vectorize(f, signature=signature)(*args)
    if isinstance(expected, tuple):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            close(g, e)
    else:
        close(got, expected)
        assert is_numpy(got)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 3)), max_size=4), st.integers(0, 3))
def test_broadcasting(axes, dropped):
    x = RNG.normal(size=[n if a else 1 for a, _, n in axes])
    y = RNG.normal(size=[n if b else 1 for _, b, n in axes][min(dropped, len(axes)) :])
    close(fg.vectorize(lambda x, y: x * y + x)(x, y), x * y + x)


def test_numbers_and_branches():
    f = lambda x, y: x if x > y else y * 2
    x, y = RNG.normal(size=(6, 7)), RNG.normal(size=7)
    close(fg.vectorize(f)(x, y), np.vectorize(f)(x, y))
    close(fg.vectorize(f)(1.0, 2), np.array(4.0))
    close(fg.vectorize(f)([1.0, 5.0], [[2.0], [3.0]]), np.vectorize(f)([1.0, 5.0], [[2.0], [3.0]]))


def test_derivatives():
    f = fg.vectorize(lambda a, x: np.sin(a @ x), signature="(n,m),(m)->(n)")
    a, x = RNG.normal(size=(2, 1, 2, 3)), RNG.normal(size=(4, 3))
    for i, z in enumerate((a, x)):
        total = lambda v: np.sum(f(*(v if j == i else w for j, w in enumerate((a, x)))) ** 2)
        close(fg.grad(total)(z), differences(total, z), rtol=1e-6)
    close(fg.vmap(f, in_axes=(0, None))(a, x), f(a, x))
    per = fg.vectorize(fg.grad(lambda x: np.sum(x**3)), signature="(n)->(n)")
    close(per(x), 3 * x**2)


def test_excluded_arguments():
    f = lambda x, mode, scale=1.0: getattr(np, mode)(x) * scale
    x = RNG.normal(size=(2, 3))
    close(fg.vectorize(f, excluded={1})(x, "cos"), np.cos(x))
    close(fg.vectorize(f, excluded={"mode"})(x, "cos", x), np.cos(x) * x)
    close(fg.vectorize(f, excluded={"mode", "scale"})(x, mode="sin", scale=np.arange(2.0)[0]), 0 * x)
    close(fg.vectorize(f, excluded={1, 2}, signature="()->()")(x, "cos", 2.0), 2 * np.cos(x))
    close(fg.vectorize(lambda x, y: x if y is None else x * y)(x, None), x)
    with pytest.raises(TypeError, match="excluded"):
        fg.vectorize(f)(x, "cos")
    with pytest.raises(TypeError, match=r"extra.*excluded"):
        fg.vectorize(lambda x, *, extra: x)(x, extra=1.0)


def test_as_a_decorator():
    @fg.vectorize(signature="(n)->()")
    def norm(x):
        return np.sqrt(np.sum(x * x))

    assert norm.__name__ == "norm"
    close(norm(RNG.normal(size=(0, 3))), np.zeros(0))
    x = RNG.normal(size=(2, 3))
    close(norm(x), np.linalg.norm(x, axis=-1))
    assert type(norm(fg.tensor(x))) is fg.Tensor
    exactly(fg.vectorize(np.add)(np.arange(3), 1), np.arange(1, 4))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: fg.vectorize(np.dot, signature="(n),(n)"), ValueError, "not a valid gufunc signature"),
        (lambda: fg.vectorize(np.dot, signature="n,n->n"), ValueError, "not a valid gufunc signature"),
        (lambda: fg.vectorize(np.dot, excluded={-1}), ValueError, "counted from 0"),
        (lambda: fg.vectorize(np.dot, excluded={1.5}), TypeError, "positions and names"),
        (lambda: fg.vectorize(np.dot, signature="(n),(n)->()")(np.ones(3)), TypeError, "2 arguments.*1"),
        (lambda: fg.vectorize(np.dot, signature="(n),(n)->()")(np.ones(3), np.ones(2)), ValueError,
            r"'n' has length 2 in argument 1.*3 before"),
        (lambda: fg.vectorize(np.dot, signature="(n),(n)->()")(np.ones(3), 1.0), ValueError,
            r"argument 1 has shape \(\).*at least 1"),
        (lambda: fg.vectorize(np.dot, signature="(2),(2)->()")(np.ones(3), np.ones(3)), ValueError, "'2'"),
        (lambda: fg.vectorize(lambda x: x, signature="(n)->()")(np.ones((2, 3))), ValueError, "an output"),
        (lambda: fg.vectorize(lambda x: (x, x), signature="()->()")(np.ones(3)), TypeError, "1 outputs"),
        (lambda: fg.vectorize(lambda x: x, signature="()->(),()")(np.ones(3)), TypeError, "one output"),
        (lambda: fg.vectorize(np.add)(np.ones(3), np.ones(2)), ValueError, "do not broadcast"),
        (lambda: fg.vectorize(np.dot, excluded={0}, signature="(n),(n)->()")(np.ones(3), np.ones(3)),
            ValueError, "excluded"),
    ],
)  # fmt: skip
def test_refusals(call, error, words):
    with pytest.raises(error, match=words):
        call()
