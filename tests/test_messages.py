"""The words of every error: what happened, why, and what to do instead.

Each row is a mistake, the exception, and patterns that all must be found in its message.
"""

from __future__ import annotations

import re
import threading
import warnings
from functools import partial

import numpy as np
import pytest

import fgrad as fg

EITHER = (TypeError, ValueError)
V, M = np.array([1.0, 2.0, 3.0]), np.ones((2, 3))


def named(x):
    return x * 2


def total(x):
    return np.sum(x * 2)


def tracked(use, value=2.0):
    """Call `use` on a Tensor that a live manager follows."""
    t = fg.tensor(value)
    with fg.GradManager().attach(t):
        use(t)


def without_rule():
    @fg.custom_vjp
    def forgotten(x):
        return x

    return fg.grad(forgotten)(1.0)


def with_rule(fwd, bwd, x=V):
    f = fg.custom_vjp(named)
    f.defvjp(fwd, bwd)
    return fg.vjp(f, x)[1](x)


def store(index, value, x=V):
    fg.tensor(x)[index] = value


def in_place(op, x, y):
    t = fg.tensor(x)
    getattr(t, op)(y)


# ---- the functional facade ------------------------------------------------------------------------

FACADE = {
    "not a function": (lambda: fg.grad(3.0), TypeError, ["3.0", "function|callable"]),
    "result is called instead of the function": (lambda: fg.grad(total(V))(V), TypeError,
        ["function|callable"]),
    "gradient of an array": (lambda: fg.grad(named)(V), TypeError,
        ["named", r"\(3,\)", "scalar", "vjp", "jacrev", "sum"]),
    "gradient of one element": (lambda: fg.grad(named)(V[:1]), TypeError, [r"\(1,\)", "scalar", "sum"]),
    "gradient of a tuple": (lambda: fg.grad(lambda x: (x, x))(1.0), TypeError,
        ["scalar|one number", "has_aux|vjp"]),
    "gradient of nothing": (lambda: fg.grad(lambda x: None)(1.0), TypeError,
        ["lambda", "None|scalar|one number"]),
    "gradient of a string": (lambda: fg.grad(lambda x: "loss")(1.0), TypeError, ["str", "scalar|number"]),
    "value_and_grad of an array": (lambda: fg.value_and_grad(named)(V), TypeError,
        [r"\(3,\)", "vjp|jacrev", "sum"]),
    "hvp of an array": (lambda: fg.hvp(named, (V,), (V,)), TypeError, [r"\(3,\)", "scalar"]),
    "integer argument": (lambda: fg.grad(total)(np.arange(3)), TypeError,
        ["argument 0", "int64", "float", "allow_int"]),
    "Python integer": (lambda: fg.grad(total)(3), TypeError, ["int", "float|1.0", "allow_int"]),
    "boolean argument": (lambda: fg.grad(total)(V > 1), TypeError, ["bool", "float", "allow_int"]),
    "integer in a tree": (lambda: fg.grad(lambda p: p["a"])({"a": 1.0, "n": 2}), TypeError,
        ["int", "allow_int"]),
    "integer in vjp": (lambda: fg.vjp(total, np.arange(3)), TypeError, ["int64", "float"]),
    "integer in jvp": (lambda: fg.jvp(total, (np.arange(3),), (np.arange(3),)), TypeError,
        ["int64", "float"]),
    "string argument": (lambda: fg.grad(total)("x"), TypeError, ["argument 0", "str", "argnums|number"]),
    "real but holomorphic": (lambda: fg.grad(total, holomorphic=True)(V), TypeError,
        ["holomorphic", "complex", "float64"]),
    "complex value": (lambda: fg.grad(total)(1j * V), TypeError, ["complex", "holomorphic", "real"]),
    "complex jacrev": (lambda: fg.jacrev(named)(1j * V), TypeError, ["complex", "holomorphic"]),
    "complex jacfwd": (lambda: fg.jacfwd(named)(1j * V), TypeError, ["complex", "holomorphic"]),
    "no such argument": (lambda: fg.grad(total, argnums=1)(V), EITHER, ["argnums", "1", "total"]),
    "no such arguments": (lambda: fg.grad(total, argnums=(0, -2))(V), EITHER, ["argnums", "-2", "total"]),
    "argnums is no number": (lambda: fg.grad(total, argnums="x")(V), TypeError, ["argnums", "x"]),
    "aux is missing": (lambda: fg.grad(total, has_aux=True)(V), TypeError,
        ["has_aux", "total", "pair|tuple|two"]),
    "cotangent of wrong shape": (lambda: fg.vjp(named, V)[1](np.ones(2)), ValueError,
        ["cotangent", r"\(2,\)", r"\(3,\)"]),
    "cotangent of wrong structure": (lambda: fg.vjp(named, V)[1]((V, V)), EITHER,
        ["cotangent", "structure", r"\(\*, \*\)|tuple"]),
    "cotangent without keys": (lambda: fg.vjp(lambda x: {"a": x, "b": x}, V)[1]({"a": V}), EITHER,
                               ["cotangent", "structure", "'a'.*'a'", "'b'"]),
    "complex cotangent": (lambda: fg.vjp(named, V)[1](1j * V), TypeError,
        ["cotangent", "complex128", "float64|real"]),
    "cotangent is text": (lambda: fg.vjp(named, 1.0)[1]("one"), TypeError,
        ["cotangent", "<U3|str", "float64"]),
    "tangent of wrong shape": (lambda: fg.jvp(named, (V,), (np.ones(2),)), ValueError,
        ["tangent", r"\(2,\)", r"\(3,\)"]),
    "tangent of wrong structure": (lambda: fg.jvp(named, (V,), ({"a": V},)), EITHER,
        ["tangent", "structure", "'a'"]),
    "complex tangent": (lambda: fg.jvp(named, (V,), (1j * V,)), TypeError,
        ["tangent", "complex128", "float64|real"]),
    "too few tangents": (lambda: fg.jvp(named, (V,), ()), EITHER, ["1 primal", "0 tangent"]),
    "primals are no tuple": (lambda: fg.jvp(named, V, V), TypeError, ["primals", "tuple", "ndarray"]),
    "tangents of a linear map": (lambda: fg.linearize(named, V)[1](np.ones(2)), ValueError,
        ["tangent", r"\(2,\)", r"\(3,\)"]),
    "no rule": (lambda: fg.grad(lambda x: np.packbits(x))(V), TypeError,
        ["packbits", "no rule|no derivative", "fgrad.numpy", "custom_vjp"]),
    "no rule for a ufunc method": (lambda: fg.grad(lambda x: np.frompyfunc(max, 2, 1).outer(x, x))(V),
        TypeError, [r"max.*\.outer", "no rule|no derivative"]),
    "rule without defvjp": (without_rule, Exception, ["forgotten", "defvjp"]),
    "rule with too many results": (lambda: with_rule(lambda x: (x, x), lambda r, ct: (ct, ct)), EITHER,
        ["named", "2", "1"]),
    "rule with a wrong shape": (lambda: with_rule(lambda x: (x, x), lambda r, ct: (ct[:2],)), EITHER,
        ["named", r"\(2,\)", r"\(3,\)"]),
    "forward rule without residuals": (lambda: with_rule(lambda x: x, lambda r, ct: (ct,)), TypeError,
        ["named", "pair|tuple|two|residual"]),
    "lengths differ": (lambda: fg.vmap(np.add)(V, V[:2]), ValueError, ["vmap", "3", "2", r"axis|axes"]),
    "nothing to map": (lambda: fg.vmap(named)(1.0), EITHER, ["vmap", r"\(\)", "axis|axes", "None"]),
    "no axis given": (lambda: fg.vmap(named, in_axes=None)(V), ValueError, ["vmap", "in_axes", "axis_size"]),
    "wrong number of axes": (lambda: fg.vmap(named, in_axes=(0, 0))(V), ValueError,
        ["vmap", "in_axes", "2", "1"]),
    "mapped output without axis": (lambda: fg.vmap(named, out_axes=None)(V), ValueError,
        ["vmap", "out_axes", "None"]),
}  # fmt: skip

