"""The folder of compiled code: from whom it takes code, how it is written, and how large it gets."""

import itertools
import os
import socket
import stat
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import fgrad as fg
from fgrad import config
from fgrad.kernels import checks, native, store, vm

posix_only = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="there are no numeric users")
NAME = f"k_{'0123456789abcdef' * 2}.o"
OTHER = 54321  # a user


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder of a cache, which is not there yet, in one of the user's own."""
    monkeypatch.setenv("FGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(store, "_told", set())
    monkeypatch.setattr(store, "_unseen", {})
    monkeypatch.setattr(native, "_kernels", {})
    return tmp_path / "cache"


@pytest.fixture
def entry(folder):
    """Return the one entry of the cache, which may be used."""
    path = store.folder() / NAME
    store.keep(path, b"code")
    assert store.read(path) == b"code"
    return path


def owned_by(monkeypatch, path, owner):
    """Let a file have another owner, as only the superuser could make it."""
    where = path.lstat()

    def seen(known):
        def status(*args, **kwargs):
            found = known(*args, **kwargs)
            if (found.st_dev, found.st_ino) != (where.st_dev, where.st_ino):
                return found
            return SimpleNamespace(
                st_mode=found.st_mode, st_uid=owner, st_size=found.st_size, st_mtime=found.st_mtime
            )

        return status

    monkeypatch.setattr(os, "fstat", seen(os.fstat))
    monkeypatch.setattr(type(path), "lstat", seen(type(path).lstat))


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def kernel(number=0):
    text = f"def kernel(slots, args, lo, hi):\n    float64_at(slots, args, 0)[0] = {number}.25\n"
    native._kernels.clear()
    before = native.statistics()
    made = native.compiled(text)
    out = np.zeros(1)
    vm.call(made, np.zeros(1, np.int64), checks.addresses([out]), 0, 1)
    assert out[0] == number + 0.25
    after = native.statistics()
    return after.compiled - before.compiled, after.loaded - before.loaded


COMPILED, LOADED = (1, 0), (0, 1)
compiled_only = pytest.mark.skipif(native.interpreted(), reason="nothing is compiled")


@posix_only
class TestFolders:
    """Which folders are used."""

    def test_it_is_made_for_the_user_alone_whatever_the_umask(self, folder, monkeypatch):
        deep = folder / "some" / "where"
        monkeypatch.setenv("FGRAD_CACHE_DIR", str(deep))
        known = os.umask(0)
        try:
            path = store.folder()
            store.keep(path / NAME, b"code")
        finally:
            os.umask(known)
        assert path == deep
        assert [mode(p) for p in (deep, deep.parent, folder)] == [0o700] * 3
        assert mode(deep / NAME) == 0o600
        assert store.read(deep / NAME) == b"code"

    def test_a_umask_that_takes_everything_away_leaves_files_readable(self, entry):
        known = os.umask(0o777)
        try:
            store.keep(entry, b"other")
        finally:
            os.umask(known)
        assert mode(entry) == 0o600

    @pytest.mark.parametrize("bits", [0o720, 0o702, 0o777, 0o1777, 0o2770])
    def test_others_may_not_write_to_it(self, folder, bits):
        folder.mkdir()
        folder.chmod(bits)
        with pytest.warns(fg.CacheWarning, match=rf"others may write to {folder} \(its mode is {bits:o}\)"):
            assert store.folder() is None
        assert store.folder() is None  # and that was said
        folder.chmod(0o755)
        assert store.folder() == folder

    @pytest.mark.parametrize("bits", [0o720, 0o702, 0o777])
    def test_others_may_not_write_to_the_one_around_it(self, folder, monkeypatch, bits):
        inside = folder / "mine" / "cache"
        inside.mkdir(parents=True, mode=0o700)
        monkeypatch.setenv("FGRAD_CACHE_DIR", str(inside))
        folder.chmod(bits)
        with pytest.warns(fg.CacheWarning, match=rf"others may write to {folder} "):
            assert store.folder() is None
        folder.chmod(bits | stat.S_ISVTX)  # there others cannot move what is not theirs
        assert store.folder() == inside

    def test_it_belongs_to_the_user(self, folder, monkeypatch):
        folder.mkdir(mode=0o700)
        owned_by(monkeypatch, folder, OTHER)
        with pytest.warns(fg.CacheWarning, match=rf"{folder} belongs to another user \(number 54321\)"):
            assert store.folder() is None

    @pytest.mark.parametrize("bits", [0o755, 0o1777])
    def test_the_one_around_it_belongs_to_the_user_or_to_root(self, folder, monkeypatch, bits):
        (folder / "cache").mkdir(parents=True, mode=0o700)
        folder.chmod(bits)
        monkeypatch.setenv("FGRAD_CACHE_DIR", str(folder / "cache"))
        with monkeypatch.context() as patch:
            owned_by(patch, folder, 0)
            assert store.folder() == folder / "cache"
        owned_by(monkeypatch, folder, OTHER)
        with pytest.warns(fg.CacheWarning, match=rf"{folder} belongs to another user"):
            assert store.folder() is None

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="takes the superuser")
    def test_owners_as_the_system_has_them(self, folder):
        folder.mkdir(mode=0o700)
        os.chown(folder, OTHER, -1)
        with pytest.warns(fg.CacheWarning, match="belongs to another user"):
            assert store.folder() is None
        os.chown(folder, 0, -1)
        store.keep(store.folder() / NAME, b"code")
        os.chown(folder / NAME, OTHER, -1)
        store._told.clear()
        with pytest.warns(fg.CacheWarning, match="belongs to another user"):
            assert store.read(folder / NAME) == b""

    def test_links_on_the_way_are_resolved_before_folders_are_looked_at(self, folder, tmp_path, monkeypatch):
        open_to_all = tmp_path / "open"
        (open_to_all / "cache").mkdir(parents=True, mode=0o700)
        folder.symlink_to(open_to_all / "cache")
        assert store.folder() == open_to_all / "cache"
        open_to_all.chmod(0o777)
        with pytest.warns(fg.CacheWarning, match=f"others may write to {open_to_all} "):
            assert store.folder() is None

    def test_a_file_or_nothing_that_can_be_made(self, folder, monkeypatch):
        folder.write_text("a file")
        assert store.folder() is None
        monkeypatch.setenv("FGRAD_CACHE_DIR", str(folder / "in it"))
        assert store.folder() is None
        assert folder.read_text() == "a file"

    def test_that_cannot_be_written_to(self, folder, monkeypatch):
        folder.mkdir(mode=0o700)
        monkeypatch.setattr(os, "access", lambda *_: False)  # a mode does not stop the superuser
        assert store.folder() is None

    def test_no_home(self, folder, monkeypatch):
        def fail():
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(config, "cache_dir", fail)
        assert store.folder() is None

    def test_none_is_wanted(self, folder, monkeypatch):
        monkeypatch.setenv("FGRAD_CACHE_SIZE", "0")
        assert store.folder() is None
        assert not folder.exists()


