import ctypes
import gc
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.helpers import optimised, unchecked
from tests.kernels import by_numba

import fgrad as fg
from fgrad.errors import CacheWarning
from fgrad.kernels import checks, compilation, intrinsics, native, store, vm
from fgrad.kernels.scalars import UntranslatableError

TEXT = """
@helper
def twice(x):
    return x + x


def kernel(slots, args, lo, hi):
    x, out = float64_at(slots, args, 0), float64_at(slots, args, 1)
    for i in range(lo, hi):
        out[i] = twice(math.exp(x[i])) * args[2] + {}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of a cache that is empty."""
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def private_memory(monkeypatch):
    monkeypatch.setattr(native, "_kernels", {})


def call(kernel, buffers, args, hi, lo=0):
    slots = checks.addresses(buffers)
    if native.interpreted():
        slots = intrinsics.Slots(buffers)
    vm.call(kernel, np.array(args, np.int64), slots, lo, hi)


def check(kernel, number=1):
    x, out = np.linspace(-1, 1, 37), np.zeros(37)
    call(kernel, [x, out], [0, 1, 3], 37)
    np.testing.assert_allclose(out, 6 * np.exp(x) + number, rtol=1e-14)


def load(number=1):
    """Load a kernel as a new process would; return how many were compiled, and how many loaded."""
    native._kernels.clear()
    before = native.statistics()
    check(native.compiled(TEXT.format(number)), number)
    after = native.statistics()
    return after.compiled - before.compiled, after.loaded - before.loaded


COMPILED, LOADED = (1, 0), (0, 1)
compiled_only = pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")


def everything(folder):
    return [p for p in folder.rglob("*") if p.is_file()]


def test_interpreted_kernels_are_the_same(folder, monkeypatch):
    monkeypatch.setattr(native, "interpreted", lambda: True)
    kernel = native.compiled(TEXT.format(1))
    check(kernel)
    assert native.compiled(TEXT.format(1)) is kernel
    assert not folder.exists()
    out = np.zeros(3)
    kernel.function([np.zeros(3), out], [0, 1, 1], 0, 3)  # a plain list of arrays will do
    assert out.tolist() == [3, 3, 3]


def values(dtype):
    if dtype == "bool":
        return np.array([True, False, True])
    return np.array([1, 2, 100]).astype(dtype) * (1 + 2j if dtype.startswith("complex") else 1)


@pytest.mark.parametrize("way", ["compiled", "interpreted"])
@pytest.mark.parametrize("dtype", sorted(intrinsics.DTYPES))
def test_pointers_of_every_dtype(dtype, way, monkeypatch):
    if way == "interpreted":
        monkeypatch.setattr(native, "interpreted", lambda: True)
    kernel = native.compiled(
        f"""
def kernel(slots, args, lo, hi):
    x, out = alone({dtype}_at(slots, args, 0)), alone({dtype}_at(slots, args, 1))
    for i in range(lo, hi):
        out[i] = x[np.uintp(2) - i]
"""
    )
    x = values(dtype).astype(dtype)
    out = np.zeros(3, dtype)
    call(kernel, [np.zeros(1), x, out], [1, 2], 3)
    assert out.tobytes() == x[::-1].tobytes()
    call(kernel, [x, out], [1, 0], hi=3, lo=2)
    assert x[2] == out[0]
    assert x[1] == values(dtype)[1]