# ---- values that are not there, or would lose a gradient --------------------------------------------


def branch(x):
    return x if x > 0 else -x


OUTSIDE = fg.tensor(0.0)
MIXED = V - 2.0


def branch_with_effect(x):
    OUTSIDE[...] = 1.0
    return branch(x)


def branch_on_everything(x):
    ones = 0.0
    for _ in range(11):
        if x % 2 >= 1:
            ones += x
        x = x // 2
    return ones


def kept_by(transform):
    kept = []
    transform(lambda x: kept.append(x + 1) or x)(V)
    return kept[0]


LINE = r"test_messages\.py"

VALUES = {
    "float of tracked": (lambda: tracked(float), TypeError,
        [r"float\(\)", "gradient", r"detach\(\)", r"item\(\)"]),
    "int of tracked": (lambda: tracked(int), TypeError, [r"int\(\)", "gradient", r"detach\(\)", r"item\(\)"]),
    "index of tracked": (lambda: tracked(lambda t: [0, 1][t]), TypeError,
        ["index", r"detach\(\)", r"item\(\)"]),
    "asarray of tracked": (lambda: tracked(np.asarray), TypeError,
        ["array", "gradient", r"detach\(\)", r"item\(\)"]),
    "list of tracked": (lambda: tracked(lambda t: np.array([t, t])), TypeError,
        ["array|float", r"detach\(\)", r"item\(\)"]),
    "stored in an array": (lambda: tracked(lambda t: np.zeros(2).__setitem__(0, t)), EITHER,
        [r"detach\(\)", r"item\(\)"]),
    "float inside grad": (lambda: fg.grad(lambda x: float(x) * x)(2.0), TypeError,
        [r"float\(\)", r"detach\(\)", r"item\(\)"]),
    "effect in a branch": (lambda: fg.vmap(branch_with_effect)(MIXED), RuntimeError,
        ["vmap", "branch_with_effect", LINE, "differs", "a Tensor that exists", "where", r"lax\.cond"]),
    "too many paths": (lambda: fg.vmap(branch_on_everything)(np.arange(1100.0)), RuntimeError,
        ["vmap", "branch_on_everything", "1000", LINE, "where", r"lax\.cond"]),
    "shapes by branch": (lambda: fg.vmap(lambda x: x if x > 0 else np.zeros(2))(MIXED), TypeError,
        ["vmap", r"\(2,\)", r"\(\)", "branches", "one shape"]),
    "structures by branch": (lambda: fg.vmap(lambda x: x if x > 0 else (x, x))(MIXED), TypeError,
        ["vmap", "structure", "branches"]),
    "truth of an array": (lambda: fg.vmap(branch)(M), ValueError, ["ambiguous", "any", "all"]),
    "bool while staging": (lambda: fg.make_graph(branch)(1.0), TypeError,
        [r"bool\(\)", LINE, "cond|where|static_argnums"]),
    "item while mapping": (lambda: fg.vmap(lambda x: x.item())(V), TypeError, [r"item\(\)", LINE, "vmap"]),
    "numpy while staging": (lambda: fg.make_graph(lambda x: x.numpy())(V), TypeError, [r"numpy\(\)", LINE]),
    "float while staging": (lambda: fg.make_graph(float)(1.0), TypeError, [r"float\(\)"]),
    "escaped from vmap": (lambda: kept_by(fg.vmap) * 2, fg.EscapedTensorError,
        [LINE, "vmap", "return|outside"]),
    "escaped from staging": (lambda: np.sin(kept_by(fg.make_graph)), fg.EscapedTensorError,
        [LINE, "return|outside"]),
}  # fmt: skip

