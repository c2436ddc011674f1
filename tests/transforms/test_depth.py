"""Long chains of operations: nothing that fgrad does with them goes down one call for each operation."""

import copy
import pickle
import sys

import numpy as np
import pytest
from tests.helpers import close

import fgrad as fg
from fgrad import lax
from fgrad.viz import draw, take_notes

N = 20_000  # calls in one another, in Python or C, are far fewer before they end badly
assert sys.getrecursionlimit() < N


def chain(x, n=N):
    for _ in range(n):
        x = x + 1.0
    return x


def waves(x, n):
    for _ in range(n):
        x = np.sin(x)
    return x


def recorded(**options):
    x = fg.tensor(np.ones(2))
    with fg.GradManager().attach(x, **options) as gm:
        y = chain(x)
        gm.backward(y)
    return x.grad


def copied():
    x = fg.tensor(1.0)
    with fg.GradManager().attach(x):
        y = chain(x)
        assert repr(y) == f"Tensor({N + 1}.)"
        return copy.deepcopy(y) + pickle.loads(pickle.dumps(y)) - 2 * N - 1


def noted():
    x = fg.tensor(1.0)
    with take_notes(), fg.GradManager().attach(x) as gm:
        y = chain(x, N // 4)
        gm.backward(y)
    assert f"{N // 4} operations" in repr(draw(y))
    return x.grad


def reversed_views():
    x = fg.tensor(np.ones(2))
    with fg.GradManager().attach(x) as gm:
        y = 1.0 * x
        views = [y := y[::-1] for _ in range(N // 4)]
        views[-1][0] = 1.0  # through all of them
        gm.backward(views[0] + views[-1])
    return x.grad + np.array([1.0, -1.0])


def own_rule():
    class Next(fg.Function):
        def forward(self, x):
            return x + 1.0

        def backward(self, ct):
            return ct

    def f(x):
        for _ in range(N // 4):
            x = Next()(x)
        return x

    return fg.grad(f)(1.0)


WAYS = {
    "a recording": recorded,
    "with callbacks": lambda: recorded(callbacks=lambda *_: None),
    "copies and text": copied,
    "notes and a picture": noted,
    "views of views": reversed_views,
    "rules of a user's own": own_rule,
    "second order": lambda: fg.grad(fg.grad(lambda x: chain(x, N // 2) ** 2))(1.0) / 2,
    "forward mode": lambda: fg.jvp(chain, (1.0,), (1.0,))[1],
    "a linear map": lambda: fg.linearize(chain, 1.0)[1](1.0),
    "mapped": lambda: fg.vmap(fg.grad(lambda x: chain(x, N // 4)))(np.ones(2)),
    "checkpoint": lambda: fg.grad(fg.checkpoint(chain))(1.0),
    "compiled loops": lambda: fg.jit(fg.grad(lambda x: lax.fori_loop(0, N, lambda i, s: s + 1.0, x)))(1.0),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_long_chain(way):
    close(WAYS[way]() * np.ones(2), np.ones(2))


def test_a_long_program_is_staged_printed_exported_and_compiled():
    n = 1500
    program = fg.make_graph(fg.grad(lambda x: waves(x, n)))(1.0)
    assert len(str(program).splitlines()) > 2 * n
    f = fg.load(fg.export(lambda x: waves(x, n), np.float64(1.0)))
    close(f(1.0), waves(1.0, n))
    close(fg.jit(lambda x: waves(x, n))(1.0), waves(1.0, n))
