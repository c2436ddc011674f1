"""What `GradManager.attach` accepts, from when it counts and what it keeps."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, deque
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.helpers import check_grad, close
from tests.transforms.lifetimes import tracked

from fgrad import GradManager, NoGradientWarning, tensor


class Layer(NamedTuple):
    """What people keep their parameters in."""

    weight: Any
    bias: Any


def attached(gm):
    """Return the identities of what is attached, since `==` of Tensors compares elements."""
    return [id(t) for t in gm.attached_tensors()]


class Pool:
    """An iterable that is neither a container known to pytrees nor an iterator."""

    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


# ---- 1: a new manager ----------------------------------------------------------------------------


def test_a_new_manager_is_idle_and_empty():
    gm = GradManager()
    assert gm.is_recording is False
    assert list(gm.attached_tensors()) == []


@pytest.mark.parametrize("args, kwargs", [((None,), {}), (([],), {}), ((), {"tensors": ()})])
def test_it_takes_no_arguments(args, kwargs):
    with pytest.raises(TypeError):
        GradManager(*args, **kwargs)


# ---- 2: what attach accepts ----------------------------------------------------------------------

TREES = {
    "list": lambda x, y: [x, y],
    "tuple": lambda x, y: (x, y),
    "namedtuple": Layer,
    "dict": lambda x, y: {"a": x, "b": y},
    "ordered dict": lambda x, y: OrderedDict(a=x, b=y),
    "deque": lambda x, y: deque([x, y]),
    "nested": lambda x, y: [{"a": (x,)}, [[Layer(y, ())]]],
    "generator": lambda x, y: (t for t in (x, y)),
    "iterator": lambda x, y: iter([x, y]),
    "chain": lambda x, y: chain([x], [y]),
    "dict values": lambda x, y: {"a": x, "b": y}.values(),
    "custom iterable": Pool,
    "generator of dicts": lambda x, y: ({"w": t} for t in (x, y)),
    "generator of generators": lambda x, y: ((t for t in [s]) for s in (x, y)),
    "generator in a dict": lambda x, y: {"a": (t for t in [x]), "b": [y]},
}


@pytest.mark.parametrize("make", TREES.values(), ids=TREES)
def test_attach_reads_any_tree_or_iterable_and_returns_the_manager(make):
    x, y = tensor([1.0, 2.0]), tensor(3.0)
    gm = GradManager()
    assert gm.attach(make(x, y)) is gm
    assert attached(gm) == [id(x), id(y)]
    with gm:
        gm.backward(x * y)
    check_grad(x, 3.0)
    check_grad(y, 3.0)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0)])
def test_one_tensor_is_one_tensor_although_it_can_be_iterated(shape):
    x = tensor(np.full(shape, 1.5))
    gm = GradManager()
    assert gm.attach(x) is gm
    assert attached(gm) == [id(x)]
    with gm:
        gm.backward(x * x)
    check_grad(x, 3.0)


def test_a_set_of_tensors():
    x, y = tensor(1.0), tensor(2.0)
    gm = GradManager().attach({x, y})
    assert sorted(attached(gm)) == sorted([id(x), id(y)])


@pytest.mark.parametrize("nothing", [list, tuple, dict, set, lambda: iter(()), lambda: [[], {}]])
def test_attaching_nothing_is_no_mistake(nothing):
    gm = GradManager()
    assert gm.attach(nothing()) is gm
    assert attached(gm) == []


def double(t, g):
    return g * 2.0


def shift(t, g):
    return g + 1.0


class Triple:
    """A callable object, as good as a function."""

    def __call__(self, t, g):
        return g * 3.0


CALLBACKS = {
    "none": (lambda: ((None,), {}), 3.0),
    "one": (lambda: ((double,), {}), 6.0),
    "object": (lambda: ((Triple(),), {}), 9.0),
    "list": (lambda: (([double, shift],), {}), 7.0),
    "tuple": (lambda: (((shift, double),), {}), 8.0),
    "empty list": (lambda: (([],), {}), 3.0),
    "generator": (lambda: (((f for f in (double, shift)),), {}), 7.0),
    "custom iterable": (lambda: ((Pool(shift, double),), {}), 8.0),
    "by name": (lambda: ((), {"callbacks": [double, shift]}), 7.0),
    "by name, none": (lambda: ((), {"callbacks": None, "callback": None}), 3.0),
    "singular": (lambda: ((), {"callback": double}), 6.0),
}


@pytest.mark.parametrize("make, expected", CALLBACKS.values(), ids=CALLBACKS)
def test_callbacks_are_none_one_or_many(make, expected):
    x, (args, kwargs) = tensor([1.0, 2.0]), make()
    gm = GradManager()
    assert gm.attach(x, *args, **kwargs) is gm
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, expected)


def test_a_generator_of_callbacks_is_read_once_and_serves_every_tensor():
    read = []

    def callbacks():
        for f in (double, shift):
            read.append(f)
            yield f

    x, y = tensor(1.0), tensor([1.0, 2.0])
    gm = GradManager().attach([x, y], callbacks())
    assert read == [double, shift]
    for _ in range(2):  # the second round shows that nothing was used up
        x.grad = y.grad = None
        with gm:
            gm.backward([x * 3.0, y * 5.0])
        check_grad(x, 3.0 * 2 + 1)
        check_grad(y, 5.0 * 2 + 1)


def test_the_singular_name_is_keyword_only():
    with pytest.raises(TypeError):
        GradManager().attach(tensor(1.0), None, double)


# ---- 3: wrong input changes nothing --------------------------------------------------------------

STRANGERS = [np.ones(2), np.float64(1.0), 3.0, 1j, "abc", b"abc", object(), double]


@pytest.mark.parametrize("stranger", STRANGERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("wrap", [lambda x, s: [x, s], lambda x, s: (t for t in (x, s)), lambda x, s: s])
def test_a_leaf_that_is_no_tensor_changes_nothing(wrap, stranger):
    x, calls = tensor(1.0), []
    gm = GradManager().attach(x)
    y = tensor(2.0)
    with pytest.raises(TypeError, match=type(stranger).__name__) as e:
        gm.attach([y, x, wrap(y, stranger)], lambda *a: calls.append(a))
    assert "tensor(" in str(e.value), "the message says what to write instead"
    assert attached(gm) == [id(x)]
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, 3.0)
    assert calls == [], "no callback of a refused attach is kept"


def test_the_message_names_the_path_of_the_leaf():
    x = tensor(1.0)
    with pytest.raises(TypeError, match=r"(?s)weight.*1.*") as e:
        GradManager().attach({"weight": [x, np.ones(2)], "bias": x})
    assert "ndarray" in str(e.value)
    assert "bias" not in str(e.value)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16, np.bool_])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_only_floating_dtypes_have_gradients(dtype, shape):
    x, n = tensor(1.0), tensor(np.ones(shape, dtype))
    gm = GradManager()
    with pytest.raises(TypeError) as e:
        gm.attach([x, n])
    assert np.dtype(dtype).name in str(e.value)
    assert str(shape) in str(e.value)
    assert attached(gm) == []


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_every_floating_dtype_may_be_attached(dtype):
    x = tensor(np.ones(2, dtype))
    gm = GradManager().attach(x)
    with gm:
        gm.backward(x * 2)
    check_grad(x, np.full(2, 2, dtype))


@pytest.mark.parametrize("bad", [3, "abc", [double, 3], (None,), [[double]], tensor(1.0)])
@pytest.mark.parametrize("name", ["callbacks", "callback"])
def test_a_callback_that_cannot_be_called_changes_nothing(name, bad):
    x, y, calls = tensor(1.0), tensor(1.0), []
    gm = GradManager().attach(x)
    bad = [lambda *a: calls.append(a), *bad] if isinstance(bad, list) else bad
    with pytest.raises(TypeError):
        gm.attach([x, y], **{name: bad})
    assert attached(gm) == [id(x)]
    with gm:
        gm.backward(x * 3.0)
    assert calls == []
    check_grad(x, 3.0)


def test_an_iterator_that_breaks_changes_nothing():
    x = tensor(1.0)

    def broken(first):
        yield first
        raise ZeroDivisionError

    gm = GradManager()
    with pytest.raises(ZeroDivisionError):
        gm.attach(broken(x))
    with pytest.raises(ZeroDivisionError):
        gm.attach(x, broken(double))
    assert attached(gm) == []


def test_attach_is_atomic_while_recording_too():
    x = tensor(1.0)
    gm = GradManager()
    gm.record()
    with pytest.raises(TypeError):
        gm.attach([x, 3.0])
    assert gm.is_recording
    assert not tracked(x)
    with pytest.warns(NoGradientWarning):
        gm.backward(x * 2.0)
    assert x.grad is None


# ---- 4: from when it counts ----------------------------------------------------------------------


def test_before_record_attach_only_registers():
    a = tensor([1.0, 2.0])
    gm = GradManager().attach(a)
    assert not gm.is_recording
    assert not tracked(a)
    b = a * 3.0
    assert not tracked(b)
    gm.record()
    gm.backward(b + a)
    check_grad(a, 1.0)


def test_while_recording_later_uses_count_and_earlier_ones_do_not():
    a = tensor([1.0, 2.0])
    gm = GradManager()
    gm.record()
    b = a * 3.0
    gm.attach(a)
    assert tracked(a)
    assert not tracked(b)
    gm.backward(b + a)
    check_grad(a, 1.0)


def test_an_attach_while_recording_brings_its_callbacks():
    a, seen = tensor([1.0, 2.0]), []
    with GradManager() as gm:
        gm.attach(a, lambda t, g: seen.append((t, g.numpy())))
        gm.backward(a * a)
    ((t, g),) = seen
    assert t is a
    close(g, [2.0, 4.0])


def test_attaching_again_while_recording_forgets_no_use():
    a = tensor([1.0, 2.0])
    gm = GradManager().attach(a)
    gm.record()
    b = a * 3.0
    gm.attach(a, double)
    gm.backward(b + a)
    check_grad(a, (3.0 + 1.0) * 2)


def test_the_first_of_many_attaches_does_not_stop_the_others():
    a, b = tensor(2.0), tensor(3.0)
    with GradManager() as gm:
        c = a * b
        gm.attach(a)
        d = a * b
        gm.attach(b)
        gm.backward(c + d + a * b)
    check_grad(a, 6.0)
    check_grad(b, 2.0)


# ---- 5: attaching again --------------------------------------------------------------------------


def test_callbacks_append_in_call_order_for_each_tensor():
    x, y, log = tensor(1.0), tensor(1.0), []

    def note(name):
        return lambda t, g: log.append((name, "x" if t is x else "y"))

    gm = GradManager()
    gm.attach(x, note(1)).attach([y, x], [note(2), note(3)]).attach(y, callback=note(4)).attach(x, note(5))
    with gm:
        gm.backward(x * y)
    assert [n for n, t in log if t == "x"] == [1, 2, 3, 5]
    assert [n for n, t in log if t == "y"] == [2, 3, 4]


def test_the_same_callback_twice_runs_twice():
    x = tensor(1.0)
    gm = GradManager().attach(x, double).attach(x, double)
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, 12.0)


@pytest.mark.parametrize("wrap", [lambda x: [x, x], lambda x: {"a": x, "b": [x]}, lambda x: iter((x, x, x))])
def test_the_same_tensor_twice_in_one_attach_counts_once(wrap):
    x, calls = tensor([1.0, 2.0]), []
    gm = GradManager().attach(wrap(x), lambda t, g: calls.append(t))
    assert attached(gm) == [id(x)]
    with gm:
        gm.backward(x * 3.0)
    check_grad(x, 3.0)
    assert len(calls) == 1


def test_attaching_again_does_not_double_the_gradient():
    x = tensor([1.0, 2.0])
    gm = GradManager().attach(x).attach(x).attach([x])
    with gm:
        gm.attach(x)
        gm.backward(x * 3.0)
    check_grad(x, 3.0)
    assert attached(gm) == [id(x)]


# ---- 6: attachments persist ----------------------------------------------------------------------


def test_attachments_and_callbacks_persist_over_recordings():
    x, calls = tensor([1.0, 2.0]), []
    gm = GradManager().attach(x, lambda t, g: calls.append(g))
    for n in (1, 2, 3):
        with gm:
            gm.backward(x * 3.0)
        check_grad(x, 3.0 * n)
        assert len(calls) == n
    with gm:
        pass
    gm.record()
    gm.release()
    assert attached(gm) == [id(x)]


def test_attached_tensors_are_the_same_objects_in_first_attach_order():
    xs = [tensor(float(i)) for i in range(5)]
    gm = GradManager().attach(xs[3]).attach([xs[1], xs[3]]).attach(xs)
    order = [xs[i] for i in (3, 1, 0, 2, 4)]
    for _ in range(2):
        assert attached(gm) == [id(t) for t in order]
        gm.record()
        assert attached(gm) == [id(t) for t in order]
        gm.release()


def test_only_the_living_are_listed():
    x, y, z = tensor(1.0), tensor(2.0), tensor(3.0)
    gm = GradManager().attach([x, y, z])
    del y
    assert attached(gm) == [id(x), id(z)]


@pytest.mark.parametrize("wrap", [lambda *t: list(t), lambda *t: {"a": t}, lambda *t: iter(t)])
def test_detach_removes_a_tree_of_them(wrap):
    x, y, z = tensor(1.0), tensor(2.0), tensor(3.0)
    gm = GradManager().attach([x, y, z])
    gm.detach(wrap(x, z))
    assert attached(gm) == [id(y)]
    with gm:
        assert not tracked(x)
        gm.backward(x * y * z)
    check_grad(y, 3.0)
    assert x.grad is None
    assert z.grad is None


def test_detach_forgets_callbacks_and_place():
    x, y, calls = tensor(1.0), tensor(2.0), []
    gm = GradManager().attach(x, lambda t, g: calls.append(t)).attach(y)
    gm.detach(x)
    gm.attach(x)
    assert attached(gm) == [id(y), id(x)]
    with gm:
        gm.backward(x * y)
    assert calls == []
    check_grad(x, 2.0)


def test_detach_while_recording_spares_grad():
    x, y = tensor(2.0), tensor(3.0)
    gm = GradManager().attach([x, y])
    with gm:
        z = x * y
        gm.detach(x)
        gm.backward(z)
    assert x.grad is None
    check_grad(y, 2.0)


# ---- 7: attaching an intermediate ----------------------------------------------------------------


def test_an_intermediate_becomes_a_leaf_and_still_passes_gradients_on():
    a = tensor([1.0, 2.0])
    gm = GradManager().attach(a)
    gm.record()
    b = a * 3.0
    c = b * 2.0
    gm.attach(b)
    d = b * 5.0
    gm.backward([c, d])
    check_grad(b, 5.0)
    check_grad(a, 21.0)


def test_a_chain_of_attached_intermediates():
    x = tensor(2.0)
    gm = GradManager().attach(x)
    with gm:
        h = x * x
        gm.attach(h)
        k = h * h
        gm.attach(k)
        gm.backward(k * k)  # x**8
    check_grad(k, 2 * 2.0**4)
    check_grad(h, 4 * 2.0**6)
    check_grad(x, 8 * 2.0**7)


def test_the_attachment_outlives_the_recording():
    a = tensor([1.0, 2.0])
    gm = GradManager().attach(a)
    with gm:
        b = a * 3.0
        gm.attach(b)
    with gm:
        gm.backward(b * a)
    check_grad(b, [1.0, 2.0])
    check_grad(a, [3.0, 6.0])  # b is a constant of this recording, 3 a of the last one


# ---- 8: attaching to an outer manager ------------------------------------------------------------


def test_an_intermediate_of_the_inner_manager_attached_to_the_outer_one():
    x = tensor(3.0)
    outer, inner = GradManager(), GradManager().attach(x)
    with outer, inner:
        h = x * x
        outer.attach(h)
        y = h * h
        inner.backward(y)
        check_grad(x, 4 * 3.0**3)
        assert h.grad is None
        outer.backward(y)
    check_grad(h, 2 * 9.0)
    check_grad(x, 4 * 3.0**3)


def test_a_leaf_of_the_inner_manager_attached_to_the_outer_one():
    x = tensor(3.0)
    outer, inner = GradManager(), GradManager().attach(x)
    with outer, inner:
        outer.attach(x)
        y = x * x * x
        inner.backward(y)
        first, x.grad = x.grad, None
        close(first, 3 * 3.0**2)
        outer.backward([y, first])  # the outer one sees the inner reverse step as well
    check_grad(x, 3 * 3.0**2 + 6 * 3.0)


def test_a_late_attach_to_the_outer_manager_leaves_the_inner_gradient_whole():
    x = tensor(3.0)
    outer, inner = GradManager(), GradManager().attach(x)
    with outer, inner:
        early = x * x
        outer.attach(x)
        y = early + x * 5.0
        inner.backward(y)
        check_grad(x, 2 * 3.0 + 5.0)
        x.grad = None
        outer.backward(y)
    check_grad(x, 5.0)


def doubled(_, grad):
    """Return twice a gradient."""
    return 2.0 * grad


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_of_a_manager_is_attached_to_the_copies_of_its_tensors(copied):
    w = tensor([1.0, 2.0])
    with GradManager().attach(w, doubled) as gm:
        y = w * w * w
        other, v = copied((gm, w))
        assert not other.is_recording
        with other:
            other.backward(v * v)
        gm.backward(y)
    assert [id(t) for t in other.attached_tensors()] == [id(v)]
    close(v.grad, [4.0, 8.0])
    close(w.grad, [6.0, 24.0])


def test_a_shallow_copy_of_a_manager_has_its_tensors_and_attachments_of_its_own():
    w, v = tensor([1.0, 2.0]), tensor([3.0, 4.0])
    gm = GradManager().attach(w)
    other = copy.copy(gm).attach(v).attach(w, doubled)
    assert [id(t) for t in gm.attached_tensors()] == [id(w)]
    with gm | other:
        y = w * v
        gm.backward(y)
        close(w.grad, v)
        w.grad = None
        other.backward(y)
    close(w.grad, 2.0 * v.numpy())
    close(v.grad, w)
