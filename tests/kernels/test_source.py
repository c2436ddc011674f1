import inspect
import linecache
import os
import stat
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from fgrad.errors import CacheWarning
from fgrad.kernels import source, store

TEXT = """
@njit(types.float64(types.float64), cache=True, error_model="numpy", nogil=True)
def kernel(x):
    return x + {}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of a cache that is empty."""
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def private_memory(monkeypatch):
    monkeypatch.setattr(source, "_modules", type(source._modules)())
    monkeypatch.setattr(store, "_unseen", {})
    monkeypatch.setattr(store, "_told", set())


def load(number=1):
    """Load a kernel as a new process would; return it, and whether it was compiled."""
    from numba.core import event

    source._modules.clear()
    with event.install_recorder("numba:compile") as compilations:
        kernel = source.load(TEXT.format(number)).kernel
    assert kernel(1.0) == 1.0 + number
    return kernel, bool(compilations.buffer)


def entry(folder):
    (path,) = folder.glob("k_*.py")
    return path


def everything(folder):
    return [p for p in folder.rglob("*") if p.is_file()]


def test_the_second_load_does_not_compile(folder):
    assert load()[1]
    assert not load()[1]
    assert load(2)[1]
    assert not load(2)[1]
    assert not load()[1]


def test_in_memory_nothing_is_read_again(folder):
    module = source.load(TEXT.format(1))
    entry(folder).unlink()
    assert source.load(TEXT.format(1)) is module


