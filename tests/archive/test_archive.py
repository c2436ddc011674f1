"""export and load: programs as bytes that say nothing but programs."""

from __future__ import annotations

import hashlib
import inspect
import json
import pickle
import random
import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from tests.archive.corpus import Entry, loops
from tests.archive.mutate import original, parts, rebuilt
from tests.ops.test_primitives import SAMPLES

import fgrad as fg
from fgrad.archive.container import MAGIC, unpacked
from fgrad.archive.reading import FORMER, Reader
from fgrad.archive.schema import has_code, reason
from fgrad.archive.writing import Writer
from fgrad.core.aval import Aval, aval_of
from fgrad.core.primitive import PRIMITIVES, Primitive, flat
from fgrad.core.program import Program
from fgrad.ops.functions import multiply_no_nan
from fgrad.transforms.stage import staged


def packed_again(data, change):
    """Return stored bytes with a header changed by `change`, and the digest made right."""
    given = original(Entry("", data))
    changed = change(given.header)
    version = int.from_bytes(data[8:12], "little")
    return rebuilt(given.header if changed is None else changed, given.tail, version)


def model(params, x, *, scale=2.0):
    h = np.tanh(x @ params["w"] + params["b"][0])
    return {"out": (h * scale, [x.shape[0], None]), "loss": np.sum(h[:, 1:] ** 2)}


@pytest.fixture(scope="module")
def arguments():
    rng = np.random.default_rng(4)
    return {"w": rng.normal(size=(3, 4)), "b": [rng.normal(size=4)]}, rng.normal(size=(5, 3))


@pytest.fixture(scope="module")
def stored(arguments):
    return fg.export(model, *arguments, scale=3.0)


def test_a_loaded_function_is_the_function(arguments, stored):
    loaded = fg.load(stored)
    params, x = arguments
    out, expected = loaded(params, x, scale=3.0), model(params, x, scale=3.0)
    np.testing.assert_allclose(out["out"][0], expected["out"][0], rtol=1e-14)
    assert out["out"][1] == [5, None]
    assert list(out) == ["out", "loss"]
    assert out["loss"] == pytest.approx(expected["loss"], rel=1e-14)
    assert [e.name for e in loaded.program.equations] == [
        e.name for e in fg.jit(model).lower(params, x, scale=3.0)._procedure.program.equations
    ]
    again = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(again(params, x, scale=3.0)["out"][0], out["out"][0])
    with fg.disable_jit():
        np.testing.assert_allclose(loaded(params, x, scale=3.0)["loss"], out["loss"], rtol=1e-14)


def test_it_differentiates_and_maps(arguments, stored):
    loaded = fg.load(stored)
    params, x = arguments
    slope = fg.grad(lambda x: loaded(params, x, scale=3.0)["loss"])(x)
    h = 1e-6
    for place in np.ndindex(2, 3):
        e = np.zeros_like(x)
        e[place] = h
        difference = (model(params, x + e)["loss"] - model(params, x - e)["loss"]) / (2 * h)
        assert slope[place] == pytest.approx(difference, rel=1e-6, abs=1e-8)
    xs = np.stack([x, 2 * x])
    mapped = fg.vmap(lambda x: loaded(params, x, scale=3.0)["loss"])(xs)
    np.testing.assert_allclose(mapped, [model(params, x)["loss"] for x in xs], rtol=1e-13)
    tangent = fg.jvp(lambda s: loaded(params, x, scale=s)["out"][0], (3.0,), (1.0,))[1]
    np.testing.assert_allclose(tangent, model(params, x, scale=1.0)["out"][0], rtol=1e-14)


