"""From the text of a kernel to machine code: `translate` types and lowers it, and LLVM does the rest."""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from queue import Empty, SimpleQueue
from threading import Thread, stack_size
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from fgrad import config, locks
from fgrad.blocks import Block, Nested, suppress
from fgrad.compat import cpython, llvmlite
from fgrad.core import process
from fgrad.kernels import checks, source, store

if TYPE_CHECKING:
    from typing_extensions import Self

LEAST = 2**24  # bytes that LLVM takes for little code
EXPANSION = 320  # for each byte of a text in its language
COPIES = 8  # for each byte of an object file
STACK = 2**24  # bytes of a thread in which LLVM recurs: not less than usual ones of main threads
_KERNEL = ("int64*", "int64*", "uint64", "uint64"), "void"
SIGNATURES: dict[str, tuple[tuple[str, ...], str]] = {
    # by name: the kinds of the parameters and of the result
    "kernel": _KERNEL,
    "interpreter": _KERNEL,  # of bytecode
    "entry": (("int64*", "int64*", "int64"), "int64"),  # of the function that Python calls
    "function": _KERNEL,  # of what `functions` calls
}
BRANCHING = {"interpreter", "entry"}  # code that gains nothing from most of LLVM's passes


class Code(NamedTuple):
    """A function as it is kept on disk."""

    symbol: str
    externals: tuple[str, ...]  # symbols of other libraries
    machine: bytes  # an object file


class Compiled(NamedTuple):
    """Machine code that is ready to run."""

    code: Code
    address: int
    owner: Any  # which keeps it alive


class _CallingLLVM(Nested):
    """Call LLVM without the collector of cycles, which finds nothing and takes its time.

    An interrupt may leave the lock around LLVM's functions taken: it is free at the end, if it was before.
    """

    def __enter__(self) -> None:
        self.stays.append((gc.isenabled(), llvmlite.is_locked()))
        if config.process_effects():
            gc.disable()

    def put_back(self, stay: tuple[bool, bool]) -> None:
        """Let the collector run if it did before, and others call LLVM."""
        collects, locked = stay
        if collects:
            gc.enable()
        if not locked:
            llvmlite.unlock()


calling_llvm = _CallingLLVM()  # for those who make things, of which there is one thread at a time


class Passes(NamedTuple):
    """Which of LLVM's passes improve a module.

    Attributes:
        all: not just a few.
        straight: also those that make vector code of lines without a loop. They take up to half of the time,
            and gain something where a kernel has arrays of its own, as those of small matrices have.
    """

    all: bool
    straight: bool


def passes_for(written: str, *, thorough: bool = True) -> Passes:
    """Return the passes for a text in LLVM's language."""
    # they call vector functions by the usual convention, but those of `vector.libm` have one of their own
    return Passes(thorough, " = alloca [" in written and "fgrad_libm_" not in written)


class _Draft(NamedTuple):
    """A function in LLVM's language."""

    text: str
    symbol: str
    size: int
    module: Any
    passes: Passes


@calling_llvm
def compiled(text: str, signature: str) -> Compiled:
    """Return the machine code of the function `kernel` in a text.

    Args:
        text: as of `native`; the function raises no errors.
        signature: one of `SIGNATURES`.

    Raises:
        UntranslatableError: there is something in the text that kernels cannot say.
        RuntimeError: it calls functions that this platform does not have.
    """
    draft = _drafted(text, signature)
    return _linked(draft, _machine_code(draft))


class CompilerThreads(Block):
    """Threads in which LLVM makes machine code, while this one writes more in LLVM's language.

    For who makes things: when the block is left, all that was given to it is done, or dropped.
    """

    def __init__(self, count: int) -> None:
        self._watch = None
        self._count = count
        self._threads: list[Thread] = []
        self._sizes: list[int] = []  # of what was given
        self._drafts: SimpleQueue[_Draft | None] = SimpleQueue()
        self._made: SimpleQueue[_Made] = SimpleQueue()

    def __enter__(self) -> Self:
        """Begin, be it with fewer threads than were asked for, or none."""
        usual = stack_size(STACK)
        try:
            with suppress(RuntimeError):  # the system has no more
                for _ in range(self._count):
                    thread = Thread(
                        target=_work, args=(self._drafts, self._made), name="fgrad compiler", daemon=True
                    )
                    thread.start()
                    self._threads.append(thread)
        finally:
            stack_size(usual)
        return self

    def undo(self, _: None) -> None:
        """Wait for what LLVM is in the middle of; the rest is dropped."""
        with suppress(Empty):
            while True:
                self._drafts.get_nowait()
        for _thread in range(self._count):
            self._drafts.put(None)
        while self._threads:
            self._threads[-1].join()
            self._threads.pop()

    def give(self, text: str, signature: str) -> None:
        """Let a text be compiled, as by `compiled`."""
        draft = _drafted(text, signature)
        self._sizes.append(draft.size)
        demand_memory(EXPANSION * sum(sorted(self._sizes)[-self._count :]))
        self._drafts.put(draft)

    def take(self) -> tuple[str, Compiled]:
        """Return the next text that is done, and its machine code; raise what `compiled` raises."""
        if not self._threads:
            self._drafts.put(None)
            _work(self._drafts, self._made)
        draft, found = self._made.get()
        if isinstance(found, BaseException):
            raise found
        return draft.text, _linked(draft, found)


