"""What kernels ask of their arguments: every kernel says so, and nothing that breaks it is run."""

import ast
import importlib
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import fgrad as fg
import fgrad.compiler
import fgrad.kernels
from fgrad import nn
from fgrad.compat.numpy import matrix_loop
from fgrad.compiler import concatenation, emit
from fgrad.compiler.device.statements import GridWriter
from fgrad.compiler.index import Index
from fgrad.compiler.library import FAULTS, launch
from fgrad.compiler.loop_nests import Loop, Place
from fgrad.compiler.plan import Plan
from fgrad.core.aval import Aval
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Equation, Program, Var
from fgrad.errors import BrokenContractError
from fgrad.kernels import blas, contracts, gather_scatter, native, scans, windows
from fgrad.kernels.contracts import Contract
from fgrad.ops import pooling
from fgrad.ops.indices import HOLE

RNG = np.random.default_rng(5)
OWN = {
    "vm",
    "entry",
    "embedding",
    "pool",
    "loops",
}  # whose arguments are words of fgrad's own, or are handed on


def texts():
    """Yield each string of the package that has the head of a kernel, with its module."""
    for package in (fgrad.kernels, fgrad.compiler):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if info.name.rpartition(".")[2] in OWN or info.ispkg:
                continue
            tree = ast.parse(Path(importlib.util.find_spec(info.name).origin).read_text())
            documentation = {id(n.body[0].value) for n in ast.walk(tree) if isinstance(n, ast.Module)}
            for node in ast.walk(tree):
                whole = isinstance(node, ast.Constant) and isinstance(node.value, str)
                if whole and "def kernel(" in node.value and id(node) not in documentation:
                    yield info.name, node.value


def test_every_kernel_states_its_contract():
    found = dict.fromkeys(name.removeprefix("fgrad.") for name, _ in texts())
    assert found.keys() >= {
        "kernels.convolution",
        "kernels.extremes",
        "kernels.gather_scatter",
        "kernels.scans",
        "kernels.sorting",
        "kernels.sums",
        "kernels.blas",
        "kernels.recurrences",
        "kernels.linear_systems",
        "compiler.scans",
        "compiler.concatenation",
    }
    # where several kernels share their head, it says it: `_HEAD`, or `_TEXT`
    for name, text in texts():
        module = importlib.import_module(name)
        shared = (str(getattr(module, head, "")) for head in ("_HEAD", "_TEXT"))
        # the loops of programs are held to their buffers as they are written, by `writer.hold`
        assert "CONTRACT = " in "".join([text, *shared]) or module is emit, (name, text)


def test_sizes_get_names_and_have_to_be_equal_where_they_have_one():
    contract = Contract("x[n, 2 * k], y[n], k > 0, hi <= n", ("x", "y", "k"))
    contract.hold((np.zeros((3, 4)), np.zeros(3), 2), 3, len)
    for args, steps in [
        ((np.zeros((3, 4)), np.zeros(3), 1), 3),
        ((np.zeros((3, 4)), np.zeros(4), 2), 3),
        ((np.zeros((3, 0)), np.zeros(3), 0), 3),
        ((np.zeros((3, 4)), np.zeros(3), 2), 4),
        ((np.zeros(3), np.zeros(3), 2), 3),
    ]:
        with pytest.raises(BrokenContractError, match="outside of its arguments"):
            contract.hold(args, steps, len)


def test_what_is_wrong_is_said():
    text = 'CONTRACT = "x[n], y[n], hi <= n"\n\n\ndef kernel(x, y, lo, hi):\n    pass\n'
    with pytest.raises(BrokenContractError) as caught:
        contracts.of(text).hold((np.zeros(3), np.zeros(4)), 3, len)
    assert str(caught.value) == (
        "kernel(x, y) would read or write outside of its arguments: it asks for y[n], but y has shape (4,), "
        "n = 3. The operands and parameters of the operation do not match"
    )


def test_a_call_is_looked_at_once_for_each_shape(monkeypatch):
    asked = []
    hold = Contract.hold
    monkeypatch.setattr(Contract, "hold", lambda self, *args: asked.append(0) or hold(self, *args))
    x = RNG.standard_normal((16, 40))
    scans.kernel("sums", 2, "d").kernel.contract._good.clear()
    for _ in range(3):
        scans.scanned("sums", 1, x)
    assert len(asked) == 1
    scans.scanned("sums", 1, x[:8])
    assert len(asked) == 2


