"""What `lower` shows: the steps in order, kernels with what they compute, and what a call takes."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import fgrad as fg
from fgrad.compiler.plan import Block
from fgrad.scipy import linalg

X, W, B = np.ones((6, 40)), np.ones((40, 50)), np.ones(50)


def network(params: Any, x: Any) -> Any:
    return np.sum(np.tanh(x @ params["w"] + params["b"]) ** 2)


def lines_of(text: str, start: str) -> list[str]:
    """Return the comment lines below the one that starts so, up to the next that is not further in."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(start))
    found = []
    for line in lines[at + 1 :]:
        if not line.startswith("#     "):
            break
        found.append(line.removeprefix("#     "))
    return found


def steps(f: Any, *args: Any) -> list[str]:
    return lines_of(fg.jit(f).lower(*args).source, "# in order:")


def test_the_steps_stand_in_order_with_the_names_of_the_user():
    params = {"w": W, "b": B}
    text = fg.jit(network).lower(params, X).source
    assert "# inputs:  params['b'], params['w'], x\n" in text
    product, kernel = lines_of(text, "# in order:")
    assert "contract(x, params['w'], a=ij, b=jk, out=ik)  # " in product
    assert kernel.startswith("kernel0(")
    assert "params['b']" in kernel
    compile(text, "source", "exec")  # it is Python


def test_a_kernel_says_what_it_computes_and_where_that_was_written():
    text = fg.jit(network).lower({"w": W, "b": B}, X).source
    below = lines_of(text, "# kernel0, used once")
    names = [line.partition(" = ")[2].partition("(")[0] for line in below]
    assert names == ["add", "tanh", "square", "sum"]
    line = inspect.getsourcelines(network)[1] + 1
    assert all(x.endswith(f"  # {__file__}:{line}") for x in below)
    assert "# b2 = params['b']:float64[50]\n" in text or "# b1 = params['b']:float64[50]\n" in text


def blocks(block: Block) -> list[Block]:
    return [block, *(b for inner in block.inner.values() for own in inner.blocks for b in blocks(own))]


def step(h: Any, x: Any) -> Any:
    h = np.tanh(h * x + np.sin(x))
    return h, np.sum(h)


def recurrence(h: Any, xs: Any) -> Any:
    return fg.lax.scan(step, h, xs)


def choice(x: Any) -> Any:
    return fg.lax.cond(x[0] > 0, lambda x: np.exp(np.tanh(x)), lambda x: x * 2, x)


def repetition(x: Any) -> Any:
    return fg.lax.while_loop(lambda x: np.sum(x) < 100, lambda x: x * x + 1, x)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (network, ({"w": W, "b": B}, X)),
        (fg.grad(network), ({"w": W, "b": B}, X)),
        (recurrence, (np.ones(3), np.ones((7, 3)))),
        (choice, (np.ones(3),)),
        (repetition, (np.ones(3),)),
        (lambda x: np.sort(np.exp(x)) + np.linalg.inv(X @ X.T + np.eye(6)) @ x, (np.ones(6),)),
    ],
)
def test_every_operation_is_somewhere(f, args):
    made = fg.jit(f).lower(*args).compile()
    text = made.source
    for block in blocks(made._plan.block):
        for e in block.plain.program.equations:
            shown = f"{e.name}, " if "code" in e.params else str(e)
            assert shown in text


def test_loops_and_branches_show_what_is_inside():
    first, inside, *rest = steps(recurrence, np.ones(3), np.ones((7, 3)))
    assert first.startswith("lax.scan, 7 times, of h, xs to ")
    assert inside.startswith("    step: ")
    assert [line[: len("        kernel")] for line in rest] == ["        kernel"] * len(rest)
    text = "\n".join(steps(repetition, np.ones(3)))
    assert text.startswith("lax.while_loop, as long as it is asked to, of x to ")
    assert "\n    test: " in text
    assert "\n    step: " in text
    text = "\n".join(steps(choice, np.ones(3)))
    assert "lax.cond, one of, of " in text
    assert "\n    branch 0: " in text
    assert "\n    branch 1: " in text


def test_what_python_computes_is_one_line():
    last = steps(lambda x: fg.lax.cond(x[0, 0] > 0, linalg.sqrtm, np.negative, x), np.ones((3, 3)))[-1]
    assert "lax.cond(" in last
    assert "  # Python; " in last


def test_equal_kernels_stand_once():
    def repeated(x: Any, y: Any) -> Any:
        return np.sin(x) * 2, np.sin(y) * 2

    made = fg.jit(repeated).lower(np.ones(20), np.ones(30))
    assert made.source.count("def kernel(") == 1
    assert "# kernel0, used 2 times\n" in made.source
    assert made.cost()[2:4] == (1, 2)


