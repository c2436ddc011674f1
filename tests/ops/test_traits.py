"""What primitives say of themselves holds for what they compute: passes believe it."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tests.helpers import grouped
from tests.ops.test_primitives import SAMPLES, Sample, floats, values

from fgrad.core import primitive as p
from fgrad.core.aval import aval_of
from fgrad.core.primitive import PRIMITIVES

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5)


def samples(trait):
    """Return the samples of the primitives that say so, with arrays of floats to try numbers in."""
    return [
        s
        for s in SAMPLES
        if trait in PRIMITIVES[s.primitive].traits and not s.stops and sum(map(np.size, s.args)) < 1000
    ]


def run(sample, args):
    with np.errstate(all="ignore"):
        return PRIMITIVES[sample.primitive].run(*args, **sample.params)


def with_number(sample, i, number, place=0):
    """Return the operands with a number in one of them."""
    args = list(sample.args)
    args[i] = np.array(args[i])
    args[i].flat[place] = number
    return args


def every(trait):
    """Return the decorator of a test of each sample of primitives with a trait; there are some."""
    found = samples(trait)
    assert found, trait

    def decorate(check):
        @pytest.mark.parametrize("name", sorted({s.primitive for s in found}))
        def test(name):
            for s in found:
                if s.primitive == name:
                    check(s)

        return test

    return decorate


def elements(x):
    return np.asarray(x).ravel()


@every(p.TOTAL)
def test_total(sample):
    for i in floats(sample):
        for number in SPECIAL:
            run(sample, with_number(sample, i, number))
    for i, a in enumerate(sample.args):
        if isinstance(a, np.ndarray) and a.dtype.kind in "iu" and a.size:
            for number in (0, 1, np.iinfo(a.dtype).min, np.iinfo(a.dtype).max):
                run(sample, with_number(sample, i, number))


@every(p.TOTAL_OF_FLOATS)
def test_total_of_floats(sample):
    for i in floats(sample):
        if run(sample, sample.args).dtype.kind in "fc":
            for number in SPECIAL:
                run(sample, with_number(sample, i, number))


@every(p.COMMUTATIVE)
def test_commutative(sample):
    x, y = sample.args
    a, b = run(sample, (x, y)), run(sample, (y, x))
    if a.dtype.kind == "c":  # the two products of an imaginary part are added in another order
        np.testing.assert_allclose(a, b, rtol=4 * np.finfo(a.dtype).eps)
    else:
        np.testing.assert_array_equal(a, b)


@every(p.NEVER_NEGATIVE_ZERO)
def test_never_negative_zero(sample):
    for i in floats(sample):
        for number in SPECIAL:
            y = elements(run(sample, with_number(sample, i, number)))
            if y.dtype.kind == "f":
                assert not (np.signbit(y) & (y == 0)).any(), number


@pytest.mark.parametrize("trait", [p.SPREADS, p.SPREADS_FIRST])
def test_spreads(trait):
    for s in samples(trait):
        for i in floats(s):
            if trait is p.SPREADS or i == 0:
                for number in SPECIAL[:3]:
                    for place in (0, np.size(s.args[i]) - 1):
                        y = run(s, with_number(s, i, number, place))
                        assert not np.isfinite(y).all() or not np.size(y), (s, i, number)


@every(p.SELECTS)
def test_selects(sample):
    y = run(sample, sample.args)
    given = np.stack(np.broadcast_arrays(*sample.args, y)[:-1])
    assert (given == y).any(0).all()


@every(p.CHOOSES)
def test_chooses(sample):
    c, x, y = sample.args
    np.testing.assert_array_equal(run(sample, sample.args), np.where(np.asarray(c, bool), x, y))


@every(p.ADDS)
def test_adds(sample):
    x, y = sample.args
    np.testing.assert_array_equal(run(sample, sample.args), np.asarray(x) + y)


@every(p.TRANSPOSES)
def test_transposes(sample):
    (x,) = sample.args
    np.testing.assert_array_equal(run(sample, sample.args), np.transpose(x, sample.params["axes"]))


@every(p.RESHAPES)
def test_reshapes(sample):
    (x,) = sample.args
    np.testing.assert_array_equal(run(sample, sample.args), np.reshape(x, sample.params["shape"]))


@every(p.REARRANGES)
def test_rearranges(sample):
    (x,) = sample.args
    assert np.isin(elements(run(sample, sample.args)), elements(x)).all()


@every(p.REPEATS)
def test_repeats(sample):
    (x,) = sample.args
    y = run(sample, sample.args)
    np.testing.assert_array_equal(y, np.broadcast_to(x, np.shape(y)))


@every(p.CASTS)
def test_casts(sample):
    (x,) = sample.args
    y = run(sample, sample.args)
    x = x.real if y.dtype.kind not in "cb" else x
    np.testing.assert_array_equal(y, x.astype(y.dtype))


@every(p.MOVES)
def test_moves(sample):
    x, y = np.asarray(sample.args[0]), run(sample, sample.args)
    with np.errstate(all="ignore"):
        kept = x.real if y.dtype.kind not in "cb" else x
        assert np.isin(elements(y), elements(kept).astype(y.dtype)).all()


@pytest.mark.parametrize("trait", [p.KEEPS_C_ORDER, p.KEEPS_C_ORDER_OF_FIRST, p.C_ORDER])
def test_order_in_memory(trait):
    found = samples(trait)
    assert found
    for s in found:
        first = 0 if trait is p.C_ORDER else 1 if trait is p.KEEPS_C_ORDER_OF_FIRST else len(s.args)
        args = [
            a if not isinstance(a, np.ndarray) else np.array(a, order="C" if i < first else "F")
            for i, a in enumerate(s.args)
        ]
        y = run(s, args)
        assert not isinstance(y, np.ndarray) or y.flags.c_contiguous, s


def is_joined(sample):
    how = PRIMITIVES[sample.primitive].reduction
    return how and np.size(sample.args[0]) and (how.integers or sample.args[0].dtype.kind not in "iub")


@grouped("sample", filter(is_joined, SAMPLES), "primitive")
def test_reductions_join_elements_in_any_order(sample):
    (x,), how = sample.args, PRIMITIVES[sample.primitive].reduction
    join, y = PRIMITIVES[how.join].run, run(sample, sample.args)
    axes = sample.params["axes"]
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = x.transpose(*kept, *axes).reshape(*(x.shape[i] for i in kept), -1).astype(y.dtype)
    for order in (1, -1):
        joined = functools.reduce(join, np.moveaxis(rows, -1, 0)[::order])
        np.testing.assert_allclose(joined, y, rtol=1e-4 if y.dtype.itemsize == 4 else 1e-12, atol=1e-5)
    if x.dtype.kind == "f":
        np.testing.assert_array_equal(join(y, y.dtype.type(how.identity)), y)


KEEPING = Sample("reshape", "an axis stays", (values((2, 6)),), {"shape": (2, 3, 2)})
APART = sorted(name for name, primitive in PRIMITIVES.items() if primitive.apart)


@pytest.mark.parametrize("name", APART)
def test_samples_stay_apart(name):
    """A cotangent in one row of the result reaches only that row of the operand, along the axis said."""
    said = 0
    for s in (*SAMPLES, KEEPING):
        if s.primitive != name or s.stops or s.args[0].dtype.kind not in "fc":
            continue
        x, y = s.args[0], run(s, s.args)
        vjp = PRIMITIVES[name].vjp((True, *(False for _ in s.args[1:])))
        for axis, n in enumerate(y.shape):
            kept = [(y, *s.args)[k] for k in vjp.keep]
            avals = [aval_of((y, *s.args)[k]) for k in vjp.avals]
            saved = (*kept, *avals, s.params)
            at = PRIMITIVES[name].apart(axis, y.shape, saved)
            if at is None:
                continue
            said += 1
            assert x.shape[at] == n
            for i in range(n):
                ct = np.zeros_like(y)
                ct[(slice(None),) * axis + (i,)] = 1
                (back,) = vjp.lifted(ct, *saved)
                rest = np.delete(np.asarray(back), i, at)
                assert not rest.any(), (s, axis, at, i)
    assert said
