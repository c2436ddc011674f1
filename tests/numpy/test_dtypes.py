"""Dtypes and values are NumPy's for every function; `python -m tests.numpy.dtypes` tries every kind."""

from __future__ import annotations

import types
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from tests.dtypes import DTYPES, Call, Run, attempt, compare, differences, leaves
from tests.numpy.dtypes import CALLS, DEVIATIONS, OPERATORS
from tests.numpy.test_names import OWN, PUBLIC

import fgrad as fg
import fgrad.numpy as fnp

pytestmark = [pytest.mark.filterwarnings("ignore")]  # NumPy's own, of what is compared with it
PARTS = 8
SHARE = 12  # every so manieth call is compiled, in one dtype
ASIDE = {  # names that compute nothing from elements: text, files, memory, types, places
    *("array2string", "array_repr", "array_str", "asarray_chkfinite", "broadcast_shapes", "can_cast"),
    *(
        "diag_indices",
        "diag_indices_from",
        "einsum_path",
        "format_float_positional",
        "format_float_scientific",
    ),
    *(
        "from_dlpack",
        "frombuffer",
        "fromiter",
        "isdtype",
        "isscalar",
        "issubdtype",
        "iterable",
        "iscomplexobj",
    ),
    *("mask_indices", "may_share_memory", "ndim", "promote_types", "ravel_multi_index", "save", "savetxt"),
    *("savez", "savez_compressed", "shape", "shares_memory", "size", "tril_indices_from", "triu_indices"),
    *("triu_indices_from", "typename", "row_stack", "histogramdd", "empty_like", "argpartition", "geterrobj"),
}


class Recorder:
    """A namespace that notes which of its names are used."""

    def __init__(self, module: Any, prefix: str, used: set[str]) -> None:
        self._module, self._prefix, self._used = module, prefix, used

    def __getattr__(self, name: str) -> Any:
        self._used.add(self._prefix + name)
        value = getattr(self._module, name)
        return (
            Recorder(value, f"{self._prefix}{name}.", self._used)
            if isinstance(value, types.ModuleType)
            else value
        )


def part(k: int) -> list[Call]:
    return [c for c in CALLS if crc32(c.name.split(" dtype=")[0].encode()) % PARTS == k]


def eager_step(call: Call) -> int:
    """Return which share of combinations is tried: of dtypes all, of pairs where elements are combined."""
    if " dtype=" in call.name:
        return 5 if len(call.kinds) == 1 else 37
    if len(call.kinds) == 1:
        return 1
    if call.name.endswith("(x, y)"):
        return 1
    return (
        3
        if call.name.endswith("(x, number)") or call.name.split(" ")[1:2] in [[o] for o in OPERATORS]
        else 11
    )


def staged_step(call: Call) -> int:
    return 17 * eager_step(call)


@pytest.mark.parametrize("k", range(PARTS))
def test_results_are_those_of_numpy(k):
    found = differences(part(k), np, fnp, ("eager",), DEVIATIONS, step=eager_step)
    assert [line for _, _, line in found if line] == []


@pytest.mark.parametrize("k", range(PARTS))
@pytest.mark.parametrize("mode", ["theirs", "beside", "staged", "mapped", "gradients"])
def test_every_way_in_gives_the_same(k, mode):
    found = differences(part(k), np, fnp, (mode,), DEVIATIONS, step=staged_step)
    assert [line for _, _, line in found if line] == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_compiled_programs_compute_the_same(dtype):
    """Compile calls of one dtype as one program: every call once in some dtype, and beside some other one."""
    runs = []
    for i, call in enumerate(CALLS):
        if "edges) dtype=" in call.name:  # what a machine makes of NaN as integer
            continue
        if "compiled" not in call.modes or (i + DTYPES.index(dtype)) % (SHARE * len(DTYPES)):
            continue
        kinds = [dtype if dtype in k else k[i % len(k)] for k in call.kinds]
        if any(k.startswith("python") for k in kinds):
            continue
        run = Run(call, kinds, np, fnp, DEVIATIONS)
        made = attempt(fg.make_graph(lambda *xs, f=call.f: f(fnp, *xs)), *run.args)
        if not isinstance(run.result(), Exception) and not isinstance(made, Exception):
            runs.append(run)

    def program(arguments: Any) -> Any:
        return [
            [y for y in leaves(run.call.f(fnp, *args)) if isinstance(y, fg.Tensor)]
            for run, args in zip(runs, arguments, strict=True)
        ]

    made = fg.jit(program)([[np.asarray(x) for x in run.args] for run in runs])
    for run, result in zip(runs, made, strict=True):
        own = [y for y in leaves(run.result()) if isinstance(y, fg.Tensor)]
        try:
            compare(result, own, run.ulps)
        except AssertionError as e:
            raise AssertionError(f"{run.call.name} ({', '.join(run.kinds)}): {e}") from None