def socket_at(path):
    os.chdir(path.parent)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


IN_PLACE = {
    "a FIFO": os.mkfifo if hasattr(os, "mkfifo") else None,
    "a link": lambda path: path.symlink_to(path.with_name("elsewhere")),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a socket": socket_at,
    "a folder": lambda path: path.mkdir(),
}


@posix_only
class TestFiles:
    """Which files are used."""

    @pytest.mark.parametrize("bits", [0o620, 0o602, 0o666, 0o777])
    def test_others_may_not_write_to_them(self, entry, bits):
        entry.chmod(bits)
        with pytest.warns(
            fg.CacheWarning, match=rf"others may write to it \(its mode is {bits:o}\): {entry}"
        ):
            assert store.read(entry) == b""
        assert store.read(entry) == b""  # and that was said
        store.keep(entry, b"code")
        assert mode(entry) == 0o600
        assert store.read(entry) == b"code"

    def test_others_may_read_them(self, entry):
        entry.chmod(0o644)
        assert store.read(entry) == b"code"

    def test_they_belong_to_the_user(self, entry, monkeypatch):
        owned_by(monkeypatch, entry, OTHER)
        with pytest.warns(fg.CacheWarning, match=r"it belongs to another user \(number 54321\)"):
            assert store.read(entry) == b""

    @pytest.mark.parametrize("what", IN_PLACE)
    def test_they_are_files(self, entry, monkeypatch, what):
        monkeypatch.chdir(entry.parent)
        entry.rename(entry.with_name("elsewhere"))
        IN_PLACE[what](entry)
        with pytest.warns(fg.CacheWarning, match="it is no regular file"):
            assert store.read(entry) == b""
        if what == "a folder":
            with pytest.raises(OSError):
                store.keep(entry, b"code")
        else:
            store.keep(entry, b"more")
            assert store.read(entry) == b"more"
        assert (entry.parent / "elsewhere").read_bytes() == b"code"
        assert not list(entry.parent.glob("*.tmp"))

    @pytest.mark.parametrize("what", ["a FIFO", "a link", "a link to a device"])
    def test_what_comes_between_looking_and_opening(self, entry, monkeypatch, what):
        """The file is looked at once it is open, too; and a FIFO that nobody writes to is not waited for."""
        known = os.open

        def late(path, flags, *rest):
            entry.unlink()
            IN_PLACE[what](entry)
            return known(path, flags, *rest)

        monkeypatch.setattr(os, "open", late)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fg.CacheWarning)
            assert store.read(entry) == b""

    def test_where_there_are_no_users_only_the_kind_of_file_counts(self, entry, monkeypatch):
        monkeypatch.delattr(os, "geteuid")
        monkeypatch.delattr(os, "fchmod")
        entry.chmod(0o666)
        assert store.read(entry) == b"code"
        assert store.folder() == entry.parent
        store.keep(entry, b"other")
        assert store.read(entry) == b"other"

    def test_nothing_fits_that_no_kernel_is_as_large_as(self, entry, monkeypatch):
        monkeypatch.setattr(store, "LARGEST", 10)
        store.keep(entry, bytes(11))
        assert store.read(entry) == b"code"
        with entry.open("wb") as file:
            file.truncate(2**33)  # without blocks on the disk
        assert store.read(entry) == b""

    def test_the_warning_names_the_line_of_the_user(self, entry):
        entry.chmod(0o666)
        with pytest.warns(fg.CacheWarning) as caught:
            store.read(entry)
        assert caught[0].filename == __file__


