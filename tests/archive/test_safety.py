"""Files of strangers: whatever they say is refused when they are loaded, or runs and gives what it says."""

from __future__ import annotations

import json
import pickle
import random
import struct
import sys
import tracemalloc

import numpy as np
import pytest
from tests.archive.corpus import Entry, limited, programs
from tests.archive.forms import forms, written
from tests.archive.mutate import original, rebuilt, sealed, session

import fgrad as fg
from fgrad.archive.container import VERSIONS
from fgrad.compiler.executable import Executable
from fgrad.core.aval import Aval
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Program, Var
from fgrad.ops.indices import HOLE, filled, gathered

F, I = "float64", "int64"


def one(primitive, inputs, outs, version=2, **params):
    """Return a file of one equation."""
    header = {
        "arrays": [],
        "name": "f",
        "declared": {},
        "program": {
            "inputs": inputs,
            "equations": [[primitive, [{"var": i} for i in range(len(inputs))], params, outs]],
            "outputs": [{"var": len(inputs) + i} for i in range(min(len(outs), 1))],
            "regions": [],
        },
        "inputs": {"tuple": [{"tuple": [*range(len(inputs))]}, {"dict": []}]},
        "limits": [],
        "outputs": 0,
        "leaves": [None],
    }
    return rebuilt(header, b"", version)


def tup(*xs):
    return {"tuple": [*xs]}


HOLES = tup({"hole": None})
WINDOW = {"window": tup(2), "stride": tup(1)}
DRAW = {
    "method": "standard_gamma",
    "options": {"dict": [["size", tup(3)]]},
    "shape": tup(3),
    "dtype": {"dtype": F},
}
SPREAD = {"window": tup(3), "stride": tup(3), "space": tup(4)}