@compiled_only
class TestCache:
    def test_in_memory(self, folder):
        kernel = native.compiled(TEXT.format(1))
        (path,) = folder.iterdir()
        path.unlink()
        assert native.compiled(TEXT.format(1)) is kernel

    def test_on_disk(self, folder):
        assert load() == COMPILED
        assert load() == LOADED
        assert load(2) == COMPILED
        assert load() == LOADED

    def test_the_entry(self, folder):
        load()
        (path,) = folder.iterdir()
        assert path.name.startswith("k_")
        assert path.suffix == ".o"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        total, names, machine_code = path.read_bytes().split(b"\n", 2)
        assert total.decode() == store.digest(path.stem, names + b"\n" + machine_code)
        assert names.startswith(b"fgrad_")
        assert machine_code.startswith(b"\x7fELF") == (sys.platform == "linux")

    def test_several(self, folder):
        keys = [(TEXT.format(n), "kernel") for n in (1, 2, 1)]
        first, second, third = native.compiled_all(keys)
        assert first is third
        check(first, 1)
        check(second, 2)

    def test_external_symbols_are_named_and_known(self, folder):
        lines = "def kernel(slots, args, lo, hi):", "x = float64_at(slots, args, 0)", "x[0] = math.erf(x[0])"
        text = "\n    ".join(lines)
        native.compiled(text)
        (path,) = folder.iterdir()
        symbols = {name.decode() for name in path.read_bytes().split(b"\n", 2)[1].split(b" ")[1:]}
        assert symbols - {checks.SYMBOL} == {"erf"}
        native._kernels.clear()
        x = np.array([0.5])
        before = native.statistics().loaded
        call(native.compiled(text), [x], [0], 1)
        assert native.statistics().loaded == before + 1
        np.testing.assert_allclose(x, 0.5204998778130465)

    def test_an_entry_that_needs_an_unknown_symbol_is_built_again(self, folder):
        load()
        (path,) = folder.iterdir()
        code = native._unpacked(path.read_bytes(), path.stem)
        path.write_bytes(native._packed(code._replace(externals=("no_library_has_this",)), path.stem))
        assert load() == COMPILED
        assert load() == LOADED

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: b"\x80garbage",
            lambda data: data[: len(data) // 2],
            lambda data: data[:600] + bytes([data[600] ^ 0xFF]) + data[601:],
            lambda data: data.replace(b"fgrad_", b"other_", 1),
        ],
    )
    def test_a_damaged_entry_is_built_again(self, folder, damage):
        load()
        (path,) = folder.iterdir()
        path.write_bytes(damage(path.read_bytes()))
        assert load() == COMPILED
        assert load() == LOADED

    def test_the_entry_of_another_kernel(self, folder):
        load(1)
        (one,) = folder.iterdir()
        load(2)
        (other,) = set(folder.iterdir()) - {one}
        one.write_bytes(other.read_bytes())
        assert load(1) == COMPILED
        assert load(1) == LOADED

    def test_a_killed_writer_leaves_nothing_that_is_read(self, folder):
        load()
        (path,) = folder.iterdir()
        part = path.with_name(f"{path.name}.0123.tmp")
        part.write_bytes(path.read_bytes()[:100])
        path.unlink()
        assert load() == COMPILED
        assert load() == LOADED

    def test_that_cannot_be_written_to(self, folder, monkeypatch):
        def fail(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(store, "write", fail)
        assert load() == COMPILED
        assert load() == COMPILED
        assert not everything(folder)

    def test_that_others_may_write_to(self, folder):
        folder.mkdir()
        folder.chmod(0o777)
        with pytest.warns(CacheWarning, match=r"others may write to .* \(its mode is 777\).*FGRAD_CACHE_DIR"):
            assert load() == COMPILED
        assert load() == COMPILED
        assert not everything(folder)

    def test_missing(self, folder):
        folder.parent.joinpath("cache").write_text("a file is in the way")
        assert load() == COMPILED
        assert folder.read_text() == "a file is in the way"

    def test_its_size(self, folder, monkeypatch):
        for number in range(3):
            load(number)
        size = sum(p.stat().st_size for p in everything(folder)) // 3
        monkeypatch.setenv("FGRAD_CACHE_SIZE", str(int(2.5 * size)))
        for path in everything(folder):
            os.utime(path, (1e9, 1e9))
        assert load(1) == LOADED  # now the newest
        load(3)
        assert len(everything(folder)) == 2
        assert load(1) == LOADED

    def test_what_the_hash_covers(self, folder, monkeypatch):
        load()
        for module, name, value in ((fg, "__version__", "99"), (store, "processor", lambda: ("generic", ""))):
            with monkeypatch.context() as patch:
                patch.setattr(module, name, value)
                store.header.cache_clear()
                compilation._target.cache_clear()
                assert load() == COMPILED
            store.header.cache_clear()
            compilation._target.cache_clear()
        assert load() == LOADED
        assert len(everything(folder)) == 3


@compiled_only
class TestTexts:
    """What kernels say and what becomes of it."""

    def test_what_kernels_cannot_say_is_refused_with_the_text(self, folder):
        text = "def kernel(slots, args, lo, hi):\n    float64_at(slots, args, 0)[0] **= 3.0\n"
        with pytest.raises(UntranslatableError, match="Pow") as raised:
            native.compiled(text)
        assert "bug in fgrad" in str(raised.value)
        assert text in str(raised.value)
        assert not everything(folder)

    def test_functions_that_the_platform_lacks_are_named(self, folder, monkeypatch):
        text = """
def kernel(slots, args, lo, hi):
    x = float64_at(slots, args, 0)
    x[0] = math.hypot(x[0], 2.0)
"""
        known = compilation._is_known
        monkeypatch.setattr(compilation, "_is_known", lambda name: name != "hypot" and known(name))
        with pytest.raises(RuntimeError, match="lacks hypot"):
            native.compiled(text)

    def test_code_that_is_not_linked(self, folder, monkeypatch):
        monkeypatch.setattr(compilation, "link", lambda code: (0, None))
        with pytest.raises(RuntimeError, match="does not link"):
            native.compiled(TEXT.format(3))

    def test_both_ways_give_the_same(self, folder):
        text = """
def kernel(slots, args, lo, hi):
    x, y, out = float32_at(slots, args, 0), int32_at(slots, args, 1), float64_at(slots, args, 2)
    for i in range(lo, hi):
        k = 0
        total = 0.0
        while k < args[3]:
            total += x[i] * k if y[i] > 3 else -x[i] * x[i]
            k += 1
            if total > 50:
                break
        out[i] = total / (max(k, y[i]) % 4) - (1 if y[i] & 1 else 0.5)
"""
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal(50).astype(np.float32), rng.integers(-9, 9, 50).astype(np.int32)
        outs = [np.zeros(50), np.zeros(50)]
        call(native.compiled(text), [x, y, outs[0]], [0, 1, 2, 9], 50)
        call(by_numba.compiled(text), [x, y, outs[1]], [0, 1, 2, 9], 50)
        np.testing.assert_array_equal(*outs)
        assert np.isinf(outs[0]).any()

    def test_an_error_in_the_text_is_raised(self, folder):
        with pytest.raises(UntranslatableError, match="missing"):
            native.compiled("def kernel(slots, args, lo, hi):\n    missing()\n")

    def test_code_lives_as_long_as_its_kernel(self, folder):
        kernel = native.compiled(TEXT.format(5))
        native._kernels.clear()
        for number in range(20):
            native.compiled(TEXT.format(number % 2))
            native._kernels.clear()
        check(kernel, 5)

    @unchecked("kernels are no vector code")
    def test_many_pointers_are_vector_code_if_alone(self, folder):
        registers = {}
        for word in ("", "alone"):
            loads = "\n".join(f"    x{k} = {word}(float64_at(slots, args, {k}))" for k in range(28))
            total = " + ".join(f"x{k}[i] * x{k}[i]" for k in range(20))
            stores = "\n".join(f"        x{k}[i] = t * x{k - 20}[i]" for k in range(20, 28))
            text = (
                f"def kernel(slots, args, lo, hi):\n{loads}\n    for i in range(lo, hi):\n"
                f"        t = {total}\n{stores}\n"
            )
            buffers = [np.full(9, float(k)) for k in range(28)]
            call(native.compiled(text), buffers, range(28), 9)
            square = sum(k * k for k in range(20))
            assert all((buffers[k] == square * (k - 20)).all() for k in range(20, 28))
            registers[word] = vectors_of(text)
        assert registers[""] == 0
        assert registers["alone"] > 0


def vectors_of(text):
    """Return how many vectors of numbers there are in what LLVM made of the kernel."""
    written = compilation.assembly(text, "kernel", "kernel")
    return optimised(written).count(" x double>")


@compiled_only
def test_many_threads_compile_once(folder):
    before = native.statistics().compiled
    with ThreadPoolExecutor(8) as pool:
        kernels = set(pool.map(native.compiled, [TEXT.format(7)] * 8))
    assert len(kernels) == 1
    assert native.statistics().compiled == before + 1


SCRIPT = """
import sys
from fgrad.kernels import blas, entry, vm, native
import numpy as np
program = vm.Assembler()
program.call(native.compiled({text!r}), [0, 1, 3], 0, 5)
args = [entry.Spec(k, np.dtype(float), (5,)) for k in range(2)]
context = entry.Context(args, program, [None, None])
x, out = np.arange(5.0), np.zeros(5)
assert context.entry(x, out) is None
assert np.allclose(out, 6 * np.exp(x) + 1)
blas.gemm("float64")
print(native.statistics().compiled, "numba" in sys.modules, "llvmlite" in sys.modules)
"""


KERNEL_SCRIPT = """
from fgrad.kernels import native
native.compiled({text!r})
print(sum(native.statistics()))
"""


def start(folder, script=SCRIPT, **more):
    env = {**os.environ, "FGRAD_CACHE_DIR": str(folder), "PYTHONWARNINGS": "error", **more}
    script = script.format(text=TEXT.format(1))
    return subprocess.Popen([sys.executable, "-c", script], env=env, stdout=subprocess.PIPE, text=True)


def result_of(process):
    out, _ = process.communicate()
    assert process.returncode == 0
    return out.split()


@compiled_only
def test_many_processes_at_once_and_one_more(folder):
    processes = [start(folder, KERNEL_SCRIPT) for _ in range(8)]
    assert [result_of(process) for process in processes] == [["1"]] * 8
    assert load() == LOADED
    result_of(start(folder))
    assert result_of(start(folder)) == ["0", "False", "True"]  # nothing is compiled, and Numba not imported
    assert not [p for p in everything(folder) if "tmp" in p.name]


INTERPRETED = """
import sys
from fgrad.kernels import intrinsics, native, vm
import numpy as np
x, out = np.arange(5.0), np.zeros(5)
vm.call(native.compiled({text!r}), np.array([0, 1, 3]), intrinsics.Slots([x, out]), 0, 5)
assert np.allclose(out, 6 * np.exp(x) + 1)
print(native.statistics().compiled, "numba" in sys.modules, "llvmlite" in sys.modules)
"""


def test_a_process_that_interprets(folder):
    assert result_of(start(folder, INTERPRETED, NUMBA_DISABLE_JIT="1")) == ["0", "False", "False"]
    assert not folder.exists()


@compiled_only
def test_addresses_are_those_of_c_functions(folder):
    kernel = native.compiled(TEXT.format(1))
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_size_t] * 2)(kernel.address)
    x, out = np.zeros(2), np.zeros(2)
    slots, args = checks.addresses([x, out]), np.array([0, 1, 1])
    function(slots.ctypes.data, args.ctypes.data, 1, 2)
    assert out.tolist() == [0, 3]