# ---- Tensor ---------------------------------------------------------------------------------------

TENSOR = {
    "text": (lambda: fg.tensor("text"), TypeError, ["numbers|numeric", "U|str"]),
    "object": (lambda: fg.tensor([object()]), TypeError, ["numbers|numeric", "object"]),
    "dates": (lambda: fg.tensor(np.array(["2020-01-01"], "M8[D]")), TypeError,
        ["numbers|numeric", "datetime64"]),
    "ragged": (lambda: fg.tensor([[1.0], [1.0, 2.0]]), EITHER, ["inhomogeneous|length|shape"]),
    "in place changes the dtype": (lambda: in_place("__iadd__", [1, 2], 0.5), TypeError,
        ["in-place", "int64", "float64", "astype|x = x"]),
    "in place to complex": (lambda: in_place("__imul__", V, 1j), TypeError,
        ["in-place", "float64", "complex128"]),
    "in place changes the shape": (lambda: in_place("__iadd__", V, M), ValueError,
        ["in-place", r"\(3,\)", r"\(2, 3\)"]),
    "in place cannot broadcast": (lambda: in_place("__iadd__", V, V[:2]), ValueError,
        ["broadcast|shape", r"3", r"2"]),
    "store a wrong shape": (lambda: store(slice(None), np.ones(2)), ValueError, [r"\(2,\)", r"\(3,\)"]),
    "store out of bounds": (lambda: store(5, 1.0), IndexError, ["5", "3"]),
    "read out of bounds": (lambda: fg.tensor(V)[5], IndexError, ["index 5", "size 3"]),
    "too many indices": (lambda: fg.tensor(V)[0, 0], IndexError, ["too many indices"]),
    "float as an index": (lambda: fg.tensor(V)[1.0], (IndexError, TypeError), ["integer|index"]),
    "mask of wrong length": (lambda: fg.tensor(V)[np.array([True, False])], IndexError, ["2", "3"]),
    "bool of many": (lambda: bool(fg.tensor(V)), ValueError, ["ambiguous", "any", "all"]),
    "item of many": (lambda: fg.tensor(V).item(), ValueError, ["size 1|one element|scalar"]),
    "float of many": (lambda: float(fg.tensor(V)), TypeError, ["0-dimensional|scalar|size|length-1"]),
    "len of a number": (lambda: len(fg.tensor(1.0)), TypeError, [r"len\(\)"]),
    "iteration over a number": (lambda: list(fg.tensor(1.0)), TypeError, ["iterat"]),
    "format of an array": (lambda: f"{fg.tensor(V):.3f}", TypeError, ["format", r"\.3f", r"\(3,\)"]),
    "grad of wrong shape": (lambda: setattr(fg.tensor(V), "grad", fg.tensor(M)), ValueError,
        ["gradient", r"\(3,\)", r"\(2, 3\)"]),
    "broadcast": (lambda: fg.tensor(V) + np.ones(2), ValueError, ["broadcast", r"3", r"2"]),
    "matmul": (lambda: fg.tensor(M) @ M, ValueError, ["matmul|shape|dimension"]),
    "reshape": (lambda: fg.tensor(V).reshape(2, 2), ValueError, ["reshape", "3", r"2, ?2"]),
    "no such axis": (lambda: fg.tensor(V).sum(axis=3), ValueError, ["axis 3"]),
    "einsum": (lambda: np.einsum("ij,jk", fg.tensor(M), M), ValueError, ["3", "2"]),
    "unknown function": (lambda: np.packbits(fg.tensor([1])), TypeError, ["packbits", "fgrad.numpy|detach"]),
}  # fmt: skip

