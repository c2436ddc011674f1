"""CPython: the frames of callers, what bytecode does with names, locks and imports at a fork."""

from __future__ import annotations

import dis
import inspect
import os
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from threading import Lock, RLock, get_ident
from types import CodeType, FrameType, GeneratorType
from typing import Any, NamedTuple

from fgrad import config
from fgrad.blocks import suppress
from fgrad.compat import self_test

# ---- frames --------------------------------------------------------------------------------------------


def frame_by_traceback(depth: int = 0) -> FrameType:
    """Return what `sys._getframe` does, in every Python, at ten times the cost."""
    try:
        raise LookupError  # noqa: TRY301 -- for its traceback
    except LookupError as error:
        traceback: Any = error.__traceback__
    frame: FrameType = traceback.tb_frame
    for _ in range(depth + 1):
        if frame.f_back is None:
            raise ValueError("call stack is not deep enough")
        frame = frame.f_back
    return frame


@self_test
def frames_are_given() -> bool:
    """Return whether the interpreter gives the frames of callers."""
    return sys._getframe() is frame_by_traceback()


frame_of: Callable[[int], FrameType] = sys._getframe if frames_are_given() else frame_by_traceback


@self_test
def stores_are_seen() -> bool:
    """Return whether a frame tells the instruction at which it stands."""
    found = []

    class Noting:
        def __setitem__(self, key: Any, value: Any) -> None:
            found.append(_is_storing(frame_of(1)))

        def __getitem__(self, key: Any) -> None:
            found.append(_is_storing(frame_of(1)))

    noting: Any = Noting()
    noting[0] = noting[0]
    noting[1:2] = noting[1:]
    return found == [False, True, False, True]


def is_storing(frame: FrameType) -> bool:
    """Return whether a frame assigns to an element or slice, as in `y[i] = x`; False if unknown."""
    return stores_are_seen() and _is_storing(frame)


def _is_storing(frame: FrameType) -> bool:
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _STORING


def is_indexing(frame: FrameType) -> bool:
    """Return whether a frame reads an element, as in `y[i]`."""
    return frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == _INDEXING


@self_test
def instructions_have_places() -> bool:
    """Return whether a frame tells which part of a line it runs."""
    found = []

    class Noting:
        def __getitem__(self, key: Any) -> None:
            found.append(_place(frame_of(1)))

    noting: Any = Noting()
    line = frame_of(0).f_lineno + 1
    noting[0], noting["key"]
    texts = [("noting[0]", found[0]), ("noting['key']", found[1])]
    return all(end - start == len(text) and (a, b) == (line, line) for text, (a, b, start, end) in texts)


def place_in_source(frame: FrameType) -> tuple[int, int, int, int] | None:
    """Return what part of the source a frame runs: the first line, the last, first column, end; or None.

    Columns count bytes. Python 3.10 does not know them.
    """
    return _place(frame) if instructions_have_places() else None