def test_contracts_remember_few_shapes(monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", "6")
    contract = Contract("x[n]", ("x",))
    for n in range(10):
        contract.ask((n,), (np.zeros(n),), 0)
        assert len(contract._good) <= 6


# ---- windows that see nothing --------------------------------------------------------------------


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_means_of_windows_in_the_border_alone_are_zero(axes, dtype):
    """The sum of no elements is zero, as for JAX; PyTorch refuses such padding."""
    small, large = np.ones((1, 1, 6, 7), dtype), np.ones((1, 1, 256, 200), dtype)
    small, large = (x if axes == 2 else x.reshape(1, 1, -1) for x in (small, large))
    for x in (small, large):
        wide = np.pad(x, [(0, 0), (0, 0), *[(3, 3)] * axes])
        for f in (nn.avg_pool, fg.jit(nn.avg_pool, static_argnames=("window", "padding"))):
            got = f(x, window=2, padding=3)
            parts = wide[..., : wide.shape[-1] // 2 * 2].reshape(*wide.shape[:-1], -1, 2).sum(-1)
            if axes == 2:
                rows = parts[:, :, : parts.shape[2] // 2 * 2]
                parts = rows.reshape(*rows.shape[:2], -1, 2, rows.shape[3]).sum(3)
            np.testing.assert_array_equal(got, parts / 2**axes)
            assert got.dtype == dtype
        g = fg.grad(lambda x: np.sum(nn.avg_pool(x, 2, padding=3)))(x)
        odd = [n % 2 for n in x.shape[2:]]  # the last element of an odd axis has a window, too: it is padded
        assert odd in ([0] * axes, [0, 1])
        np.testing.assert_array_equal(g, np.full_like(x, 1 / 2**axes))
    with np.errstate(invalid="ignore"):
        where = nn.avg_pool(large, 2, padding=4, count_include_pad=False)
    assert np.isnan(where[0, 0].reshape(-1)[0])  # as numpy.mean of nothing
    assert np.nanmax(where) == np.nanmin(where) == 1


SIDES = [(0, 0), (3, 3), (7, 1), (0, 6), (-1, 0), (0, -2), (-2, 3), (4, -3), (-3, -3), (9, -8), (-9, 9)]


def padded_by_hand(x, sides, fill):
    """Return a row with more elements at its ends, or fewer."""
    for side, n in zip((0, -1), sides, strict=True):
        extra = np.full((len(x), max(n, 0)), fill)
        x = np.concatenate([extra, x] if side == 0 else [x, extra], axis=1)
    start, stop = max(0, -sides[0]), x.shape[1] - max(0, -sides[1])
    return x[:, start : max(start, stop)]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("window", "stride"), [(2, 2), (3, 1), (20, 3)])
def test_pools_take_any_padding(monkeypatch, compiled, window, stride):
    monkeypatch.setattr(pooling, "LARGE", 1 if compiled else 10**9)
    for sides in SIDES:
        for n in (5, 7, 30):
            x = RNG.integers(1, 5, (3, n)) * 1.0
            options = {"window": (window,), "stride": (stride,), "padding": (sides,)}
            for name, f, fill in (("window_sum", np.sum, 0), ("max_pool", np.max, -np.inf)):
                wide = padded_by_hand(x, sides, fill)
                count = max(0, (wide.shape[1] - window) // stride + 1)
                parts = [wide[:, i * stride : i * stride + window] for i in range(count)]
                expected = np.stack([f(p, axis=1) for p in parts], 1) if parts else np.zeros((3, 0))
                row = PRIMITIVES[name]
                got = row.run(x, **options)
                np.testing.assert_array_equal(got, expected)
                if not count:
                    continue
                ct = RNG.integers(1, 5, got.shape) * 1.0
                with np.errstate(all="raise"):
                    (back,) = row.vjp((True,)).raw(ct, *saved(row, got, x, options))
                np.testing.assert_allclose(back, shared(name, x, ct, expected, options), rtol=1e-12)


def saved(row, out, x, options):
    vjp = row.vjp((True,))
    return *((out, x)[k] for k in vjp.keep), *(Aval(x.shape, x.dtype) for _ in vjp.avals), options


def shared(name, x, ct, out, options):
    """Return the cotangent of a row of pools, window by window."""
    back = np.zeros_like(x)
    (window,), (stride,), ((low, _),) = options.values()
    for r, i in np.ndindex(ct.shape):
        at = [p for p in range(i * stride - low, i * stride - low + window) if 0 <= p < x.shape[1]]
        high = len(at) + 10**9 if options["padding"][0][1] >= 0 else x.shape[1] + options["padding"][0][1]
        at = [p for p in at if p >= max(0, -low) and p < high]
        if name == "max_pool":
            at = [p for p in at if x[r, p] == out[r, i]]
        for p in at:
            back[r, p] += ct[r, i] / (len(at) if name == "max_pool" else 1)
    return back


# ---- operands that do not belong together --------------------------------------------------------


def test_operands_that_do_not_fill_their_place_are_refused():
    """A kernel that took them for more would read what is behind."""
    flat, rows = np.zeros(2, np.int64), np.arange(40_000)
    ct = RNG.standard_normal((1, 50_000))
    out = PRIMITIVES["scatter_add"].run(ct, flat, template=(HOLE,), shape=(4, 50_000))  # NumPy broadcasts
    np.testing.assert_array_equal(out[0], 2 * ct[0])
    assert not out[1:].any()
    for name, given, params in [
        ("scatter_add", (ct, flat), {"template": (HOLE,), "shape": (4, 50_000)}),
        ("scatter_add", (np.ones(1), rows), {"template": (HOLE,), "shape": (50_000,)}),
        ("slice_backward", (np.ones(1),), {"shape": (200_000,), "index": (slice(0, 171_000),)}),
        ("slice_backward", (np.ones((1, 3)),), {"shape": (5,), "index": (slice(0, 3),)}),
    ]:
        avals = [Aval(x.shape, x.dtype) for x in given]
        with pytest.raises(ValueError, match="do not fill a place of shape"):
            PRIMITIVES[name].shape(*avals, **params)


def test_places_of_an_empty_array_do_not_exist():
    nothing, where = np.zeros((0, 4)), np.zeros((1, 3), np.int64)
    assert gather_scatter.read(nothing, np.zeros(1, np.int64), where) is None
    assert gather_scatter.read(nothing, np.zeros(1, np.int64), where[:, :0]).shape == (1, 0)


def test_kernels_refuse_what_they_would_reach_behind():
    x = np.ones((2, 6, 8))
    with pytest.raises(BrokenContractError, match="out has shape"):
        windows.max_pool_back(np.ones((2, 3, 4)), np.ones((2, 3, 5)), x, (2, 2), (2, 2), ((0, 0),) * 2)
    with pytest.raises(BrokenContractError, match=r"min\(kh, kw, sh, sw\) > 0"):
        windows.pooled("sum", x, (2, 2), (2, 0), ((0, 0),) * 2, (2, 3, 4))
    with pytest.raises(BrokenContractError, match="2 \\*\\* 31"):
        windows.pooled("sum", x, (2, 2), (2, 2), ((2**62, 0),) * 2, (2, 3, 4))
    with pytest.raises(BrokenContractError, match="ct"):
        gather_scatter.add_rows(np.zeros((4, 5)), np.ones((1, 5)), np.zeros(3, np.int64))


def test_loops_of_compiled_programs_reach_no_further_than_their_buffers():
    x = Var(Aval((6, 5), np.dtype(float)), "x")
    for at, fine in [
        (Index(0, ((0, 5), (1, 1))), True),
        (Index(29, ((0, -5), (1, -1))), True),
        (Index(1, ((0, 5), (1, 1))), False),
        (Index(0, ((0, 6),)), False),
        (Index(24, ((0, -5),)), False),
    ]:
        inner, outer, base = Loop(1, 5), Loop(0, 6), Loop(-1, 1)
        inner.body.append(("t0 = ", Place(x, at)))
        outer.body.append(inner)
        base.body.append(outer)
        if fine:
            emit._hold(base, {})
            continue
        with pytest.raises(BrokenContractError, match="of the 30 of x"):
            emit._hold(base, {})
        inner.body = [("t0 = (", Place(x, at), ") if ", "t1 > 0", " else C0")]
        emit._hold(base, {})  # where a condition says whether it is read
        outer.size = 0
        inner.body = [("t0 = ", Place(x, at))]
        emit._hold(base, {})


def test_lines_for_a_device_are_held_to_their_buffers_too():
    x = Var(Aval((5, 6), np.dtype(float)), "x")
    for at, fine in [(Index(0, ((0, 6), (1, 1))), True), (Index(1, ((0, 6), (1, 1))), False)]:
        for merge in (False, True):
            writer = GridWriter((5, 6), 4, {}, {}, {}, {}, {})
            items = [("t0 = ", Place(x, at))]
            show = (lambda: writer.flattened("i", [0, 1], items)) if merge else (lambda: writer.text(items))
            if fine:
                assert "b0[" in "".join(show())
                continue
            with pytest.raises(BrokenContractError, match="from element 1 to 30 of the 30 of x"):
                show()


@pytest.mark.parametrize("broken", [False, True])
def test_calls_of_kernels_by_programs_reach_no_further_than_their_slots(broken):
    """The avals say how much there is in a slot; here those of results or operands are too small."""

    def var(*shape):
        return Var(Aval(shape, np.dtype(float)), "v")

    many = [var(20, 3) for _ in range(9)]
    cases = [
        Equation("cumsum", (var(30, 7),), {"axis": 0}, (var(29 if broken else 30, 7),), ""),
        Equation("cumprod", (var(30, 7),), {"axis": 1}, (var(30, 6 if broken else 7),), ""),
        Equation("concatenate", tuple(many), {"axis": 1}, (var(20, 27),), ""),
        Equation("cholesky", (var(20, 20),), {}, (var(19 if broken else 20, 20),), ""),
    ]
    if blas.gemm("float64") is not None:
        letters = {"a": "ij", "b": "jk", "out": "ik"}
        cases += [
            Equation("contract", (var(40, 30), var(30, 20)), letters, (var(39 if broken else 40, 20),), ""),
            Equation("contract", (var(40, 30), var(30, 1)), letters, (var(39 if broken else 40, 1),), ""),
            Equation(
                "lapack.getrs",
                (var(40, 40), var(40), var(3, 40)),
                {"turned": False},
                (var(3, 41 if broken else 40),),
                "",
            ),
        ]
    if matrix_loop("cholesky_lo", "d") is not None and not native.interpreted():
        loop = {"of": "cholesky_lo", "kinds": "d", "letters": "dd", "cores": ((4, 4), (4, 4)), "count": 1}
        checks = {"finite": (0,), "checked": 1, "overwrites": False}
        cases.append(Equation("lapack.loop", (var(4, 4),), loop | checks, (var(3 if broken else 4, 4),), ""))
    for e in cases:
        slots = {v: k for k, v in enumerate((*e.args, *e.outs, FAULTS))}
        if not broken:
            assert launch(e, slots) is not None, e.name
        elif e.name != "concatenate":  # whose result says where its operands are
            with pytest.raises(BrokenContractError):
                launch(e, slots)


def test_contracts_of_walks_and_joins_hold_for_all_that_is_launched():
    """With slots of which each kernel needs the last element; one less is refused."""
    for e in (
        Equation("argmax", (Var(Aval((4, 9), np.dtype(float)), "x"),), {"axis": 0},
                 (Var(Aval((9,), np.dtype(np.int64)), "y"),), ""),
        Equation("concatenate", tuple(Var(Aval((20, n), np.dtype("c16")), "x") for n in range(1, 7)),
                 {"axis": 1}, (Var(Aval((20, 21), np.dtype("c16")), "y"),), ""),
    ):  # fmt: skip
        slots = {v: k for k, v in enumerate((*e.args, *e.outs))}
        made = launch(e, slots)
        sizes = {k: (v.aval.size, v.aval.size * v.aval.dtype.itemsize) for v, k in slots.items()}
        made.kernel.contract.launched(made.numbers, made.turns, sizes)
        for k, (n, b) in sizes.items():
            short = sizes | {k: (n - 1, b - b // n)}
            with pytest.raises(BrokenContractError):
                made.kernel.contract.launched(made.numbers, made.turns, short)
    assert concatenation.FEW < 6


def test_a_program_that_is_wrong_is_refused_when_it_is_compiled():
    """What is no program of fgrad's own: a result is declared larger than the operation makes it."""
    x, y, z = (Var(Aval((n,), np.dtype(float)), "v") for n in (10, 30, 30))
    equations = [
        Equation("slice", (x,), {"index": (slice(0, 5),)}, (y,), ""),
        Equation("negative", (y,), {}, (z,), ""),
    ]
    with pytest.raises(BrokenContractError, match="from element 0 to 29 of the 10"):
        Plan(Program([x], equations, [z], (None, None)), "f")