# ---- GradManager, groups, Function --------------------------------------------------------------------


def manager(*args, **kwargs):
    return fg.GradManager().attach(*args, **kwargs)


def recording_twice():
    with fg.GradManager() as gm:
        gm.record()


def released_inside_backward():
    gm, x = fg.GradManager(), fg.tensor(1.0)
    gm.attach(x, lambda t, g: gm.release())
    with gm:
        gm.backward(x * 2)


def backward(dy=None, make=lambda x: x * 2, callback=None, x=V):
    """Run backward of `make(x)`, which may be a tree, with cotangent `dy`."""
    t = fg.tensor(x)
    with fg.GradManager().attach(t, callback) as gm:
        gm.backward(make(t), dy)


def in_two_threads():
    """Attach one Tensor to managers that record in two threads at once."""
    t, errors = fg.tensor(1.0), []

    def work():
        try:
            fg.GradManager().attach(t).record().release()
        except RuntimeError as error:
            errors.append(error)

    with manager(t):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    raise errors[0]


def a_callback_of_mine(result, t, g):
    return result


def grouped_while_recording():
    a, b = fg.GradManager(), fg.GradManager()
    with a, a | b:
        pass


def function(forward, backward):
    """Differentiate a Function with these rules at V."""

    class Doubled(fg.Function):
        def forward(self, x):
            return forward(x)

        def backward(self, *cts):
            return backward(*cts)

    return fg.vjp(lambda x: Doubled()(x), V)[1](V)