def test_every_function_is_in_the_table():
    used: set[str] = set()
    recorder = Recorder(fnp, "", used)
    for call in CALLS:
        kinds = [
            next((k for k in ("float64", "0-d float64", "scalar float64") if k in own), own[0])
            for own in call.kinds
        ]
        attempt(call.f, recorder, *Run(call, kinds, np, fnp, {}).args)
    assert {name for name in PUBLIC if name not in used | ASIDE | OWN} == set()


def test_deviations_are_few():
    assert len(DEVIATIONS) <= 25


HALF, SINGLE, SMALL = np.float16, np.float32, np.array([3, -100, 127], np.int8)
NAMED = {  # what was wrong once, of its own
    "linspace of single precision": lambda np, t: np.linspace(t(SINGLE(1)), 2.5, 3),
    "linspace of half precision and a number": lambda np, t: np.linspace(0, t(np.ones(2, HALF)), 3),
    "std of complex numbers in double": lambda np, t: np.std(t(np.array([1j, 2.0])), dtype=float),
    "mean in small integers": lambda np, t: np.mean(t(SMALL), dtype=np.uint8),
    "mean of NaN in integers": lambda np, t: np.mean(t(np.array([np.nan, 1.0])), dtype=int),
    "variance in small integers": lambda np, t: np.var(t(SMALL), dtype=np.int8),
    "square of truth values": lambda np, t: t(np.array([True, False])) ** 2,
    "angle of truth values": lambda np, t: np.angle(t(np.array([True, False]))),
    "norm of nothing": lambda np, t: np.linalg.norm(t(np.zeros(0)), -1),
    "norm of infinities": lambda np, t: np.linalg.norm(t(np.array([np.inf, np.inf])), -1),
    "poly of infinite roots": lambda np, t: np.poly(t(np.array([complex(np.inf, 1), complex(np.inf, -1)]))),
    "power.reduce in another dtype": lambda np, t: np.power.reduce(
        t(np.array([2, 3], np.int8)), dtype=np.int64
    ),
    "ascontiguousarray in a dtype": lambda np, t: np.ascontiguousarray(t(SMALL), dtype=float),
    "matmul in a dtype": lambda np, t: np.matmul(t(np.ones(3, bool)), t(np.ones(3, bool)), dtype=np.int8),
    "clip promotes all three": lambda np, t: np.clip(t(np.arange(3, dtype=np.uint16)), 0.5, t(SINGLE(2.5))),
    "a number that does not fit": lambda np, t: written(t(SMALL), lambda x: x.__setitem__(0, 300)),
    "an imaginary part inserted": lambda np, t: np.insert(t(SMALL), 0, 1j),
    "einsum rounds once": lambda np, t: np.einsum("i,j,k->", *(t(np.array([0.1, 0.2], d)) for d in "efd")),
    "a reduction with a target": lambda np, t: np.sum(t(SMALL), out=t(np.zeros((), np.int8))),
}


def written(x: Any, write: Any) -> Any:
    write(x)
    return x


@pytest.mark.parametrize("name", NAMED)
def test_named_cases(name):
    expected = attempt(NAMED[name], np, np.array)
    compare(attempt(NAMED[name], fnp, fg.tensor), expected, 16)


def test_a_reduction_of_one_element_starts_from_the_identity():
    mapped = fg.vmap(lambda x: np.hypot.reduce(x))(np.array([[-2.0], [3.0]]))
    np.testing.assert_array_equal(mapped, [2.0, 3.0])


def test_at_rounds_after_every_step_where_elements_are_integers():
    def divided(x: Any) -> Any:
        y = fnp.copy(x)
        np.divide.at(y, [0, 0], np.array([2.0, 1.6]))
        return y

    expected = np.array([5, 7], np.int8)
    np.divide.at(expected, [0, 0], np.array([2.0, 1.6]))
    np.testing.assert_array_equal(fg.vmap(divided)(np.array([[5, 7]], np.int8)), [expected])