_Made: TypeAlias = tuple[_Draft, "bytes | BaseException"]


def _work(drafts: SimpleQueue[_Draft | None], made: SimpleQueue[_Made]) -> None:
    while (draft := drafts.get()) is not None:
        made.put((draft, _tried(draft)))


def _tried(draft: _Draft) -> bytes | BaseException:
    try:
        return _machine_code(draft)
    except BaseException as error:  # noqa: BLE001 -- who takes it raises it
        return error


@calling_llvm
def _drafted(text: str, signature: str) -> _Draft:
    symbol = f"fgrad_{store.digest(text)}"
    written = assembly(text, signature, symbol)
    demand_memory(len(written) * EXPANSION)
    passes = passes_for(written, thorough=signature not in BRANCHING and "\nWRITTEN_OUT = True\n" not in text)
    return _Draft(text, symbol, len(written), _parsed(written), passes)


def _machine_code(draft: _Draft) -> bytes:
    _improve(draft.module, draft.passes)
    free = _machines.setdefault(store.processor(), [])
    try:
        machine = free.pop()
    except IndexError:
        machine = target_machine()
    made = llvmlite.object_file(machine, draft.module)
    free.append(machine)
    return made


_machines: dict[tuple[str, str], list[Any]] = {}  # for a processor, those that nobody uses


@calling_llvm
def _linked(draft: _Draft, machine: bytes) -> Compiled:
    names = [f.name for f in draft.module.functions if f.is_declaration]
    code = Code(draft.symbol, tuple([n for n in names if not n.startswith("llvm.")]), machine)
    address, owner = link(code)
    if not address:
        missing = [name for name in code.externals if not _is_known(name)]
        raise RuntimeError(
            f"a compiled kernel cannot be linked: the C library here lacks {', '.join(missing)}"
            if missing
            else "LLVM does not link the machine code that it has made for this processor"
        )
    return Compiled(code, address, owner)


def assembly(text: str, signature: str, symbol: str) -> str:
    """Return the function `kernel` of a text in LLVM's language, called `symbol`.

    Raises:
        UntranslatableError: there is something in the text that kernels cannot say.
    """
    from fgrad.kernels import instructions, scalars, translate  # noqa: PLC0415 -- late: they import llvmlite

    names = instructions.for_functions() if signature == "function" else instructions.for_translation()
    module, functions = source.declared(text, **names)
    try:
        return str(translate.translated(functions, module, symbol, *SIGNATURES[signature]))
    except scalars.UntranslatableError as error:
        raise scalars.UntranslatableError(
            f"{error} in the text of a kernel. This is a bug in fgrad: please report it with\n\n{text}"
        ) from None


def _parsed(written: str) -> Any:
    from llvmlite import binding  # noqa: PLC0415 -- late: eager programs need no machine code

    module = binding.parse_assembly(written, binding.create_context())  # what is in it goes with the module
    module.triple, module.data_layout = _layout()
    module.verify()
    return module


def _improve(module: Any, wanted: Passes) -> None:
    from llvmlite import binding  # noqa: PLC0415 -- late, as above

    free = _builders.setdefault((store.processor(), wanted.straight), [])
    try:
        builder = free.pop()
    except IndexError:
        builder = _builder(wanted.straight)
    if wanted.all:
        passes = builder.getModulePassManager()
    else:
        passes = binding.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    llvmlite.optimise(passes, module, builder)
    llvmlite.free(passes)
    free.append(builder)


