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