MANAGER = {
    "attach an array": (lambda: manager(V), TypeError, ["attach", "ndarray", r"fgrad\.tensor|fg\.tensor"]),
    "attach a number": (lambda: manager(1.0), TypeError, ["attach", "float", r"fgrad\.tensor|fg\.tensor"]),
    "attach an array in a tree": (lambda: manager({"w": [fg.tensor(V), V]}), TypeError,
        [r"\['w'\]\[1\]|w.*1", "ndarray", "tensor"]),
    "attach integers": (lambda: manager(fg.tensor([1, 2])), TypeError, ["int64", r"\(2,\)", "float"]),
    "attach booleans": (lambda: manager(fg.tensor([True])), TypeError, ["bool", r"\(1,\)"]),
    "attach with no callable": (lambda: manager(fg.tensor(V), 3), TypeError, ["callback", "callable", "int"]),
    "attach with one no callable": (lambda: manager(fg.tensor(V), [print, 3]), TypeError,
        ["callback", "callable", "int"]),
    "record twice": (recording_twice, RuntimeError, ["already recording", "release|backward"]),
    "release inside backward": (released_inside_backward, RuntimeError, [r"release\(\)", "backward"]),
    "backward without record": (lambda: manager(fg.tensor(V)).backward(fg.tensor(V)), RuntimeError,
        [r"^no computation history; did you forget record\(\), or was the history cleared by backward\(\) or",
         r" release\(\)\?"]),
    "backward of a number": (lambda: backward(make=lambda x: 3.0), TypeError,
        ["backward", "Tensor", "float"]),
    "dy of wrong shape": (lambda: backward(np.ones(2)), ValueError, ["dy", r"\(2,\)", r"\(3,\)"]),
    "dy that would broadcast": (lambda: backward(np.ones(1)), ValueError, ["dy", r"\(1,\)", r"\(3,\)"]),
    "dy of wrong structure": (lambda: backward([V], lambda x: {"y": x}), EITHER, ["dy", "structure", "'y'"]),
    "dy too long": (lambda: backward([V, V, V], lambda x: [x, x * 2]), EITHER, ["dy", "structure"]),
    "complex dy": (lambda: backward(1j * V), TypeError, ["dy", "complex128", "float64"]),
    "dy is text": (lambda: backward("ones"), EITHER, ["dy", "U4|str"]),
    "two threads": (in_two_threads, RuntimeError, ["another thread|two threads", "attached|recording"]),
    "callback returns an array": (lambda: backward(callback=partial(a_callback_of_mine, V)), TypeError,
        ["callback", "ndarray", "Tensor"]),
    "callback returns another shape": (lambda: backward(callback=lambda t, g: g[:2]), EITHER,
        ["callback", "lambda", r"\(2,\)", r"\(3,\)"]),
    "callback returns another dtype": (lambda: backward(callback=lambda t, g: g.astype("f4")), EITHER,
        ["callback", "lambda", "float32", "float64"]),
    "a group with one twice": (lambda: (gm := fg.GradManager()) | gm, ValueError, ["twice|once|itself"]),
    "a group with one recording": (grouped_while_recording, RuntimeError, ["already recording"]),
    "too many cotangents": (lambda: function(lambda x: x * 2, lambda ct: (ct, ct)), EITHER,
        ["Doubled", "2", "1"]),
    "cotangent of another shape": (lambda: function(lambda x: x * 2, lambda ct: ct[:2]), EITHER,
        ["Doubled", r"\(2,\)", r"\(3,\)"]),
    "cotangent of another type": (lambda: function(lambda x: x * 2, lambda ct: "ct"), TypeError,
        ["Doubled", "str"]),
    "forward returns text": (lambda: function(lambda x: "out", lambda ct: ct), TypeError, ["Doubled", "str"]),
}  # fmt: skip

EVERY = {**FACADE, **VALUES, **TENSOR, **MANAGER}


@pytest.mark.parametrize("mistake", EVERY)
def test_words_of_an_error(mistake):
    make, error, words = EVERY[mistake]
    with pytest.raises(error) as caught:
        make()
    text = f"{caught.value} {caught.value.__cause__ or ''}"  # NumPy wraps what __float__ raises
    for word in words:
        assert re.search(word, text, re.DOTALL), f"{word!r} is not in: {text}"


# ---- warnings ---------------------------------------------------------------------------------------


ALIVE = []  # a manager that is dropped stops recording


def constant(x):
    return fg.tensor(V)


def of_another_manager(x):
    t = fg.tensor(V)
    ALIVE.append(fg.GradManager().attach(t).record())
    return t * 2


def of_a_finished_recording(x):
    t = fg.tensor(V)
    with manager(t):
        return t * 2


def cut(x):
    y = x * 2
    y[...] = 1.0
    return y


WARNINGS = {
    "constant": (constant, ["constant"]),
    "another manager": (of_another_manager, ["another manager|other manager"]),
    "finished recording": (of_a_finished_recording, ["finished|released|cleared"]),
    "cut": (cut, [r"x\[\.\.\.\]|cut"]),
}


@pytest.mark.parametrize("reason", WARNINGS)
def test_words_of_a_missing_gradient(reason):
    make, words = WARNINGS[reason]
    t = fg.tensor(V)
    with manager(t) as gm, pytest.warns(fg.NoGradientWarning) as caught:
        gm.backward(make(t))
    while ALIVE:
        ALIVE.pop().release()
    assert t.grad is None
    assert len(caught) == 1
    assert caught[0].filename == __file__
    for word in words:
        assert re.search(word, str(caught[0].message)), str(caught[0].message)


def test_no_warning_where_there_is_a_gradient():
    t = fg.tensor(V)
    with warnings.catch_warnings(), manager(t) as gm:
        warnings.simplefilter("error")
        gm.backward(t * 0)


def test_a_failed_attempt_leaves_nothing_behind():
    for make, _, _ in EVERY.values():
        with pytest.raises(Exception):  # noqa: B017 -- which one is the subject of the other test
            make()
    assert fg.grad(fg.grad(lambda x: x**3))(2.0) == 12.0
    t = fg.tensor(2.0)
    with manager(t) as gm:
        gm.backward(t * t)
    assert t.grad.item() == 4.0