def test_the_collector_runs_again_after_an_interrupted_compilation(monkeypatch):
    def interrupted(*_):
        assert not gc.isenabled()
        raise KeyboardInterrupt

    monkeypatch.setattr(compilation, "assembly", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compilation.compiled("", "kernel")
    assert gc.isenabled()
    monkeypatch.setattr(type(compilation.calling_llvm), "leave", interrupted)  # where nothing was done yet
    monkeypatch.setattr(compilation, "assembly", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        compilation.compiled("", "kernel")
    assert gc.isenabled()


def test_what_is_deferred_is_compiled_when_it_is_needed_be_it_among_others(monkeypatch, tmp_path):
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(tmp_path))
    alone, among, known = (native.deferred(TEXT.format(n)) for n in (31, 32, 33))
    before = native.statistics().compiled
    assert alone.contract is None
    assert alone.key == (TEXT.format(31), "kernel")
    assert native.statistics().compiled == before
    check(alone, 31)
    assert native.statistics().compiled == before + 1
    (made, _) = native.compiled_all([among.key, known.key])
    assert native.statistics().compiled == before + 3
    assert among.address == made.address
    assert native.deferred(TEXT.format(32)) is made
    check(known, 33)
    assert native.statistics().compiled == before + 3
    with pytest.raises(AttributeError, match="other"):
        known.other


PROGRAM = """
import numpy as np
import fgrad as fg
from fgrad.kernels import native

def f(a):
    step = lambda c, x: (np.linalg.solve(c + x, c), x)
    sorts = np.sort(np.tile(a.ravel(), 100)).sum()
    images = fg.nn.max_pool(fg.nn.conv(np.tile(a, (4, 30, 30))[:4, None], np.ones((5, 1, 3, 3))), 2).sum()
    return sorts + images + np.linalg.det(np.sin(a)).sum() + fg.lax.scan(step, np.eye(3), a)[0].sum()

given, all_of = [], native.compiled_all
native.compiled_all = lambda keys, *rest: (given.extend(keys), all_of(given, *rest))[1]
lowered = fg.jit(f).lower(np.ones((5, 3, 3)) + np.eye(3))
assert not native.statistics().compiled
lowered.compile()
assert sum("CONTRACT" in text for text, _ in given) >= 7, given  # fixed ones say what they ask for
assert sum(signature == "function" for _, signature in given) == 3, given  # a sort, a convolution, pooling
assert native.statistics().compiled == len(set(given))
"""


@pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")
def test_what_a_program_calls_is_compiled_with_its_kernels(tmp_path):
    subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, "FGRAD_CACHE_DIR": str(tmp_path)}, check=True
    )