def test_sums_in_blocks_are_joined():
    text = fg.jit(np.sum).lower(np.ones(2_000_000)).source
    assert len(lines_of(text, "# in order:")) == 2
    (joining,) = lines_of(text, "# kernel1, used once")
    assert joining.startswith("joins ")
    assert joining.endswith(" parts of v1:float64[]")


# ---- names ------------------------------------------------------------------------------------------


def test_names_that_variables_may_have_are_not_taken():
    lowered = fg.jit(lambda v1, x, d0: np.sort(v1 * x) + d0).lower(X, X, X)
    assert [v.name for v in lowered.program.inputs] == ["v0", "x", "v2"]
    names = [v.name for e in lowered.program.equations for v in e.outs]
    assert not {*names} & {v.name for v in lowered.program.inputs}


def test_a_program_with_names_can_be_drawn():
    program = fg.jit(lambda p: np.sin(p['a "quoted" name'])).lower({'a "quoted" name': X}).program
    assert r'in0 [label="p[' in program.to_dot()
    assert r"\"quoted\"" in program.to_dot()
    assert "in0 -> op0" in program.to_dot()


def test_representations():
    lowered = fg.jit(network).lower({"w": W, "b": B}, X)
    assert repr(lowered) == str(lowered.program)
    assert lowered._repr_html_() == lowered.program._repr_html_()
    shown = repr(lowered.compile())
    assert shown.startswith(
        "<Executable of network: float64[50], float64[40,50], float64[6,40] -> float64[]; "
    )

    def long(x: Any) -> Any:
        for _ in range(200):
            x = np.sin(x)
        return x

    lowered = fg.jit(long).lower(X)
    lines = repr(lowered).splitlines()
    assert len(lines) == 101
    assert lines[50] == "    ... 102 more lines: print(lowered.program)"
    assert [*lines[:50], *lines[51:]] == [*(all_ := str(lowered.program).splitlines())[:50], *all_[-50:]]


# ---- cost -------------------------------------------------------------------------------------------


def cost(f: Any, *args: Any) -> Any:
    return fg.jit(f).lower(*args).cost()


def test_the_cost_of_an_elementwise_program():
    n = 1000
    assert cost(lambda x, y: x * y + 1, np.ones(n), np.ones(n)) == (2 * n, 3 * 8 * n, 1, 1, 0, ())
    assert cost(lambda x: x + 1, np.ones(n, np.float32)).bytes == 2 * 4 * n


def test_the_cost_of_a_product():
    m, k, n = 32, 40, 50
    found = cost(lambda x, y: x @ y, np.ones((m, k)), np.ones((k, n)))
    assert found == (2 * m * n * k, 8 * (m * k + k * n + m * n), 0, 1, 0, ())
    found = cost(lambda x, y: x @ y, np.ones((3, m, k)), np.ones((3, k, n)))
    assert found.flops == 3 * 2 * m * n * k


def test_temporaries_share_memory():
    one = 8 * 50 * 50
    chain = cost(lambda x: x @ x @ x @ x @ x @ x, np.ones((50, 50)))
    assert chain.launches == 5
    assert one <= chain.temporaries <= 2 * one + 128


def test_loops_count_as_often_as_they_turn():
    def loop(h: Any, w: Any, length: int) -> Any:
        return fg.lax.scan(lambda h, _: (w @ h, None), h, None, length=length)[0]

    w = np.ones((30, 30))
    once, often = (fg.jit(loop, static_argnums=2).lower(np.ones(30), w, n).cost() for n in (10, 70))
    assert once.flops == 10 * 2 * 30 * 30
    assert (often.flops, often.bytes, often.launches) == (7 * once.flops, 7 * once.bytes, 7 * once.launches)
    assert often.kernels == once.kernels
    assert often.temporaries == once.temporaries


def test_of_branches_the_dearest_counts():
    def f(x: Any) -> Any:
        return fg.lax.cond(x[0, 0] > 0, lambda x: x @ x, lambda x: x + 1, x)

    assert 2 * 40**3 <= cost(f, np.ones((40, 40))).flops < 2 * 40**3 + 40 * 40


def test_a_loop_of_unknown_length_counts_once():
    def f(x: Any) -> Any:
        return fg.lax.while_loop(lambda x: x[0, 0] < 9, lambda x: x @ x, x)

    assert 2 * 40**3 <= cost(f, np.ones((40, 40))).flops < 2 * 40**3 + 40 * 40


def test_the_cost_can_be_read():
    assert str(cost(lambda x, y: x * y + 1, np.ones(1000), np.ones(1000))) == (
        "2,000 operations, 24,000 bytes read and written, 1 kernels, 1 launches, 0 bytes of temporaries"
    )