@pytest.mark.parametrize(
    "data, words",
    [
        (one("unstack", [[F, [2**31]]], [[F, []]], axis=0), "not the length of the axis"),
        (
            one("gather", [[F, [4]], [I, [2**33]]], [[F, [2**33]]], template=HOLES),
            "takes up to 137,438,953,504 bytes, more than the 4,294,967,296 of max_bytes",
        ),
        (one("gather", [[F, [4, 2**40]], [I, [2**33]]], [[F, [2**33, 2**40]]], template=HOLES), "any memory"),
        (one("winners", [[I, [4]]], [["bool", [4]]], template=HOLES, shape=tup(2**40)), "max_bytes"),
        (one("broadcast_to", [[F, []]], [[F, [2**40]]], shape=tup(2**40)), "max_bytes"),
        (one("roots", [[F, [10**6]]], [["complex128", [10**6 - 1]]], lead=0), "max_bytes"),
        (one("roots", [[F, [3]]], [["complex128", [-1]]], lead=3), "is no shape|do not match"),
        (
            one("window_sum", [[F, [4]]], [[F, [3]]], **WINDOW, padding=tup(tup(-1, 2))),
            "wrong parameter padding",
        ),
        (one("max_pool", [[F, [4]]], [[F, [2**40]]], **WINDOW, padding=tup(tup(0, 2**40 - 3))), "max_bytes"),
        (one("window_spread", [[F, [2]]], [[F, [4]]], **SPREAD, padding=tup(tup(-1, 3))), "wrong parameter"),
        (one("window_spread", [[F, [9]]], [[F, [4]]], **SPREAD, padding=tup(tup(0, 0))), "do not match"),
        (one("convolve", [[F, [4]], [F, [3]]], [[F, [4]]], mode="same"), "wrong parameter mode"),
        (one("convolve", [[F, [2]], [F, [3]]], [[F, [0]]], mode="valid"), "do not match"),
        (one("qr", [[F, [2, 2]]], [[F, [2, 2]]] * 2, mode="r"), "wrong parameter mode"),
        (one("rank", [[F, [3, 2]], [I, [5, 1]]], [[I, [3, 1]]], propagate=False), "do not match"),
        (one("representative", [[F, [3]], [I, [2]], [I, [2]]], [[F, [2]]]), "do not match"),
        (
            one("slice_backward", [[F, [1]]], [[F, [4]]], shape=tup(4), index=tup({"slice": [0, 3, None]})),
            "do not match",
        ),
        (one("scatter_add", [[F, []], [I, [3]]], [[F, [4]]], template=HOLES, shape=tup(4)), "do not match"),
        (one("update", [[F, [4]], [F, [1]]], [[F, [4]]], index=tup(0)), "an array element with a sequence"),
        (one("put", [[F, [4]], [F, [1]], [I, []]], [[F, [4]]], template=HOLES), "element with a sequence"),
        (one("log_gamma", [[F, []], [F, [3]]], [[F, []]]), r"have to be float64\[3\]"),
        (
            one(
                "matrix_function",
                [[F, [2, 3]]],
                [[F, [2, 3]]],
                function="logm",
                exponent={"float": "1.0"},
                to_complex=False,
            ),
            "takes square matrices",
        ),
        (
            one("solve", [["float16", [2, 2]], [F, [2, 2]]], [[F, [2, 2]]], check=""),
            "no operand of dtype float16",
        ),
        (
            one("draw", [["uint32", [2]], [F, [3]], [F, [3]]], [[F, [3]]], names=tup("shape", "out"), **DRAW),
            "do not match",
        ),
        (one("draw", [["uint32", [2]], [F, [3]]], [[F, [3]]], names=tup("out"), **DRAW), "do not match"),
        (one("polygamma", [[F, [3]]], [[F, [3]]], n=2**40), "wrong parameter n"),
        (one("argmax", [[F, [0, 3]]], [[I, [3]]], axis=0), "do not match"),
        (one("max", [[F, [0, 3]]], [[F, [3]]], axes=tup(0)), "do not match"),
        (one("rfft", [[F, [0]]], [["complex128", [1]]], axis=0, norm="backward"), "do not match"),
        (one("argpartition", [[F, [3]]], [[I, [3]]], axis=0, kth=7), "do not match"),
        (one("argpartition", [[F, [3]]], [[I, [3]]], axis=0, kth=tup()), "wrong parameter kth"),
        (one("accumulate", [[F, [3]]], [[F, [3]]], ufunc="os.system", axis=0), "wrong parameter ufunc"),
        (one("slice", [[F, [3]]], [[F, []]], index=tup(3)), "out of bounds"),
        (one("sum", [[F, [3]]], [[F, []]], axes=tup(0), out=0), "no parameter out of it"),
        (one("custom", [[F, [3]]], [[F, [3]]]), "custom cannot be part"),
        (one("sin\0", [[F, [3]]], [[F, [3]]]), r"the operation sin.* is not declared"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_no_program_says_is_refused(data, words):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=words):
            fg.load(data)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_memory_is_limited():
    def f(x):
        big = np.broadcast_to(x, (1000, 1000))
        return fg.lax.scan(lambda c, a: (c + a.sum(), c * a), x, big)[1].sum()

    data = fg.export(f, 1.0)
    needed = 8 * (2 * 10**6)
    assert fg.load(data, max_bytes=3 * needed)(1.0) == f(1.0)
    assert fg.load(data, max_bytes=None)(1.0) == f(1.0)
    for limit in (needed // 2, 1000):
        with pytest.raises(ValueError, match=r"more than the [0-9,]* of max_bytes; if you trust the file"):
            fg.load(data, max_bytes=limit)
    assert pickle.loads(pickle.dumps(fg.load(data, max_bytes=3 * needed)))(1.0) == f(1.0)
    kept = fg.export(fg.grad(lambda x: fg.lax.scan(lambda c, _: (np.sin(c), None), x, None, 10**6)[0]), 1.0)
    with pytest.raises(ValueError, match="max_bytes"):
        fg.load(kept, max_bytes=2**21)
    fg.load(kept, max_bytes=2**26)


def many(count, deep=False):
    """Return a file of many equations and regions, in order or inside of one another."""
    header = json.loads(json.dumps(original(programs()[0]).header))
    spans = [[i, 2 * count - i] for i in range(count)] if deep else [[2 * i, 2 * i + 2] for i in range(count)]
    header |= {
        "arrays": [],
        "declared": {},
        "program": {
            "inputs": [[F, [3]]],
            "equations": [["sin", [{"var": i}], {}, [[F, [3]]]] for i in range(2 * count)],
            "outputs": [{"var": 2 * count}],
            "regions": [["g", i, j, [{"var": i}], [{"var": j}]] for i, j in spans],
        },
        "inputs": tup(tup(0), {"dict": []}),
        "limits": [],
        "outputs": 0,
        "leaves": [None],
    }
    return rebuilt(header, b"")


@pytest.mark.parametrize("deep", [False, True])
def test_loading_is_linear_in_the_file(deep):
    def calls(data):
        count = 0

        def counted(*_):
            nonlocal count
            count += 1

        sys.setprofile(counted)
        try:
            fg.load(data)
        finally:
            sys.setprofile(None)
        return count

    files = [many(n, deep) for n in (20, 200, 400)]
    calls(files[0])
    small, large = map(calls, files[1:])
    assert large < 2.2 * small
    tracemalloc.start()
    try:
        fg.load(files[2])
        assert tracemalloc.get_traced_memory()[1] < 64 * len(files[2])
    finally:
        tracemalloc.stop()


def region(*spans, uses=()):
    """Return a file of four equations in a row, with regions `[start, stop, arguments, results]`."""
    header = original(programs()[0]).header
    header = header | {
        "arrays": [],
        "declared": {},
        "program": {
            "inputs": [[F, [3]], [F, [3]]],
            "equations": [
                ["add", [{"var": max(0, i)}, {"var": dict(uses).get(i, 1)}], {}, [[F, [3]]]] for i in range(4)
            ],  # 2 = 0 + 1, 3 = 1 + 1, 4 = 2 + 1, 5 = 3 + 1
            "outputs": [{"var": 5}],
            "regions": [
                ["g", a, b, [{"var": v} for v in ins], [{"var": v} for v in outs]]
                for a, b, ins, outs in spans
            ],
        },
        "inputs": tup(tup(0, 1), {"dict": []}),
        "limits": [],
        "outputs": 0,
        "leaves": [None],
    }
    return rebuilt(header, b"")


@pytest.mark.parametrize(
    "data, words",
    [
        (region((0, 3, [0, 1], [4])), "used outside of it"),  # 3 is read by the last equation
        (region((0, 2, [0, 1], [2, 3]), (1, 3, [1, 2], [4])), "overlap"),
        (region((1, 2, [], [3])), "uses values that are not passed to it"),
        (region((0, 4, [0], [5])), "uses values that are not passed to it"),
        (region((0, 4, [0, 1], [5]), (1, 3, [1], [3, 4])), "uses values that are not passed to it"),
        (region((0, 4, [0, 1], [5]), (1, 3, [1, 2], [4])), "used outside of it"),
        (region((2, 3, [1, 2], [3, 4])), "returns values that it neither computes nor takes"),
        (region((2, 3, [1, 5], [4])), "refers to nothing"),
        (region((2, 2, [1, 2], [4])), "a region is empty"),
        (region((1, 3, [1, 2], [3, 4]), (1, 2, [1], [3])), "start at the same equation"),
    ],
)
def test_regions_that_are_none(data, words):
    with pytest.raises(ValueError, match=words):
        fg.load(data)


def test_regions_that_are_some():
    x = np.ones(3)
    for data in (
        region((0, 4, [0, 1], [5]), (1, 3, [1, 2], [3, 4])),
        region((0, 2, [0, 1], [2, 3]), (2, 4, [1, 2, 3], [5])),
        region((0, 4, [1, 0, 0], [5, 0])),
    ):
        loaded = fg.load(data)
        np.testing.assert_array_equal(loaded(x, x), fg.load(region())(x, x))
        with pytest.raises(TypeError, match="has a derivative of its own"):
            fg.grad(lambda a: loaded(a, x).sum())(x)
    fg.load(fg.export(lambda x: limited(x) + limited(limited(x)), x))


def test_loops_inside_of_one_another_end_somewhere():
    def deeper(f):
        return lambda x: fg.lax.cond(
            x > 0, lambda y: fg.lax.scan(lambda c, _: (f(c), None), y, None, 1)[0], np.sin, x
        )

    f = np.cos
    for _ in range(6):
        f = deeper(f)
    assert fg.load(fg.export(f, 0.5))(0.5) == pytest.approx(f(0.5))
    header = original(programs()[0]).header
    value = 1
    for _ in range(70):
        value = {"tuple": [value]}
    header = header | {"leaves": [[value]]}
    with pytest.raises(ValueError, match="more than 64 deep"):
        fg.load(rebuilt(header, original(programs()[0]).tail))
    for text in ('{"tuple":[' * 5000 + "]}" * 5000, '{"list":[' * 600 + "0" + "]}" * 600):
        body = struct.pack("<8sIQ", b"\x89fgrad\r\n", 2, len(text) + 9) + b'{"name":' + text.encode() + b"}"
        with pytest.raises(ValueError):
            fg.load(sealed(body))


def test_loops_carry_what_they_are_given():
    data = fg.export(lambda y: fg.lax.while_loop(lambda z: z < 9.0, lambda z: z * 1.5, y), 1.0)
    stored = original(Entry("loop", data))
    _, (_, body, _) = stored.header["program"]["equations"][0][2]["code"]["code"]
    body["program"]["outputs"] = [1]
    with pytest.raises(ValueError, match=r"the results of a step are int64\[\], but have to be float64\[\]"):
        fg.load(rebuilt(stored.header, stored.tail))


def test_names_are_names():
    for name in ("\0", "a\nb", "\ud800", "x" * 1001):
        header = original(programs()[0]).header | {"name": name}
        with pytest.raises(ValueError, match="where a name is expected"):
            fg.load(rebuilt(header, original(programs()[0]).tail))
    header = original(programs()[-2]).header | {"name": "\"'{}; %s é"}
    assert fg.load(rebuilt(header, original(programs()[-2]).tail))(np.ones(2, np.int8), 3)[0] == 4


# ---- versions ----------------------------------------------------------------------------------------------


def test_files_of_the_first_version_are_read():
    for e in programs():
        data = sealed(e.data[:8] + struct.pack("<I", 1) + e.data[12:-32])
        assert str(fg.load(data).program) == str(fg.load(e.data).program)


def test_primitives_that_have_changed_since_are_refused_by_name():
    old = {"function": "logm", "exponent": {"float": "1.0"}}
    for data in (
        one("matrix_function", [[F, [2, 2]]], [[F, [2, 2]]], 1, **old),
        one("frechet", [[F, [2, 2]]] * 2, [[F, [2, 2]]], 1, **old),
    ):
        with pytest.raises(ValueError, match=r"stored in version 1 .*, and (matrix_function|frechet) means"):
            fg.load(data)
    fg.load(one("frechet", [[F, [2, 2]]] * 2, [[F, [2, 2]]]))
    with pytest.raises(ValueError, match="version 3 of the format, but this fgrad reads 1 and 2 only"):
        fg.load(one("sin", [[F, [2]]], [[F, [2]]], 3))


def test_primitives_keep_their_forms():
    """Where this fails for a primitive that is not new, programs that were stored mean another thing.

    Then raise the version in `container.VERSIONS`, say so in `since` of what the primitive is stored as, and
    write the list again: `python -m tests.archive.forms`.
    """
    assert forms() == written()
    stored = [primitive.stored for primitive in PRIMITIVES.values()]
    assert max(s.since for s in stored if not isinstance(s, str)) <= VERSIONS[-1]


# ---- what a run gives --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", [Aval((4,), np.dtype(float)), Aval((3,), np.dtype(np.float32))])
def test_no_result_is_memory_that_nobody_wrote(wrong, monkeypatch):
    """A shape rule that does not say what its primitive gives is an error, not an array of garbage."""
    monkeypatch.setattr(
        PRIMITIVES["sort" if "sort" in PRIMITIVES else "argsort"], "shape", lambda *_, **__: wrong
    )
    x = Var(Aval((3,), np.dtype(float)), "x")
    y = Var(wrong, "y")
    program = Program(
        [x], [Equation("argsort", (x,), {"axis": 0, "kind": "stable"}, (y,), "here")], [y], (None, None)
    )
    executable = Executable(program)
    for _ in range(3):  # the first call is another one than those that follow
        with pytest.raises(RuntimeError, match=r"argsort returned int64\[3\], but its shape rule states"):
            executable.run([np.ones(3)])


# ---- mutants -----------------------------------------------------------------------------------------------


def test_mutants_are_refused_or_run():
    s = session("suite", each=1)
    s.run(0, 6000)
    assert not s.failures, "\n".join(s.failures[:5])
    assert s.counts["typed: ran"] > 800
    assert s.counts["field: ran"] > 300
    assert s.counts["typed: refused"] > 800


def test_mutants_compute_the_same_when_they_are_compiled():
    s = session("compiled", each=1, compiled=1)
    s.run(0, 150)
    assert not s.failures, "\n".join(s.failures[:5])
    assert s.counts["typed: compiled"] > 20


def drawn_index(rng):
    """Return a shape, a template and index arrays, which may fit."""
    shape = tuple(rng.choice((0, 1, 2, 3, 4)) for _ in range(rng.randrange(5)))
    template, arrays = [], []
    for _ in range(rng.randrange(6)):
        part = rng.choice(
            (HOLE, HOLE, rng.choice((0, -1, 2)), None, slice(None), slice(None, 2, None), True, False)
        )
        part = Ellipsis if rng.random() < 0.2 and Ellipsis not in template else part
        template.append(part)
        if part is HOLE:
            arrays.append(np.zeros(tuple(rng.choice((0, 1, 1, 2, 3)) for _ in range(rng.randrange(3))), int))
    return shape, tuple(template), arrays


def test_shapes_of_indexing_are_known_without_indexing():
    rng = random.Random(0)
    known = 0
    for _ in range(4000):
        shape, template, arrays = drawn_index(rng)
        try:
            found = gathered(shape, arrays, template)
        except (IndexError, ValueError):
            found = None
        try:
            wanted = np.zeros(shape)[filled(template, arrays)].shape
        except (IndexError, ValueError) as error:
            if "size 0" in str(error) and found is not None:
                continue  # its shape is known, and there is no such index
            wanted = None
        assert found == wanted, (shape, template, [a.shape for a in arrays])
        known += found is not None
    assert known > 1000


def test_what_varies_in_loops_is_known_in_linear_time():
    """Loops inside of one another, whose carries hand on one after the other: each body is looked at once."""
    looked = 0

    def f(x, depth=4):
        def step(c, _):
            y = x + c[-1]
            return (f(y, depth - 1) if depth else np.sin(y), *c[:-1]), None

        return fg.lax.scan(step, (0.0,) * 6, None, 2)[0][-1]

    data = fg.export(fg.vmap(f), np.ones(3))

    def seen(*_):
        nonlocal looked
        looked += 1

    fg.load(data)
    sys.setprofile(seen)
    try:
        fg.load(data)
    finally:
        sys.setprofile(None)
    assert looked < 30_000