def test_the_entry(folder):
    load()
    path = entry(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    first, *_ = path.read_text().splitlines()
    import numba

    for part in (
        "# fgrad ",
        f"numba {numba.__version__}",
        f"numpy {np.__version__}",
        sys.implementation.cache_tag,
    ):
        assert part in first
    assert len(list((folder / "__pycache__").glob(f"{path.stem}.*.nbi"))) == 1
    assert len(list((folder / "__pycache__").glob(f"{path.stem}.*.nbc"))) == 1
    assert {stat.S_IMODE(p.stat().st_mode) for p in everything(folder)} == {0o600}
    assert stat.S_IMODE((folder / "__pycache__").stat().st_mode) == 0o700
    assert f"_fgrad_k_{store.digest(path.read_text())}" not in sys.modules
    assert not [p for p in everything(folder) if "tmp" in p.name]


def test_another_processor_gets_another_entry(folder, monkeypatch):
    load()
    store.header.cache_clear()
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    monkeypatch.setenv("NUMBA_CPU_FEATURES", "")
    try:
        header = store.header()
        assert "generic" in header
    finally:
        store.header.cache_clear()
    monkeypatch.undo()
    assert header != store.header()


def garbage(path):
    path.write_bytes(b"\x80garbage")


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path):
    data = bytearray(path.read_bytes())
    data[2 * len(data) // 3] ^= 0xFF
    path.write_bytes(data)


def remove(path):
    path.unlink()


@pytest.mark.parametrize("damage", [garbage, truncate, flip, remove])
@pytest.mark.parametrize("what", ["*.py", "*.sum", "__pycache__/*.nbi", "__pycache__/*.nbc"])
def test_a_damaged_entry_is_built_again(folder, damage, what):
    load()
    (path,) = folder.glob(what)
    damage(path)
    compiled = load()[1]
    assert compiled or what == "*.py"  # the text is known: it is written again, the code stays good
    assert not load()[1]


def test_an_entry_damaged_together_with_its_digest(folder):
    load()
    path = entry(folder)
    truncate(*folder.glob("__pycache__/*.nbc"))
    path.with_suffix(".sum").write_text(store.digest(*(p.read_bytes() for p in source._code(path))))
    assert load()[1]
    assert not load()[1]


def test_where_the_code_cannot_be_kept_the_kernel_lives_in_memory(folder, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "write", fail)
    assert load()[1]
    assert load()[1]
    assert not everything(folder)


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has no numeric users")
class TestFolder:
    def test_of_somebody_else(self, folder, monkeypatch):
        folder.mkdir(mode=0o700)
        monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        with pytest.warns(CacheWarning, match="belongs to another user"):
            assert load()[1]
        assert not everything(folder)

    @pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
    def test_that_others_may_write_to(self, folder, mode):
        folder.mkdir()
        folder.chmod(mode)
        with pytest.warns(CacheWarning, match="others may write to"):
            assert load()[1]
        assert not everything(folder)

    @pytest.mark.parametrize("what", ["*.py", "*.sum", "__pycache__/*.nbi", "__pycache__/*.nbc"])
    def test_of_which_others_may_write_to_a_file(self, folder, what):
        load()
        (path,) = folder.glob(what)
        path.chmod(0o666)
        with pytest.warns(CacheWarning, match="others may write to it"):
            compiled = load()[1]
        assert compiled or what == "*.py"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert not load()[1]

    def test_of_which_others_may_write_to_that_of_machine_code(self, folder):
        load()
        (folder / "__pycache__").chmod(0o777)
        assert load()[1]
        (folder / "__pycache__").chmod(0o755)
        assert not load()[1]
        assert stat.S_IMODE((folder / "__pycache__").stat().st_mode) == 0o700

    def test_whose_machine_code_is_elsewhere(self, folder):
        load()
        (folder / "__pycache__").rename(folder / "elsewhere")
        (folder / "__pycache__").symlink_to(folder / "elsewhere")
        assert load()[1]
        assert load()[1]
        store.shrink(folder / "none")
        store.remove([f for e in store.entries(folder).values() for f in e.files])
        assert len(list((folder / "elsewhere").iterdir())) == 2

    def test_under_a_umask_that_lets_everybody_write(self, folder):
        known = os.umask(0)
        try:
            load()
        finally:
            os.umask(known)
        assert {stat.S_IMODE(p.stat().st_mode) for p in everything(folder)} == {0o600}
        assert not load()[1]

    def test_that_others_may_read(self, folder):
        folder.mkdir()
        folder.chmod(0o755)
        assert load()[1]
        assert not load()[1]

    def test_that_cannot_be_written_to(self, folder, monkeypatch):
        folder.mkdir(mode=0o700)
        monkeypatch.setattr(os, "access", lambda *_: False)  # a mode does not stop the superuser
        assert load()[1]
        assert not everything(folder)

    def test_that_cannot_be_made(self, folder):
        folder.parent.joinpath("cache").write_text("a file is in the way")
        assert load()[1]
        assert load()[1]
        assert folder.read_text() == "a file is in the way"


def test_a_user_without_a_home_has_no_cache(folder, monkeypatch):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(store.config, "cache_dir", fail)
    assert load()[1]
    assert not folder.exists()


def test_no_cache_at_all(folder, monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_SIZE", "0")
    assert load()[1]
    assert not folder.exists()


def test_the_entries_used_longest_ago_leave(folder, monkeypatch):
    paths = []
    for number in range(4):
        load(number)
        (path,) = set(folder.glob("k_*.py")) - set(paths)
        paths.append(path)
        os.utime(path.with_suffix(".sum"), (time.time() - 1000 + number,) * 2)
    load(0)  # now the newest
    size = sum(p.stat().st_size for p in everything(folder)) / 4
    monkeypatch.setenv("FGRAD_CACHE_SIZE", str(int(3.5 * size)))
    load(4)
    left = {p for p in paths if p.exists()}
    assert left == {paths[0], paths[3]}
    assert {p.name.partition(".")[0] for p in everything(folder)} == {p.stem for p in folder.glob("k_*.py")}
    assert not load(0)[1]
    assert load(1)[1]


def test_an_entry_larger_than_the_cache_stays_until_the_next(folder, monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_SIZE", "1")
    load(1)
    assert not load(1)[1]
    load(2)
    assert len(list(folder.glob("*.py"))) == 1


def test_files_that_are_not_ours_stay(folder, monkeypatch):
    folder.mkdir(mode=0o700)
    (folder / "letter.txt").write_text("dear")
    monkeypatch.setenv("FGRAD_CACHE_SIZE", "1")
    load(1)
    load(2)
    assert (folder / "letter.txt").read_text() == "dear"


def test_many_threads_compile_once(folder):
    from numba.core import event

    with event.install_recorder("numba:compile") as compilations, ThreadPoolExecutor(8) as pool:
        modules = set(pool.map(source.load, [TEXT.format(7)] * 8))
    assert len(modules) == 1
    assert len(compilations.buffer) == 2  # its start and its end


SCRIPT = """
import sys
from fgrad.kernels import source
from numba.core import event
with event.install_recorder("numba:compile") as compilations:
    total = source.compiled({text!r})(1.0)
assert total == 2.0, total
print(len(compilations.buffer) // 2)
"""


def start(folder):
    env = {**os.environ, "FGRAD_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", SCRIPT.format(text=TEXT.format(1))]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)


def compilations_of(process):
    out, _ = process.communicate()
    assert process.returncode == 0
    return int(out)


def test_many_processes_at_once(folder):
    processes = [start(folder) for _ in range(4)]
    assert max(map(compilations_of, processes)) > 0
    compilations_of(start(folder))  # entries written in turns by several processes may need one more building
    assert compilations_of(start(folder)) == 0
    assert not [p for p in everything(folder) if "tmp" in p.name]


def test_tracebacks_and_debuggers_show_the_text(folder):
    module = source.execute("def f(x):\n    return 1 / x\n", note=3)
    assert module.note == 3
    with pytest.raises(ZeroDivisionError) as caught:
        module.f(0)
    assert "return 1 / x" in "".join(traceback.format_exception(caught.value))
    linecache.checkcache()
    assert inspect.getsource(module.f) == "def f(x):\n    return 1 / x\n"
    kernel, _ = load()
    assert inspect.getsource(kernel.py_func).endswith("    return x + 1\n")


def test_texts_are_shown_of_the_youngest_modules(monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", "10")
    files = [source.execute(f"number = {k}").__file__ for k in range(1000, 1030)]
    assert [file in linecache.cache for file in files] == [False] * 20 + [True] * 10
    again = source.execute("number = 1029").__file__
    assert again == files[-1]
    assert [file in linecache.cache for file in files] == [False] * 20 + [True] * 10


def test_compiled_gives_the_entry_point(folder):
    run = source.compiled(TEXT.format(1))
    assert run is not source.load(TEXT.format(1)).kernel
    assert run(2.0) == 3.0


def test_compiled_without_an_entry_point_gives_the_dispatcher(folder, monkeypatch):
    module = source.load(TEXT.format(1))

    monkeypatch.setattr(module, "kernel", SimpleNamespace(overloads={(): object()}))
    assert source.compiled(TEXT.format(1)) is module.kernel


def test_a_true_error_is_raised(folder):
    with pytest.raises(NameError, match="missing"):
        source.load("missing\n")
    assert not list(folder.glob("*.sum"))