@posix_only
@compiled_only
class TestPlanted:
    """What others may have written is not run; it is compiled, and mended."""

    def planted(self, folder):
        """Put the machine code of another kernel, with a right digest, in the place of the one there is."""
        assert kernel(1) == COMPILED
        (path,) = folder.glob("k_*.o")
        code = native._unpacked(path.read_bytes(), path.stem)
        assert kernel(2) == COMPILED
        (other,) = set(folder.glob("k_*.o")) - {path}
        foreign = native._unpacked(other.read_bytes(), other.stem)
        machine = foreign.machine.replace(foreign.symbol.encode(), code.symbol.encode())
        path.write_bytes(native._packed(code._replace(machine=machine), path.stem))
        return path

    def test_it_would_run_if_it_were_the_users(self, folder):
        self.planted(folder)
        with pytest.raises(AssertionError):  # so the others in this class show something
            kernel(1)

    def test_files_that_others_may_write_to(self, folder):
        self.planted(folder).chmod(0o666)
        with pytest.warns(fg.CacheWarning, match="others may write to it"):
            assert kernel(1) == COMPILED
        assert kernel(1) == LOADED

    def test_files_of_others(self, folder, monkeypatch):
        path = self.planted(folder)
        with monkeypatch.context() as patch:
            owned_by(patch, path, OTHER)
            with pytest.warns(fg.CacheWarning, match="belongs to another user"):
                assert kernel(1) == COMPILED
        assert kernel(1) == LOADED

    def test_links(self, folder):
        path = self.planted(folder)
        path.rename(folder / "elsewhere")
        path.symlink_to(folder / "elsewhere")
        with pytest.warns(fg.CacheWarning, match="no regular file"):
            assert kernel(1) == COMPILED
        assert kernel(1) == LOADED

    def test_a_fifo_does_not_hang(self, folder):
        path = self.planted(folder)
        path.unlink()
        os.mkfifo(path)
        with pytest.warns(fg.CacheWarning, match="no regular file"):
            assert kernel(1) == COMPILED
        assert kernel(1) == LOADED

    def test_a_folder_that_others_may_write_to(self, folder):
        self.planted(folder)
        folder.chmod(0o777)
        with pytest.warns(fg.CacheWarning, match="FGRAD_CACHE_DIR"):
            assert kernel(1) == COMPILED
        assert kernel(1) == COMPILED