def _place(frame: FrameType) -> Any:
    places: Any = frame.f_code.co_positions()  # type: ignore[attr-defined,unused-ignore]
    found = next(islice(places, frame.f_lasti // 2, None))
    return None if None in found else found


def instructions(code: CodeType) -> Iterator[dis.Instruction]:
    """Yield the instructions of a function and of the functions inside of it."""
    yield from dis.get_instructions(code)
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield from instructions(x)


def behaviour(code: CodeType) -> tuple[Any, ...]:
    """Return what code does, but for its constants: where it is in its file does not count."""
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, *names, code.co_flags


def codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the functions inside of a function or module, and those inside of them."""
    for x in code.co_consts:
        if isinstance(x, CodeType):
            yield x
            yield from codes(x)


def steps(code: CodeType) -> list[Any]:
    """Return what a function does step by step, as every compilation of its text says it.

    The same text is compiled to other instructions for a call where its module imports what is called.
    """
    found: list[Any] = [code.co_varnames]
    for i in dis.get_instructions(code):
        if i.opname in _SILENT:
            continue
        name = _ALIKE.get(i.opname, i.opname)
        if i.opcode in _JUMPS:
            found.append(name)
        elif isinstance(i.argval, CodeType):
            found.append(steps(i.argval))
        else:
            found.append((name, repr(i.argval)))
    return found


_SILENT = {"CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "MAKE_CELL", "NOP", "PRECALL", "PUSH_NULL", "RESUME"}
_ALIKE = {"LOAD_METHOD": "LOAD_ATTR", "CALL_METHOD": "CALL_FUNCTION"}
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_INDEXING = dis.opmap.get("BINARY_SUBSCR", dis.opmap.get("BINARY_OP"))
_STORING = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap)

# ---- what code does with names -------------------------------------------------------------------------


class Reads(NamedTuple):
    """What code, that of inner functions too, reads by name."""

    enclosing: frozenset[str]
    variables: frozenset[str]
    attributes: frozenset[str]
    asked: frozenset[str]  # of these, what `getattr` and `hasattr` may be given
    imported: frozenset[str]  # modules, relative ones without their dots
    added: frozenset[str]  # of any kind, what code adds to if it is a list, dictionary or file: `log.append`


@lru_cache(4096)
def reads(code: CodeType) -> Reads:
    """Return the names that code reads: not those of lists and dictionaries that it only adds to.

    Where the bytecode is another one than fgrad knows, these are all names that occur.
    """
    found = {field: set[str]() for field in Reads._fields}
    if reads_are_known():
        _note_reads(code, found)
    else:
        found["enclosing"].update(code.co_freevars, code.co_cellvars)
        for kind in ("variables", "attributes", "imported"):
            found[kind].update(code.co_names)
    spelled = {x for x in code.co_consts if isinstance(x, str) and x.isidentifier()}
    if not (found["variables"] | found["attributes"]).isdisjoint(_SPELLING):
        found["asked"] |= spelled
        found["attributes"] |= spelled
    if "globals" in found["variables"]:
        found["variables"] |= spelled
    if "vars" in found["variables"]:
        found["attributes"].add("__dict__")
    made = Reads(*map(frozenset, found.values()))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            made = Reads(*(x | y for x, y in zip(made, reads(constant), strict=True)))
    return made


def _note_reads(code: CodeType, found: dict[str, set[str]]) -> None:
    steps = [s for s in dis.get_instructions(code) if s.opname not in {"PUSH_NULL", "CACHE", "EXTENDED_ARG"}]
    for i, step in enumerate(steps):
        kind = _KINDS.get(step.opname)
        if kind is None:
            continue
        after = [(s.opname, s.argval) for s in steps[i + 1 : i + 3]]
        adds = bool(after) and _KINDS.get(after[0][0]) == "attributes" and after[0][1] in ADDING
        puts = len(after) == 2 and after[0][0].startswith("LOAD") and after[1][0] == "STORE_SUBSCR"
        if adds or puts:
            found["added"].add(step.argval)
        elif step.opname.startswith("IMPORT") or not _counts(steps[i : i + 6]):
            found[kind].add(step.argval)


def _counts(steps: Sequence[dis.Instruction]) -> bool:
    """Return whether a name is read only to be bound to more: `count += 1`."""
    for step in steps[1:]:
        if step.opname.startswith("STORE_"):
            return bool(step.argval == steps[0].argval)
        if not step.opname.startswith(
            ("LOAD_CONST", "LOAD_SMALL", "LOAD_FAST", "BINARY_OP", "INPLACE", "SWAP", "ROT")
        ):
            return False
    return False


_KINDS = {
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"), "enclosing"),
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"), "variables"),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"), "attributes"),
    "IMPORT_NAME": "imported",
}
_SPELLING = frozenset({"getattr", "hasattr", "attrgetter", "vars", "__dict__"})  # take names as strings
ADDING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "write", "clear", "put"})

_EXAMPLE = """
def outer(held, log, x):
    count = 0
    def inner(y):
        nonlocal count
        count += 1
        log.append(y)
        class Body:
            inside = seen, held
        from package.sub import piece
        z = module.part.number + table[0] * (held.taken if wanted(y) else -1)
        return z + scale * getattr(y, "spelled"), Body
    class Derived(Base):
        def method(self):
            return super().above + self.own
    return inner, Derived
"""


@self_test
def reads_are_known() -> bool:
    """Return whether the reads of an example are those that its text shows."""
    found = {field: set[str]() for field in Reads._fields}
    todo = [compile(_EXAMPLE, "<example>", "exec")]
    while todo:
        code = todo.pop()
        todo += [c for c in code.co_consts if isinstance(c, CodeType)]
        _note_reads(code, found)
    variables = {"seen", "module", "table", "wanted", "scale", "getattr", "Base"}
    return (
        found["enclosing"] - {"__class__", "__classdict__"} == {"held"}
        and variables <= found["variables"]
        and found["attributes"] - {"append"} == {"part", "number", "taken", "above", "own", "piece"}
        and found["imported"] == {"package.sub"}
        and found["added"] == {"log"}
    )


def position_of(generator: GeneratorType[Any, Any, Any]) -> list[Any]:
    """Return the place of a generator in its code and its variables, of which some are others at each item.

    What is no place in the code (an interpreter may have none) is left out: variables are then all there is.
    """
    frame = generator.gi_frame
    if frame is None:
        return []
    return [sys.intern(str(getattr(frame, "f_lasti", ""))), *frame.f_locals.values()]


class Bindings:
    """What code, that of inner functions too, does with the names of a module and of outer functions."""

    __slots__ = ("assigned", "deleted", "imports", "names", "shown", "written")

    def __init__(self) -> None:
        self.names: set[str] = set()  # global names it reads
        self.written: set[str] = set()  # global names it writes
        self.deleted: set[str] = set()
        self.assigned: set[str] = set()  # names of outer functions it writes
        self.shown: set[str] = set()  # names that the bodies of its classes read
        self.imports: bool = False

    def note(self, code: CodeType) -> None:
        """Note what code does."""
        todo = [code]
        while todo:
            part = todo.pop()
            todo += [c for c in part.co_consts if isinstance(c, CodeType)]
            is_class_body = not part.co_flags & inspect.CO_OPTIMIZED
            for step in dis.get_instructions(part):
                if step.opname in {"STORE_DEREF", "DELETE_DEREF"} and step.argval in part.co_freevars:
                    self.assigned.add(step.argval)
                elif step.opname == "STORE_GLOBAL":
                    self.written.add(step.argval)
                elif step.opname == "DELETE_GLOBAL":
                    self.deleted.add(step.argval)
                elif step.opname == "LOAD_GLOBAL":
                    self.names.add(step.argval)
                elif step.opname in {"IMPORT_NAME", "IMPORT_FROM"}:
                    self.imports = True
                elif is_class_body and step.opname.startswith("LOAD_") and isinstance(step.argval, str):
                    self.shown.add(step.argval)


@lru_cache(1024)
def bindings(code: CodeType) -> Bindings:
    """Return what code does with names.

    Raises:
        NotImplementedError: the bytecode is another one than fgrad knows.
    """
    if not bindings_are_known():
        raise NotImplementedError(
            "plain_numpy reads the bytecode of functions, and fgrad does not know that of this Python. "
            "Write the function with fgrad.numpy in the place of numpy"
        )
    made = Bindings()
    made.note(code)
    return made


_BINDING = """
def outer(x):
    global written, deleted
    held = taken = x
    def inner():
        nonlocal held
        held = read(taken)
        class Body(Base):
            inside = shown
        return Body
    del deleted
    written = number
    return inner
"""


@self_test
def bindings_are_known() -> bool:
    """Return whether what an example does with names is what its text shows."""
    code = next(c for c in compile(_BINDING, "<example>", "exec").co_consts if isinstance(c, CodeType))
    found, importing = Bindings(), Bindings()
    found.note(code)
    importing.note(compile("def f():\n    import this\n", "<example>", "exec"))
    return (
        found.names == {"read", "Base", "number"}
        and (found.written, found.deleted, found.assigned) == ({"written"}, {"deleted"}, {"held"})
        and "shown" in found.shown
        and (found.imports, importing.imports) == (False, True)
    )


# ---- locks and imports at a fork -----------------------------------------------------------------------


@self_test
def locks_are_known() -> bool:
    """Return whether a reentrant lock says whose it is, and can be made anew in a child process."""
    lock: Any = RLock()
    with lock:
        was_owned = is_owned(lock)
    renew(lock)
    return was_owned is True and is_owned(lock) is False


def is_owned(lock: Any) -> bool:
    """Return whether a reentrant lock is this thread's."""
    return lock._is_owned()  # type: ignore[no-any-return]


def renew(lock: Any) -> None:
    """Let a reentrant lock be free in a child process, whoever held it in the parent."""
    lock._at_fork_reinit()


LOCK = type(RLock())


class ForkableLock:
    """A reentrant lock that does what CPython's does, by what is documented, at some times its cost."""

    def __init__(self) -> None:
        self._at_fork_reinit()

    def _at_fork_reinit(self) -> None:
        self._lock, self._owner, self._count = Lock(), 0, 0

    def _is_owned(self) -> bool:
        return self._owner == get_ident()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, once more if it is this thread's."""
        if not self._is_owned():
            if not self._lock.acquire(blocking, timeout):
                return False
            self._owner = get_ident()
        self._count += 1
        return True

    __enter__ = acquire

    def release(self) -> None:
        """Let go of the lock, as often as it was taken."""
        if not self._is_owned():
            raise RuntimeError("cannot release a lock that is not this thread's")
        self._count -= 1
        if not self._count:
            self._owner = 0
            self._lock.release()

    def __exit__(self, *_: object) -> None:
        self.release()


def reentrant_lock() -> Any:
    """Return a reentrant lock for `is_owned` and `renew`."""
    return RLock() if locks_are_known() else ForkableLock()


@self_test
def imports_are_seen() -> bool:
    """Return whether the lock of a module on its way in says which thread imports it."""
    own: Any = sys.modules["_frozen_importlib"]
    lock = own._ModuleLock("fgrad.example")
    lock.acquire()
    try:
        return isinstance(own._module_locks, dict) and lock.owner == get_ident()
    finally:
        lock.release()


def others_import(packages: frozenset[str]) -> bool:
    """Return whether another thread imports one of some packages; False where that is not seen."""
    if imports_are_seen():
        with suppress(RuntimeError):  # the table changes
            for name, reference in tuple(vars(sys.modules["_frozen_importlib"])["_module_locks"].items()):
                owner = getattr(reference(), "owner", None) if name.partition(".")[0] in packages else None
                if owner is not None and owner != get_ident():
                    return True
    return False


# ---- smaller things ------------------------------------------------------------------------------------


@self_test
def environment_is_known() -> bool:
    """Return whether `os.environ` keeps names and values as the system has them."""
    return isinstance(os.environ._data, dict) and os.environ.encodekey("A") in {"A", b"A"}  # type: ignore[attr-defined]


def environment(name: str) -> tuple[Any, Container[Any]]:
    """Return a variable's name, and what contains it while it is set: asked in a tenth of the time."""
    if environment_is_known():
        return os.environ.encodekey(name), os.environ._data  # type: ignore[attr-defined]
    return name, os.environ


def running_loop() -> Callable[[], Any]:
    """Return the function that returns the loop of asyncio which runs in this thread, None if none does."""
    asyncio = sys.modules["asyncio"]
    found: Callable[[], Any] | None = getattr(asyncio, "_get_running_loop", None)
    if found is not None and config.private():
        return found

    def look() -> Any:
        with suppress(RuntimeError):
            return asyncio.get_running_loop()
        return None

    return look