def test_numbers_of_python_give_way_in_make_graph():
    small = np.ones(2, np.int8)
    assert fg.eval_shape(lambda n, x: n + x, 2, small).dtype == np.int8
    program = fg.make_graph(lambda n, x: n + x)(2, small)
    with pytest.raises(OverflowError):
        program(300, small)


ARRAYS_OF_SCALARS = {
    "an ellipsis": lambda x: (x[0] > 0)[...],
    "an ellipsis of an ellipsis": lambda x: (x[..., 0] > 0)[...],
    "an ellipsis of a reduction": lambda x: np.any(x > 0)[...],
    "a copy of a view": lambda x: (x > 0)[..., 0].copy(),
    "a cast of a view": lambda x: (x > 0)[..., 0].astype(bool),
    "a scalar of it": lambda x: (x[0] > 0)[...][()],
    "a scalar": lambda x: x[0] > 0,
}


@pytest.mark.parametrize("name", ARRAYS_OF_SCALARS)
def test_arrays_of_scalars_are_arrays_while_traced(name):
    f, x = (lambda x: ARRAYS_OF_SCALARS[name](x) ** 2), np.array([0.5, -1.0])
    expected = np.asarray(f(x)).dtype
    assert expected == (np.int64 if "a scalar" in name else np.int8)
    assert fg.jit(f)(x).dtype == fg.vmap(f)(x[None]).dtype == fg.eval_shape(f, x).dtype == expected


def _changed(write):
    def f(x, n):
        x = x.copy()
        write(x, n)
        return x

    return f


PLACES_OF_INTEGERS = {
    "maximum.reduce": lambda x, n: np.maximum.reduce(x, initial=n),
    "minimum.reduce": lambda x, n: np.minimum.reduce(x, initial=n),
    "bitwise_or.reduce": lambda x, n: np.bitwise_or.reduce(x, initial=n),
    "add.reduce": lambda x, n: np.add.reduce(x, dtype=x.dtype, initial=n),
    "max": lambda x, n: np.max(x, initial=n),
    "min": lambda x, n: np.min(x, initial=n),
    "sum": lambda x, n: np.sum(x, dtype=x.dtype, initial=n),
    "prod": lambda x, n: np.prod(x, dtype=x.dtype, initial=n),
    "power": np.power,
    "**": lambda x, n: x**n,
    "add": np.add,
    "full_like": np.full_like,
    "insert": lambda x, n: np.insert(x, 1, n),
    "item": _changed(lambda x, n: x.__setitem__(0, n)),
    "slice": _changed(lambda x, n: x.__setitem__(slice(1, None), n)),
    "mask": _changed(lambda x, n: x.__setitem__(x > 2, n)),
    "indices": _changed(lambda x, n: x.__setitem__([0, 2], n)),
    "flat": _changed(lambda x, n: x.flat.__setitem__(slice(None), n)),
    "put": _changed(lambda x, n: np.put(x, [0], n)),
    "fill": _changed(lambda x, n: x.fill(n)),
    "copyto": _changed(np.copyto),
    "putmask": _changed(lambda x, n: np.putmask(x, x > 2, n)),
    "put_along_axis": _changed(lambda x, n: np.put_along_axis(x, np.array([0]), n, 0)),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
@pytest.mark.parametrize("place", PLACES_OF_INTEGERS)
def test_integers_of_python_that_do_not_fit_are_refused_wherever_they_go(place, dtype):
    f, x, limits = PLACES_OF_INTEGERS[place], np.array([1, 3, 5], dtype), np.iinfo(dtype)
    for n in (2, int(limits.max), int(limits.max) + 1, int(limits.min) - 1, 3 * int(limits.max)):
        ways = {
            "eager": lambda n: f(fg.tensor(x), n),
            "constant": lambda n: fg.jit(lambda x: f(x, n))(x),
            "argument": lambda n: fg.jit(f)(x, n),
            "mapped": lambda n: fg.vmap(lambda x: f(x, n))(x[None])[0],
        }
        try:
            expected = f(x, n)
        except (OverflowError, ValueError):  # NumPy's word for `flat`, and for negative exponents
            for call in ways.values():
                with pytest.raises((OverflowError, ValueError), match=str(n) if n > 0 else "out of|negative"):
                    call(n)
        else:
            for call in ways.values():
                np.testing.assert_array_equal(np.asarray(fg.stop_gradient(call(n))), expected)