class TestSize:
    """How large it gets."""

    def names(self):
        return (f"k_{k:032x}.o" for k in itertools.count())

    def test_it_stays_below_the_limit_however_much_is_written(self, folder, monkeypatch):
        monkeypatch.setenv("FGRAD_CACHE_SIZE", "100000")
        path, most = store.folder(), 0
        for name, _ in zip(self.names(), range(300), strict=False):
            store.keep(path / name, bytes(1000))
            most = max(most, sum(p.stat().st_size for p in path.iterdir()))
        assert 90_000 <= most <= 100_000

    def test_its_files_are_not_looked_at_every_time(self, folder, monkeypatch):
        monkeypatch.setenv("FGRAD_CACHE_SIZE", "1000000")
        looks, known = [], store.entries
        monkeypatch.setattr(store, "entries", lambda path: looks.append(path) or known(path))
        path = store.folder()
        for name, _ in zip(self.names(), range(320), strict=False):
            store.keep(path / name, bytes(1000))
        assert 10 <= len(looks) <= 12

    def test_what_was_used_longest_ago_leaves(self, folder, monkeypatch):
        path = store.folder()
        first, second, third, fourth = (path / name for name, _ in zip(self.names(), range(4), strict=False))
        for age, file in enumerate((third, second, first)):
            store.keep(file, bytes(1000))
            os.utime(file, (time.time() - 1000 - age,) * 2)
        store.touch(first)
        monkeypatch.setenv("FGRAD_CACHE_SIZE", "3500")
        store.keep(fourth, bytes(1000))
        assert {*path.iterdir()} == {first, third, fourth}

    def test_an_entry_larger_than_the_limit_stays_until_the_next(self, folder, monkeypatch):
        monkeypatch.setenv("FGRAD_CACHE_SIZE", "1")
        path = store.folder()
        first, second = (path / name for name, _ in zip(self.names(), range(2), strict=False))
        store.keep(first, bytes(1000))
        assert first.exists()
        store.keep(second, bytes(1000))
        assert {*path.iterdir()} == {second}

    def test_what_killed_writers_left_is_swept(self, entry, monkeypatch):
        left = [entry.with_name(f"{name}.{k:016x}.tmp") for k, name in enumerate([NAME, f"k_{'f' * 32}.o"])]
        fresh = entry.with_name(f"{NAME}.{2:016x}.tmp")
        letter = entry.with_name("letter.tmp")
        for file in (*left, fresh, letter):
            file.write_bytes(b"part")
            os.utime(file, (time.time() - 2 * store.ABANDONED * (file is not fresh),) * 2)
        monkeypatch.setattr(store, "_unseen", {})  # as in another process
        store.keep(entry, b"code")
        assert {*entry.parent.iterdir()} == {entry, fresh, letter}

    def test_what_others_are_writing_stays_where_its_entry_leaves(self, entry, monkeypatch):
        part = entry.with_name(f"{NAME}.{0:016x}.tmp")
        part.write_bytes(b"part")
        monkeypatch.setenv("FGRAD_CACHE_SIZE", "1")
        store.keep(entry.with_name(f"k_{'f' * 32}.o"), b"other")
        assert not entry.exists()
        assert part.exists()