def test_another_process_loads_it(stored, arguments, tmp_path):
    params, x = arguments
    (tmp_path / "model.fgrad").write_bytes(stored)
    np.savez(tmp_path / "x.npz", w=params["w"], b=params["b"][0], x=x)
    text = (
        "import fgrad, numpy as np, pathlib, sys\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "f = fgrad.load((folder / 'model.fgrad').read_bytes()); a = np.load(folder / 'x.npz')\n"
        "print(repr(float(f({'w': a['w'], 'b': [a['b']]}, a['x'], scale=3.0)['loss'])))"
    )
    done = subprocess.run([sys.executable, "-c", text, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(model(params, x)["loss"], rel=1e-14)


def test_arguments_are_those_of_export(arguments, stored):
    loaded = fg.load(stored)
    params, x = arguments
    for args, kwargs, words in (
        ((params, x), {}, "exported for the structure"),
        (
            (params, x.astype(np.float32)),
            {"scale": 3.0},
            r"exported for float64\[5,3\], but the leaf \[0\]\[1\]",
        ),
        ((params, x[1:]), {"scale": 3.0}, r"is float64\[4,3\]"),
        ((params, x), {"scale": 3}, r"\[1\]\['scale'\] of \(args, kwargs\) is int64\[\]"),
    ):
        with pytest.raises(TypeError, match=words):
            loaded(*args, **kwargs)


def test_loops_and_branches_and_their_derivatives():
    x = np.array([0.5, 1.5, -0.7])
    loaded = fg.load(fg.export(loops, x, 1))
    mapped = fg.load(fg.export(fg.vmap(fg.grad(loops), in_axes=(0, None)), np.stack([x, x + 1]), 1))
    assert loaded(x, 1) == pytest.approx(loops(x, 1), rel=1e-14)
    with fg.disable_jit():  # how programs are compiled is not the question here
        check_loops(loops, loaded, mapped, x)
    names = {e.name for e in mapped.program.equations}
    assert any(has_code(PRIMITIVES[name]) for name in names)


def check_loops(f, loaded, mapped, x):
    for n in (-3, 0, 1, 2, 5):
        assert loaded(x, n) == pytest.approx(f(x, n), rel=1e-14)
        h, rows = 1e-6, mapped(np.stack([x, x + 1]), n)
        for row, point in zip(rows, (x, x + 1), strict=True):
            differences = [(f(point + h * e, n) - f(point - h * e, n)) / (2 * h) for e in np.eye(3)]
            np.testing.assert_allclose(row, differences, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(fg.grad(loaded)(x, n), mapped(np.stack([x, x + 1]), n)[0], rtol=1e-12)


VALUES = [
    *(None, True, 3, -(2**70), "text", ...),
    *(0.1, -0.0, float("inf"), -float("inf"), 5e-324, 1e22, 1e-7, 1 - 2j, complex(-0.0, float("inf"))),
    *((1, (2.5, "x"), ()), [1, [2]], {"a": 1, "b": (2,)}, slice(None, 3, -1), np.dtype(np.float32)),
    *(np.float32(0.1), np.int8(-3), np.bool_(True), np.complex64(1j), np.float64(-0.0)),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values(value):
    writer = Writer("f")
    said = json.loads(json.dumps(writer.value(value, "it"), allow_nan=False))
    found = Reader(writer.arrays.found, 2).value(said)
    assert type(found) is type(value)
    assert repr(found) == repr(value)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float32", "complex128"])
def test_arrays(dtype):
    rng = np.random.default_rng(3)
    for constant in (
        rng.normal(size=(4, 3)).astype(dtype)[::2, ::-1],
        np.broadcast_to(np.ones((), dtype), (1000, 1000)),
        np.zeros((0, 3), dtype),
        np.array(1, dtype),
    ):
        data = fg.export(lambda x: (x, np.asarray(constant)), 1.0)
        assert len(data) < 2000
        found = fg.load(data)(1.0)[1]
        np.testing.assert_array_equal(found, constant, strict=constant.ndim > 0)
        assert found.dtype == constant.dtype


STORED = [s for s in SAMPLES if not isinstance(PRIMITIVES[s.primitive].stored, str)]


def test_every_primitive_says_how_it_is_stored():
    """A new primitive says what its parameters are, or why it cannot be stored."""
    silent = inspect.signature(Primitive).parameters["stored"].default
    assert not [name for name, primitive in PRIMITIVES.items() if primitive.stored == silent]
    for s in SAMPLES:
        if not isinstance(PRIMITIVES[s.primitive].stored, str):
            assert not reason(s.primitive, s.params), s


def test_a_primitive_that_does_not_say_how_is_refused(monkeypatch):
    """It is neither stored nor loaded, and the reason is given."""
    stored = fg.export(lambda x: np.sin(x) + 1, 1.0)
    monkeypatch.setattr(PRIMITIVES["sin"], "stored", Primitive("sin", run=np.sin, vjp=flat).stored)
    why = r"it does not say how files hold it \(`stored=`\)"
    with pytest.raises(TypeError, match=f"sin, .* cannot be stored: {why}"):
        fg.export(lambda x: np.sin(x), 1.0)
    with pytest.raises(ValueError, match=f"sin cannot be part of a stored program: {why}"):
        fg.load(stored)


@pytest.mark.parametrize(
    "name", sorted({s.primitive for s in STORED if not has_code(PRIMITIVES[s.primitive])})
)
def test_primitives_survive(name):
    """Every sample of a primitive, as a program of one equation, comes back and computes the same."""
    for s in STORED:
        if s.primitive != name or s.stops:
            continue
        primitive = PRIMITIVES[name]
        values = [np.asarray(a) for a in s.args]

        def apply(*xs, s=s, primitive=primitive):
            out = fg.core.dispatch.bind(s.primitive, *xs, **s.params)
            return list(out) if primitive.many else [out]

        try:
            program, _ = staged(apply, [aval_of(a) for a in values])
        except TypeError:
            assert s.label == "complex refused", s
            continue
        writer = Writer(name)
        said = json.loads(json.dumps(writer.program(program), allow_nan=False))
        found = Reader(writer.arrays.found, 2).program(said)
        assert str(found) == str(program)
        with np.errstate(all="ignore"):
            for a, b in zip(found.run(values), program.run(values), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("former", "name"), FORMER.items())
def test_former_names_of_primitives_are_read(former, name):
    functions = {
        "multiply_no_nan": lambda x: multiply_no_nan(x, 2.0),
        "slice_backward": fg.grad(lambda x: np.sin(x[1])),
    }
    f, x = functions[name], np.array([np.inf, 0.0, 3.0])
    stored = fg.export(f, x)
    renamed = packed_again(
        stored, lambda header: json.loads(json.dumps(header).replace(f'"{name}"', f'"{former}"'))
    )
    assert renamed != stored
    np.testing.assert_array_equal(fg.load(renamed)(x), f(x))


class Point(NamedTuple):
    x: np.ndarray
    y: np.ndarray


def test_what_is_python_is_refused():
    x = np.ones(3)

    def root(x):
        return fg.lax.custom_root(lambda y: y - x, x, lambda f, y: y, lambda g, y: y)

    def minimum(x):
        return fg.scipy.optimize.minimize(lambda y: np.sum((y - x) ** 2), x).x

    for fun, args, words in (
        (minimum, (x,), "lax.opaque.*a solver is Python"),
        (
            lambda x: fg.debug.print("{}", x) or x,
            (x,),
            r"effect, traced at .*test_archive.py.*, cannot be stored",
        ),
        (root, (x,), "lax.custom_root.*a solver is Python"),
        (lambda p: p.x, (Point(x, x),), "an argument holds a Point; only tuples"),
        (lambda x: Point(x, x), (x,), "the result holds a Point"),
        (lambda x: (x, object()), (x,), "a result is of type object"),
        (lambda x: x, ({(1, 2): x},), "a dict whose keys are not strings or integers"),
    ):
        with pytest.raises(TypeError, match=rf"(?s)export of .*{words}"):
            fg.export(fun, *args)
    w = fg.tensor(2.0)
    with fg.GradManager().attach(w), pytest.raises(TypeError, match="reads a Tensor from outside"):
        fg.export(lambda x: x * w, x)


@fg.custom_vjp
def limited(x):
    return 2 * x


limited.defvjp(lambda x: (2 * x, None), lambda _, ct: (np.clip(ct, -1, 1),))


def test_derivatives_of_the_user_are_not_stored_and_not_replaced():
    x = np.array([1.0, 2.0, -3.0])

    def loss(x):
        return np.sum(np.sin(limited(x)) * 9.0)

    def steps(x):
        return fg.lax.scan(lambda c, _: (limited(c), c.sum()), x, None, 2)[0]

    data = fg.export(loss, x)
    loaded, rolled = fg.load(data), fg.load(fg.export(steps, x))
    assert loaded(x) == pytest.approx(np.sum(np.sin(2 * x)) * 9.0)
    np.testing.assert_allclose(fg.vmap(loaded)(np.stack([x, 2 * x])), [loss(x), loss(2 * x)])
    np.testing.assert_array_equal(rolled(x), 4 * x)
    for derivative in (
        fg.grad(loaded),
        fg.grad(fg.jit(lambda x: loaded(x))),
        fg.grad(lambda x: fg.vmap(loaded)(np.stack([x, x])).sum()),
        fg.vmap(fg.grad(loaded)),
        fg.grad(fg.load(fg.export(loaded, x))),
        fg.grad(lambda x: rolled(x).sum()),
        lambda x: fg.jvp(loaded, (x,), (x,)),
        lambda x: fg.jit(fg.grad(loaded))(x),
    ):
        with pytest.raises(TypeError, match="limited has a derivative of its own, which is Python"):
            derivative(np.stack([x, x]) if isinstance(derivative, type(fg.vmap(loaded))) else x)
    value, slope = fg.load(fg.export(fg.value_and_grad(loss), x))(x)
    assert value == pytest.approx(loss(x))
    np.testing.assert_allclose(slope, np.clip(9.0 * np.cos(2 * x), -1, 1))
    assert b"clip" not in data


def test_operations_of_the_user_have_to_be_declared_by_who_loads():
    square = fg.extend.elementwise(name="stored_square")(lambda x: x * x)
    data = fg.export(lambda x: square(x), np.ones(2))
    np.testing.assert_array_equal(fg.load(data)(np.array([3.0, 4.0])), [9.0, 16.0])
    name = f"{__name__}.stored_square"
    primitive = PRIMITIVES.pop(name)
    try:
        with pytest.raises(ValueError, match="stored_square is not declared here; declare it"):
            fg.load(data)
        fg.extend.elementwise(name="stored_square")(lambda x: x * x + 1e-3)
        with pytest.raises(ValueError, match="stored_square is declared here with a different body"):
            fg.load(data)
    finally:
        PRIMITIVES[name] = primitive


def test_integers_have_to_fit():
    loaded = fg.load(fg.export(lambda x, n: x + n, np.ones(2, np.int8), 1))
    np.testing.assert_array_equal(
        loaded(np.ones(2, np.int8), 126), np.array([127, 127], np.int8), strict=True
    )
    for wrapped in (loaded, fg.jit(lambda x, n: loaded(x, n))):
        with pytest.raises(OverflowError):
            wrapped(np.ones(2, np.int8), 300)
    with pytest.raises(TypeError, match="exported for a Python int"):
        loaded(np.ones(2, np.int8), np.int64(1))


# ---- bytes that are wrong ---------------------------------------------------------------------------------


def test_wrong_bytes_say_what_is_wrong(stored):
    version = stored[:8] + (7).to_bytes(4, "little") + stored[12:]
    for data, words in (
        (b"", "not a program that fgrad.export returned"),
        (b"PK\3\4" + stored, "not a program that fgrad.export returned"),
        (pickle.dumps(1), "not a program that fgrad.export returned"),
        (MAGIC, "truncated"),
        (stored[:-1], "truncated or was altered"),
        (stored + b"\0", "truncated or was altered"),
        (version, "version 7 of the format"),
    ):
        with pytest.raises(ValueError, match=words):
            fg.load(data)
    with pytest.raises(TypeError, match="not str"):
        fg.load("model")


def test_one_altered_byte_is_noticed(stored):
    rng = random.Random(0)
    for _ in range(300):
        i = rng.randrange(len(stored))
        data = bytearray(stored)
        data[i] ^= 1 << rng.randrange(8)
        with pytest.raises(ValueError, match=r"altered|version|not a program"):
            fg.load(bytes(data))
        with pytest.raises(ValueError, match=r"truncated|not a program"):
            fg.load(stored[:i])


@pytest.mark.parametrize(
    "text",
    ["[" * 200_000, '{"arrays":' + "1" * 6000 + "}", '{"arrays":1.5}', '{"arrays":[],"arrays":[]}', "\xff"],
)
def test_headers_that_are_hard_to_read(stored, text):
    header = text.encode("latin1")
    body = stored[:12] + len(header).to_bytes(8, "little") + header
    with pytest.raises(ValueError):
        fg.load(body + hashlib.sha256(body).digest())


def set_equation(k, part, value):
    def change(header):
        header["program"]["equations"][k][part] = value

    return change


@pytest.mark.parametrize(
    "change, words",
    [
        (set_equation(0, 0, "os.system"), "the operation os.system is not declared"),
        (set_equation(0, 0, "pure_callback"), "pure_callback cannot be part of a stored program"),
        (set_equation(0, 0, "__class__"), "is not declared"),
        (set_equation(0, 1, [{"var": 9}]), "9 refers to nothing"),
        (set_equation(0, 1, [{"var": -1}]), "-1 refers to nothing"),
        (set_equation(0, 1, ["text"]), "an operand is a str"),
        (set_equation(0, 1, [{"var": 0}, {"var": 0}]), "reshape takes 1 operands, not 2"),
        (set_equation(0, 2, {"shape": {"tuple": [7]}}), "do not match"),
        (set_equation(0, 2, {"shape": {"tuple": [-6, -1]}}), "wrong parameter shape"),
        (set_equation(0, 2, {"shape": {"tuple": [6]}, "dtype": "x"}), "no parameter dtype"),
        (set_equation(0, 2, {"shape": {"eval": "1"}}), "the format has no 'eval'"),
        (
            set_equation(0, 3, [["float64", [7]]]),
            r"results of reshape are float64\[7\], but have to be float64\[6\]",
        ),
        (set_equation(0, 3, [["float64", [2**61]]]), "larger than any memory"),
        (set_equation(0, 3, [["object", [6]]]), "no dtype 'object'"),
        (set_equation(1, 2, {"axes": {"tuple": [1]}}), "wrong parameter axes"),
        (lambda h: h["program"].update(outputs=[{"var": 99}]), "99 refers to nothing"),
        (lambda h: h.update(inputs={"tuple": [{"tuple": [0, 0]}, {"dict": []}]}), "not numbered in order"),
        (lambda h: h.update(limits=[[0, "int8"]]), "do not match"),
        (lambda h: h.update(more=1), "does not have the parts"),
        (lambda h: h.update(leaves=[[1]]), "do not match"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_programs_that_say_what_programs_do_not_say(change, words):
    data = fg.export(lambda x: np.sum(x.reshape(6)), np.ones((2, 3)))
    with pytest.raises(ValueError, match=words):
        fg.load(packed_again(data, change))


def mutated(x, rng, others):
    """Return a JSON value with one place changed, mostly to what stands elsewhere."""
    if isinstance(x, dict | list) and x and rng.random() < 0.9:
        x = x.copy()
        k = rng.choice(list(x)) if isinstance(x, dict) else rng.randrange(len(x))
        if rng.random() < 0.05:
            del x[k]
        else:
            x[k] = mutated(x[k], rng, others)
        return x
    return rng.choice([*others, -1, 0, 1, 2, 2**40, 2**70, True, None, "x", "sum", [], {}, {"tuple": []}])


def test_altered_programs_with_a_right_digest_are_refused_or_run(arguments):
    """Whatever the file says: ValueError, or a program whose results have the shapes that it says."""

    def f(x, i):
        y, ys = fg.lax.scan(lambda c, a: (c * np.sin(a), c), x[0], x)
        return np.where(x > 0, np.cumsum(x), y) @ x.reshape(2, 3).T.ravel() + x[i].sum() + ys[::2].max()

    x, i = np.linspace(-1.0, 1.0, 6), np.array([0, 3])
    data = fg.export(f, x, i)
    rng = random.Random(7)
    others = list(parts(unpacked(data)[0]))
    refused = ran = 0
    for _ in range(600):
        changed = packed_again(data, lambda header: mutated(header, rng, others))
        try:
            loaded = fg.load(changed)
        except ValueError:
            refused += 1
            continue
        ran += 1
        args = [np.zeros(v.aval.shape, v.aval.dtype) for v in loaded.program.inputs]
        try:
            with np.errstate(all="ignore"):
                outs = loaded.program.run(args)
        except (IndexError, ValueError, ZeroDivisionError, np.linalg.LinAlgError):
            continue
        for y, out in zip(loaded.program.outputs, outs, strict=True):
            assert aval_of(out) == (y.aval if hasattr(y, "aval") else aval_of(y))
    assert refused > 400
    assert ran > 5
    assert isinstance(loaded.program, Program)


def test_what_a_function_refuses_is_refused_by_the_stored_one():
    """A check whose result nobody needs is stored: eigenvectors of the identity are not determined."""

    def f(x):
        fg.vjp(lambda x: np.linalg.eigh(x)[1], x)[1](np.array([[1.0, 2.0], [3.0, 5.0]]))
        return x + 1.0

    loaded = fg.load(fg.export(f, np.eye(2)))
    for g in (f, fg.jit(f), loaded, fg.jit(loaded)):
        with pytest.raises(np.linalg.LinAlgError, match="eigenvalues"):
            g(np.eye(2))
    assert np.array_equal(loaded(np.diag([1.0, 2.0])), np.diag([1.0, 2.0]) + 1.0)


def test_guards_of_truth_values_are_refused():
    verify = PRIMITIVES["guard"].stored.verify
    x, bad, w = Aval((4, 2, 3), np.dtype(float)), Aval((2, 3), np.dtype(bool)), Aval((3,), np.dtype(float))
    assert verify(x, bad, w, x)
    for wrong in ((bad, bad, w, x), (x, x, w, x), (x, bad, bad, x), (x, bad, w, bad)):
        assert not verify(*wrong)