# what makes passes for a processor, and nobody uses: llvmlite never frees all of one, so there are few
_builders: dict[tuple[tuple[str, str], bool], list[Any]] = {}


def _builder(slp: bool) -> Any:
    """Return what makes passes; `slp`: they may make vector code of lines without a loop.

    Turns of loops are not written out one after another: that took half of the time of a first call where
    matrices are small, and made nothing faster; what has to be straight, the text of a kernel says so. Nor
    are whole loops written once for each case of a condition that stays the same in them, which the third
    level does: kernels of convolutions, with conditions at the borders, took four times as long.
    """
    from llvmlite import binding  # noqa: PLC0415 -- late, as above

    tuning = binding.create_pipeline_tuning_options(speed_level=2)
    tuning.loop_vectorization, tuning.slp_vectorization = True, slp
    tuning.loop_unrolling = False
    return binding.create_pass_builder(target_machine(), tuning)


@calling_llvm
def link(code: Code) -> tuple[int, Any]:
    """Return the address of a function given as machine code, and what keeps it alive; 0 if it is damaged."""
    _load_libraries()  # not only for externals: LLVM turns some instructions into calls
    if not all(map(_is_known, code.externals)):
        return 0, None
    try:
        engine = linked("", code.machine)
        return engine.get_function_address(code.symbol), engine
    except RuntimeError:  # not an object file of this platform
        return 0, None


@calling_llvm
def linked(text: str, *objects: bytes) -> Any:
    """Return an engine with the functions of `text`, in LLVM's language, and of object files.

    Raises:
        RuntimeError: they are none, or need another LLVM or platform.
    """
    from llvmlite import binding  # noqa: PLC0415 -- late: eager programs need no machine code

    demand_memory(EXPANSION * len(text) + COPIES * sum(map(len, objects)))
    machine = target_machine()
    module = binding.parse_assembly(text)
    module.verify()
    engine = binding.create_mcjit_compiler(module, machine)  # which owns both
    for found in objects:
        engine.add_object_file(binding.ObjectFileRef.from_data(found))
    engine.finalize_object()
    return engine


def demand_memory(count: int) -> None:
    """Look whether LLVM can have so many bytes, and a few more: where it gets none, it ends the process.

    Raises:
        MemoryError: it cannot.
    """
    count += LEAST
    try:
        mmap.mmap(-1, count).close()
    except (OSError, ValueError, OverflowError):
        raise MemoryError(
            f"compiling takes {count / 2**20:.0f} MiB, which this process cannot allocate. Give it more "
            "memory, or cut the function into smaller ones that are compiled on their own"
        ) from None


def target_machine() -> Any:
    """Return a description of this machine for LLVM, as Numba makes it."""
    target, options = _target()
    return target.create_target_machine(**options)


@locks.once
def _layout() -> tuple[str, str]:
    """Return what LLVM calls this platform, and how it lays out data there."""
    machine = target_machine()
    return machine.triple, str(machine.target_data)


@locks.once
def _target() -> tuple[Any, dict[str, Any]]:
    from llvmlite import binding  # noqa: PLC0415 -- late, as above

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_triple(binding.get_process_triple())
    cpu, features = store.processor()
    positions = {"x86": "static", "ppc": "pic"}
    reloc = positions.get(target.name[:3], "default")
    return target, {
        "cpu": cpu,
        "features": features,
        "opt": 3,
        "reloc": reloc,
        "codemodel": "jitdefault",
        "jit": True,
    }


def _is_known(symbol: str) -> bool:
    """Return whether `symbol` can be linked to; an engine that looks for it in vain ends the process."""
    from llvmlite import binding  # noqa: PLC0415 -- late, as above

    return bool(binding.address_of_symbol(symbol))


@locks.once
def _load_libraries() -> None:
    from llvmlite import binding  # noqa: PLC0415 -- late, as above

    process.prepare()
    if checks.ON:
        binding.add_symbol(checks.SYMBOL, ctypes.cast(checks.noting(), ctypes.c_void_p).value)
    if sys.platform == "linux":
        with suppress(RuntimeError):  # not where the C library is another than glibc
            binding.load_library_permanently("libm.so.6")


@locks.in_child
def _wake_collector() -> None:
    """Let the collector run in a child process where another thread had stopped it for a moment."""
    if any(collects for collects, _ in calling_llvm.stays) and not cpython.is_owned(locks.making):
        calling_llvm.stays.clear()
        gc.enable()