KILLING = """
import itertools, os, random, signal, sys, time
from fgrad.kernels import store

def write(path):
    for k in itertools.count():
        name = f"k_{k % 8:032x}.o"
        content = os.urandom(20_000)
        store.keep(path / name, store.digest(name, content).encode() + content)

path, waits, seen = store.folder(), random.Random(0), 0
for _ in range(int(sys.argv[1])):
    writers = []
    for _ in range(3):
        pid = os.fork()
        if not pid:
            write(path)
        writers.append(pid)
    for pid in writers:
        time.sleep(waits.random() / 100)
        os.kill(pid, signal.SIGKILL)
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    for entry in path.glob("k_*.o"):
        content = store.read(entry)
        assert content[:32].decode() == store.digest(entry.name, content[32:])
        seen += 1
assert seen
for part in path.glob("*.tmp"):
    os.utime(part, (0, 0))
store.keep(path / f"k_{'f' * 32}.o", b"code")
left = list(path.glob("*.tmp"))
assert not left, left
"""


@posix_only
def test_killed_writers_leave_whole_entries(folder):
    """Three processes write the same entries, and are killed at some moment, again and again."""
    env = {**os.environ, "FGRAD_CACHE_SIZE": "100000"}
    subprocess.run([sys.executable, "-c", KILLING, "30"], env=env, check=True)


class TestKeys:
    """What the name of an entry depends on, besides the text."""

    @pytest.fixture(autouse=True)
    def fresh(self):
        store.header.cache_clear()
        yield
        store.header.cache_clear()

    def test_what_it_says(self):
        import llvmlite

        header = store.header()
        assert header.count("\n") == 0
        for part in (
            f"fgrad {fg.__version__} {store._sources()[:16]}",
            f"llvmlite {llvmlite.__version__} with LLVM {llvmlite.binding.llvm_version_info[0]}.",
            f"numpy {np.__version__}",
            f"{sys.implementation.cache_tag} {sys.version.split()[0]}",
            store.processor()[0],
        ):
            assert part in header

    @pytest.mark.parametrize(
        "name, value",
        [
            ("fgrad.__version__", "99"),
            ("llvmlite.__version__", "99"),
            ("fgrad.kernels.store.processor", lambda: ("generic", "")),
            ("fgrad.kernels.store._sources", lambda: "f" * 64),
            ("fgrad.kernels.store.np.__version__", "99"),
            ("fgrad.kernels.store.sys.implementation", SimpleNamespace(cache_tag="other-313")),
            ("fgrad.kernels.store.sys.maxsize", 2**31 - 1),
            ("fgrad.kernels.store.sys.abiflags", "t"),
            ("fgrad.kernels.store.platform.python_version", lambda: "3.99.0"),
            ("fgrad.kernels.store.platform.machine", lambda: "riscv64"),
        ],
    )
    def test_another_one_has_entries_of_its_own(self, monkeypatch, name, value):
        header = store.header()
        store.header.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(name, value, raising=False)
            other = store.header()
        assert header != other

    @pytest.mark.parametrize(
        "name, value",
        [("llvm_version_info", (99, 0, 0)), ("get_process_triple", lambda: "x86_64-apple-darwin")],
    )
    def test_another_llvm_or_system(self, monkeypatch, name, value):
        from llvmlite import binding

        header = store.header()
        store.header.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(binding, name, value)
            other = store.header()
        assert header != other

    def test_every_module_that_makes_machine_code_counts(self, tmp_path, monkeypatch):
        (tmp_path / "vector").mkdir()
        monkeypatch.setattr(store, "__file__", str(tmp_path / "store.py"))
        found = {store._sources()}
        for name, text in [("a.py", "x"), ("a.py", "y"), ("vector/libm.py", "x"), ("b.py", "x")]:
            (tmp_path / name).write_text(text)
            found.add(store._sources())
        (tmp_path / "a.py").rename(tmp_path / "c.py")
        assert len({*found, store._sources()}) == 6
