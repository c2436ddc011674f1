"""Runs what CUDA's compilers made of a kernel, without a GPU: PTX, one instruction at a time, in all threads.

Numba's simulator interprets the text of a kernel in Python. Here runs the code that a GPU would get: with the
types that the compilers inferred, their arithmetic, CUDA's library of functions, and as many threads as on a
GPU. On the way it finds what compute-sanitizer would: loads and stores outside of the arguments, threads that
do not wait for one another, shared memory that nobody wrote, threads of a block at different barriers.

Threads are lanes of arrays. Of those that can go on, the ones at the earliest instruction go on together, so
branches meet again. Instructions, registers and rounding: Parallel Thread Execution ISA, version 9
(https://docs.nvidia.com/cuda/parallel-thread-execution). What approximates there is exact here.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np

WINDOW = 1 << 40  # bytes between the addresses of arguments: none reaches the next one
SHARED = 1 << 60  # where shared memory begins for a pointer that does not say where it points
SPECIAL = {"%tid", "%ctaid", "%ntid", "%nctaid"}
STEPS = 2_000_000  # instructions of a kernel, in all of its threads at once: more is a loop without an end
Lanes = Any  # a slice or an array of indices


class PTXError(AssertionError):
    """A kernel does what no kernel may do."""


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the dtype of a type of PTX: s, u, b or f and its bits; pred."""
    if name == "pred":
        return np.dtype(bool)
    kind = {"s": "i", "u": "u", "b": "u", "f": "f"}[name[0]]
    return np.dtype(f"{kind}{int(name[1:]) // 8}")


# ---- text -------------------------------------------------------------------------------------------------


def _granule(dtype: np.dtype[Any]) -> int:
    """Return the bytes of the parts in which numbers are loaded and stored."""
    return dtype.itemsize // 2 if dtype.kind == "c" else dtype.itemsize


class Array(NamedTuple):
    """Memory that a kernel declares."""

    space: str
    size: int  # bytes
    held: np.ndarray[Any, Any] | None


class Instruction(NamedTuple):
    """One line."""

    guard: str  # a predicate; "" for all threads
    negated: bool
    opcode: tuple[str, ...]
    operands: tuple[str, ...]
    text: str


class Kernel(NamedTuple):
    """The parts of a text."""

    params: list[tuple[str, str]]  # names and types
    registers: dict[str, str]  # their types
    arrays: dict[str, Array]
    code: list[Instruction]
    labels: dict[str, int]


_DECLARED = re.compile(
    r"(?:\.(?:visible|common|extern|weak)\s+)*\.(shared|global|const|local)\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+"
    r"([\w$]+)(?:\[(\d+)\])?(?:\s*=\s*\{([^}]*)\})?\s*;"
)
_REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+([^;]*);")
_PARAM = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+([\w$]+)")
_LINE = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*?)\s*;")


def parsed(text: str) -> Kernel:
    """Return the parts of a text with one kernel; the functions that it calls become part of it."""
    text = re.sub(r"//[^\n]*", "", text)
    functions = dict(_functions(text))
    ((head, body),) = functions.pop("entry")
    params = [(name, kind) for kind, name in _PARAM.findall(head)]
    lines = _inlined(_lines(body), functions, [])
    arrays = {}
    for space, kind, name, count, held in _DECLARED.findall(text):
        dtype = dtype_of(kind)
        values = np.array([int(v, 0) for v in held.split(",")]).astype(dtype) if held else None
        arrays[name] = Array(space, dtype.itemsize * int(count or 1), values)
    registers: dict[str, str] = {}
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in lines:
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        elif found := _REGISTERS.fullmatch(line):
            for name, n in re.findall(r"([%\w$]+)(?:<(\d+)>)?", found[2]):
                registers |= dict.fromkeys([f"{name}{k}" for k in range(int(n))] if n else [name], found[1])
        elif found := _LINE.fullmatch(line):
            negated, guard, opcode, rest = found.groups()
            operands = tuple(o.strip() for o in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", rest))
            code.append(Instruction(guard or "", bool(negated), tuple(opcode.split(".")), operands, line))
        else:
            assert line.startswith("."), line
    return Kernel(params, registers, arrays, code, labels)


def _functions(text: str) -> Iterator[tuple[str, Any]]:
    """Yield names of functions with what is before and in their braces, and "entry" with all kernels."""
    entries = []
    for found in re.finditer(r"\.(entry|func)\b\s*([^{;]*)\{", text):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        body = text[found.end() : end - 1]
        if found[1] == "entry":
            entries.append((found[2], body))
        else:
            name = re.search(r"([\w$]+)\s*\([^()]*\)\s*(?:\.\w+\s*)*$", found[2])
            assert name is not None, found[2]
            yield name[1], (found[2], body)
    yield "entry", entries


def _lines(body: str) -> list[str]:
    lines = (" ".join(line.split()).lstrip("{} ") for line in re.split(r"(?<=[;:])", body))
    return [line for line in lines if line]  # braces around lines bound names


def _inlined(lines: list[str], functions: dict[str, Any], made: list[str]) -> list[str]:
    """Return lines with those of a function where one is called; `made` counts the calls."""
    out = []
    for line in lines:
        call = re.fullmatch(r"call(?:\.uni)? (?:\((\w+)\), )?([\w$]+)(?:, \(([^)]*)\))?;", line)
        if call is None:
            assert not line.startswith("call"), line
            out.append(line)
            continue
        result, name, given = call.groups()
        head, body = functions[name]
        own = f"c{len(made)}_"
        made.append(name)
        names = [n for _, n in _PARAM.findall(head)]
        theirs = [*([result] if result else []), *(given or "").replace(" ", "").split(",")]
        places = dict(zip(names, theirs, strict=True))

        def renamed(found: Any, places: dict[str, str] = places, own: str = own) -> str:
            word = found[0]
            is_own = word[0] in "%$" and word.partition(".")[0] not in SPECIAL
            return places.get(word) or (f"{word[0]}{own}{word[1:]}" if is_own else word)

        inside = [re.sub(r"[%$\w][\w$]*", renamed, line) for line in _lines(body)]
        end = f"${own}end"
        inside = [f"bra {end};" if line in ("ret;", "ret.uni;") else line for line in inside]
        out += [*_inlined(inside, functions, made), f"{end}:"]
    return out


# ---- memory -----------------------------------------------------------------------------------------------

SEVERAL, EVERYWHERE = -2, -3  # threads of one block, and of several blocks


class Region:
    """Bytes, and which threads touched them last, after how many barriers, to find races.

    Args:
        data: its bytes.
        granule: of how many bytes there is one note; nothing smaller is loaded or stored.
        written: whether reading finds something; else it has to be written first.
    """

    def __init__(self, data: np.ndarray[Any, Any], granule: int, *, written: bool) -> None:
        self.data, self.granule, self.written = data, granule, written
        n = -(-data.size // granule)
        self.writer, self.reader = np.full(n, -1, np.int32), np.full(n, -1, np.int32)
        self.wrote, self.read, self.block = (np.zeros(n, np.int32) for _ in range(3))


class Window(NamedTuple):
    """Where the memory of one argument lies."""

    region: Region
    begin: int
    size: int


def _address(k: int) -> int:
    """Return where the k-th argument begins: in the middle of its window."""
    return WINDOW * (1 + k) + WINDOW // 2


class Machine:
    """A kernel being run.

    Args:
        kernel: its parts.
        arguments: arrays of NumPy for pointers, numbers for the rest.
        blocks: how many.
        threads: in a block.
        moved: takes the bytes of global memory that are loaded and stored.
    """

    def __init__(
        self,
        kernel: Kernel,
        arguments: Sequence[Any],
        blocks: int,
        threads: int,
        moved: Counter[str] | None = None,
    ) -> None:
        self.kernel, self.blocks, self.threads = kernel, blocks, threads
        n = self.count = blocks * threads
        self.lane = np.arange(n, dtype=np.int32)
        self.block = self.lane // threads
        self.barriers = np.zeros(blocks, np.int32)
        self.registers = {name: np.zeros(n, dtype_of(kind)) for name, kind in kernel.registers.items()}
        self.special = {
            "%tid.x": (self.lane % threads).astype(np.uint32),
            "%ctaid.x": self.block.astype(np.uint32),
            "%ntid.x": np.full(n, threads, np.uint32),
            "%nctaid.x": np.full(n, blocks, np.uint32),
        }
        self.carry = np.zeros(n, bool)
        self.moved = moved
        arrays = self.arrays = [a for a in arguments if isinstance(a, np.ndarray)]  # lives as long as this
        self.symbols, sizes = self._declared(arrays)
        self._place(arrays)
        self.shared = Region(np.zeros(blocks * sizes["shared"], np.uint8), 1, written=False)
        self.local = np.zeros(n * sizes["local"], np.uint8)
        self.sizes = sizes
        addresses = iter(range(len(arrays)))
        given = [_address(next(addresses)) if isinstance(a, np.ndarray) else np.asarray(a) for a in arguments]
        self.params = {
            name: np.full(n, np.asarray(value).astype(dtype_of(kind)))
            for (name, kind), value in zip(kernel.params, given, strict=True)
        }

    def _declared(self, arrays: list[Any]) -> tuple[dict[str, int], dict[str, int]]:
        """Return addresses of what the kernel declares, and the bytes of memory of blocks and threads."""
        symbols, sizes = {}, {"shared": 0, "local": 0}
        for name, array in self.kernel.arrays.items():
            if array.space in sizes:
                symbols[name] = sizes[array.space]
                sizes[array.space] += -(-array.size // 16) * 16
            else:
                arrays.append(np.zeros(array.size, np.uint8) if array.held is None else array.held)
                symbols[name] = _address(len(arrays) - 1)
        return symbols, sizes

    def _place(self, arrays: Sequence[Any]) -> None:
        """Give each array a window of addresses; what shares memory is one region."""
        spans: list[tuple[int, int, list[int]]] = []
        for k in sorted(range(len(arrays)), key=lambda k: arrays[k].ctypes.data):
            assert arrays[k].flags.c_contiguous, "a pointer reaches what lies in one line"
            begin = arrays[k].ctypes.data
            end = begin + arrays[k].nbytes
            if spans and begin < spans[-1][1]:
                first, last, members = spans.pop()
                spans.append((first, max(last, end), [*members, k]))
            else:
                spans.append((begin, end, [k]))
        windows = {}
        for begin, end, members in spans:
            memory = (ctypes.c_uint8 * (end - begin)).from_address(begin)
            data = np.frombuffer(memory, np.uint8)
            region = Region(data, min(_granule(arrays[k].dtype) for k in members), written=True)
            for k in members:
                windows[k] = Window(region, arrays[k].ctypes.data - begin, arrays[k].nbytes)
        self.windows = [windows[k] for k in range(len(arrays))]

    # ---- access -------------------------------------------------------------------------------------------

    def access(
        self, space: str, address: Any, dtype: np.dtype[Any], lanes: Lanes, value: Any, where: str
    ) -> Any:
        """Load what lies at addresses, or store `value` there."""
        size = dtype.itemsize
        if (address % size).any():
            raise PTXError(f"{where}: an address that is no multiple of {size}")
        if space != "global":
            if (address + size > self.sizes[space]).any():
                raise PTXError(f"{where}: outside of {space} memory")
            owner = self.block[lanes] if space == "shared" else self.lane[lanes]
            offset = owner.astype(np.int64) * self.sizes[space] + address.astype(np.int64)
            if space == "shared":
                return self._touch(self.shared, offset, dtype, lanes, value, where)
            cells = self.local.view(dtype)
            if value is None:
                return cells[offset // size]
            cells[offset // size] = value
            return None
        if self.moved is not None:
            self.moved["loaded" if value is None else "stored"] += size * np.unique(address).size
        which = (address // WINDOW).astype(np.int64) - 1
        inside = (address % WINDOW).astype(np.int64) - WINDOW // 2
        own = self.lane[lanes]
        out = np.zeros(address.size, dtype) if value is None else None
        for k in np.unique(which):
            some = np.flatnonzero(which == k)
            known = 0 <= k < len(self.windows)
            bad = inside[some] + size > self.windows[k].size if known else np.ones(some.size, bool)
            bad |= inside[some] < 0
            if bad.any():
                thread, at = own[some[bad]][0], inside[some[bad]][0]
                raise PTXError(f"{where}: thread {thread} is at byte {at}, outside of argument {k}")
            offset = inside[some] + self.windows[k].begin
            given = None if value is None else value[some]
            found = self._touch(self.windows[k].region, offset, dtype, own[some], given, where)
            if out is not None:
                out[some] = found
        return out

    def _touch(
        self, r: Region, offset: Any, dtype: np.dtype[Any], lanes: Lanes, value: Any, where: str
    ) -> Any:
        """Access a region, where other threads must not have been since the last barrier."""
        lane, block = self.lane[lanes], self.block[lanes]
        now, note = self.barriers[block], offset // r.granule
        writer, reader = r.writer[note], r.reader[note]
        clash = (writer >= 0) & (writer != lane)
        clash &= (writer // self.threads != block) | (r.wrote[note] == now)
        if value is not None:
            late = r.read[note] == now
            clash |= (reader >= 0) & (reader != lane) & ((reader // self.threads != block) | late)
            clash |= (reader == SEVERAL) & ((r.block[note] != block) | late)
            clash |= reader == EVERYWHERE
        if clash.any():
            k = int(np.flatnonzero(clash)[0])
            raise PTXError(f"{where}: thread {lane[k]} races with thread {writer[k]} or {reader[k]}")
        cells = r.data[: r.data.size // dtype.itemsize * dtype.itemsize].view(dtype)
        if value is None:
            if not r.written and (writer < 0).any():
                raise PTXError(f"{where}: reads shared memory that nobody wrote")
            self._note_reads(r, note, lane, block, now, reader)
            return cells[offset // dtype.itemsize]
        r.writer[note], r.wrote[note] = lane, now
        if (r.writer[note] != lane).any():
            raise PTXError(f"{where}: several threads write to one place")
        cells[offset // dtype.itemsize] = value
        return None

    def _note_reads(self, r: Region, note: Any, lane: Any, block: Any, now: Any, reader: Any) -> None:
        known = reader != -1
        apart = known & (np.where(reader >= 0, reader // self.threads, r.block[note]) != block)
        again = known & (r.read[note] == now) & (reader != lane)
        r.reader[note], r.block[note], r.read[note] = lane, block, now
        twice, beside = r.reader[note] != lane, r.block[note] != block
        r.reader[note[twice | again]] = SEVERAL
        r.reader[note[apart | beside | (reader == EVERYWHERE)]] = EVERYWHERE

    # ---- operands -----------------------------------------------------------------------------------------

    def get(self, operand: str, dtype: np.dtype[Any], lanes: Lanes) -> np.ndarray[Any, Any]:
        """Return an operand as numbers of a dtype."""
        found = self.registers.get(operand)
        if found is None:
            found = self.special.get(operand)
        if found is None:
            return self._constant(operand, dtype, lanes)
        return _as(found[lanes], dtype)

    def _constant(self, operand: str, dtype: np.dtype[Any], lanes: Lanes) -> np.ndarray[Any, Any]:
        n = self.count if isinstance(lanes, slice) else len(lanes)
        if found := re.fullmatch(r"0([fd])(\w{8}|\w{16})", operand):
            kind = np.dtype(np.float32 if found[1] == "f" else np.float64)
            bits = np.array(int(found[2], 16)).astype(f"u{kind.itemsize}")
            return np.full(n, _as(bits.view(kind), dtype))
        value = self.symbols[operand] if operand in self.symbols else int(operand.rstrip("U"), 0)
        if dtype.kind == "b":
            return np.full(n, bool(value))
        return np.full(n, np.array(value & (1 << 64) - 1, np.uint64)).astype(f"u{dtype.itemsize}").view(dtype)

    def put(self, operand: str, lanes: Lanes, value: np.ndarray[Any, Any]) -> None:
        """Write to a register; what is narrower is extended by its sign."""
        if operand == "_":
            return
        register = self.registers[operand]
        register[lanes] = _as(value, register.dtype)


def _as(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the bits of numbers as another dtype: cut, or extended by the sign if there is one."""
    if value.dtype == dtype:
        return value
    if "b" in (dtype.kind, value.dtype.kind):
        raise PTXError(f"{value.dtype} where a {dtype} is asked for")
    if value.dtype.itemsize == dtype.itemsize:
        return value.view(dtype)
    whole = value if value.dtype.kind in "iu" else value.view(f"u{value.dtype.itemsize}")
    return whole.astype(f"{whole.dtype.kind}{dtype.itemsize}").view(dtype)


# ---- arithmetic -------------------------------------------------------------------------------------------


@cache
def _fused(name: str) -> Any:
    """Return C's fma or fmaf as a universal function."""
    f = getattr(ctypes.CDLL(ctypes.util.find_library("m")), name)
    f.restype = kind = {"fma": ctypes.c_double, "fmaf": ctypes.c_float}[name]
    f.argtypes = [kind] * 3
    dtype = {"fma": "float64", "fmaf": "float32"}[name]
    return numba.vectorize([f"{dtype}({dtype}, {dtype}, {dtype})"])(lambda a, b, c: f(a, b, c))


def _directed(exact: Any, mode: str) -> Any:
    """Return doubles as singles, rounded down, up or to zero."""
    near = exact.astype(np.float32)
    wide = near.astype(np.float64)
    low, high = np.float32(-np.inf), np.float32(np.inf)
    if mode == "rm":
        return np.where(wide > exact, np.nextafter(near, low), near)
    if mode == "rp":
        return np.where(wide < exact, np.nextafter(near, high), near)
    return np.where(np.abs(wide) > np.abs(exact), np.nextafter(near, np.float32(0)), near)


def _mad(a: Any, b: Any, c: Any, mode: str) -> Any:
    if a.dtype == np.float64:
        assert mode == "rn"
        return _fused("fma")(a, b, c)
    if mode == "rn":
        return _fused("fmaf")(a, b, c)
    return _directed(a.astype(float) * b + c, mode)


def _trunc_div(a: Any, b: Any) -> Any:
    """Divide whole numbers towards zero; by zero there is nothing to rely on."""
    safe = np.where(b == 0, b.dtype.type(1), b)
    if a.dtype.kind == "u":
        return a // safe
    quotient = np.abs(a).view(f"u{a.itemsize}") // np.abs(safe).view(f"u{a.itemsize}")
    return np.where((a < 0) != (safe < 0), -quotient.view(a.dtype), quotient.view(a.dtype))


def _high(a: Any, b: Any) -> Any:
    """Return the upper half of products of whole numbers of 32 or 64 bits."""
    bits = 8 * a.itemsize
    if bits == 32:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(32)).astype(a.dtype)
    product = [int(x) * int(y) >> 64 for x, y in zip(a, b, strict=True)]
    return np.array([p & (1 << 64) - 1 for p in product], np.uint64).view(a.dtype)


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")


def _carried(op: str, given: list[Any], high: bool, carry: Any) -> tuple[Any, Any]:
    """Return sums, differences, or sums with products, of whole numbers, and what they carry to the next."""
    given = [x.view(f"u{x.itemsize}") if not (high and x.dtype.kind == "i") else x for x in given]
    dtype, bits = given[0].dtype, 8 * given[0].itemsize
    a, *b = (x.astype(object) for x in given)
    if op.startswith("mad"):
        a = a * b[0]
        a = a >> bits if high else a & (1 << bits) - 1
    total = a - b[-1] if op.startswith("sub") else a + b[-1]
    if op.endswith("c"):
        total = total + (-1 if op.startswith("sub") else 1) * carry.astype(object)
    value = (total & (1 << bits) - 1).astype(f"u{dtype.itemsize}").view(dtype)
    return value, ((total < 0) | (total >= 1 << bits)).astype(bool)


def _shift(op: str, a: Any, n: Any) -> Any:
    bits = 8 * a.itemsize
    amount = np.minimum(n, bits - 1).astype(a.dtype)
    moved = a << amount if op == "shl" else a >> amount
    gone = a.dtype.type(0) if op == "shl" or a.dtype.kind == "u" else moved
    return np.where(n >= bits, gone, moved)


def _flushed(x: Any) -> Any:
    """Return singles with zeros for what is smaller than normal ones."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, np.copysign(x.dtype.type(0), x), x)


def _upper(x: Any) -> Any:
    """Return doubles with zeros for the lower half of their bits."""
    return (x.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "neg": np.negative,
    "not": lambda x: ~x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: x.dtype.type(1) / x,
    "ex2": np.exp2,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "clz": lambda x: np.array([8 * x.itemsize - int(v).bit_length() for v in x], np.uint32),
    "popc": lambda x: np.bitwise_count(x).astype(np.uint32),
    "mov": lambda x: x,
    "cvta": lambda x: x,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": lambda a, b: a / b if a.dtype.kind == "f" else _trunc_div(a, b),
    "rem": lambda a, b: a - _trunc_div(a, b) * b,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": lambda a, b: np.fmin(a, b),
    "max": lambda a, b: np.fmax(a, b),
    "copysign": lambda a, b: np.copysign(b, a),
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": lambda a, b: (a != b) & (a == a) & (b == b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    COMPARE[f"{_name}u"] = lambda a, b, f=COMPARE[_name]: f(a, b) | (a != a) | (b != b)


def _converted(x: Any, to: np.dtype[Any], marks: Sequence[str]) -> Any:
    """Return numbers as another dtype: rounded as the marks say, within bounds; NaN is zero."""
    if to.kind == "f":
        if x.dtype.kind == "f" and x.dtype.itemsize == to.itemsize:
            x = _whole(x, marks)
        elif mode := {"rm", "rp", "rz"} & set(marks):
            assert to == np.float32
            x = _directed(x.astype(np.float64), mode.pop())
        x = x.astype(to)
        return np.where(x != x, to.type(0), np.clip(x, 0, 1)) if "sat" in marks else x
    if x.dtype.kind == "f":
        x = _whole(x, marks)
        info = np.iinfo(to)
        low, high = float(info.min), float(info.max)
        inside = np.where((x > low) & (x < high), x, 0).astype(to)
        return np.select([x >= high, x <= low], [to.type(info.max), to.type(info.min)], inside)
    if "sat" in marks:
        raise NotImplementedError(f"{marks} of whole numbers")
    return x.astype(to)


def _whole(x: Any, marks: Sequence[str]) -> Any:
    for mark, f in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        if mark in marks:
            return f(x)
    return x


# ---- instructions -----------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]")
_IGNORED = {"rn", "ftz", "approx", "full", "global", "to", "lo", "uni", "nc"}


def execute(m: Machine, i: Instruction, lanes: Lanes) -> None:
    """Do what an instruction says that is no jump."""
    op, *marks = i.opcode
    out, *given = i.operands
    kinds = [k for k in marks if re.fullmatch(r"[subf](8|16|32|64)|pred", k)]
    dtype = dtype_of(kinds[0]) if kinds else None
    rest = set(marks) - set(kinds)
    if "cc" in rest or op in ("addc", "subc", "madc"):
        given = [m.get(x, dtype, lanes) for x in given]
        value, m.carry[lanes] = _carried(op, given, "hi" in rest, m.carry[lanes])
        m.put(out, lanes, value)
        return
    if op in ("ld", "st", "ldu"):
        _memory(m, i, lanes, dtype, rest)
        return
    if op == "setp":
        _compare(m, out, given, marks, dtype, lanes)
        return
    if op == "selp":
        a, b = (m.get(x, dtype, lanes) for x in given[:2])
        m.put(out, lanes, np.where(m.get(given[2], np.dtype(bool), lanes), a, b))
        return
    if op == "cvt":
        to, of = map(dtype_of, kinds)
        x = m.get(given[0], of, lanes)
        m.put(out, lanes, _converted(_flushed(x) if "ftz" in rest and of == np.float32 else x, to, marks))
        return
    if op == "mov" and "{" in i.text:
        _packed(m, out, given[0], dtype, lanes)
        return
    if op == "cvta" and rest & {"shared", "local"}:
        base = np.uint64(SHARED if "shared" in rest else 2 * SHARED)
        x = m.get(given[0], dtype, lanes)
        m.put(out, lanes, x - base if "to" in rest else x + base)
        return
    if op in ("mul", "mad") and "wide" in rest:
        a, b = (m.get(x, dtype, lanes).astype(_wide(dtype)) for x in given[:2])
        value = a * b if op == "mul" else a * b + m.get(given[2], _wide(dtype), lanes)
    elif op in ("mul", "mad") and "hi" in rest:
        value = _high(*(m.get(x, dtype, lanes) for x in given[:2]))
        value = value if op == "mul" else value + m.get(given[2], dtype, lanes)
    elif op in ("fma", "mad"):
        a, b, c = (m.get(x, dtype, lanes) for x in given)
        mode = ({"rm", "rp", "rz"} & rest or {"rn"}).pop()
        value = a * b + c if dtype.kind != "f" else _mad(a, b, c, mode)
    elif op == "bfi":
        new, old = (m.get(x, dtype, lanes) for x in given[:2])
        at, bits = (int(x) for x in given[2:])
        mask = dtype.type(((1 << bits) - 1 << at) & (1 << 8 * dtype.itemsize) - 1)
        value = (new << dtype.type(at)) & mask | old & ~mask
    elif op in ("shl", "shr"):
        value = _shift(op, m.get(given[0], dtype, lanes), m.get(given[1], np.dtype(np.uint32), lanes))
    elif op in UNARY:
        value = UNARY[op](m.get(given[0], dtype, lanes))
    elif op in BINARY:
        a, b = (m.get(x, dtype, lanes) for x in given)
        mode = rest & {"rm", "rp", "rz"}
        if mode and dtype == np.float32:
            value = _directed(BINARY[op](a.astype(float), b.astype(float)), mode.pop())
        else:
            value = BINARY[op](a, b)
        if op in ("min", "max") and "NaN" in rest:
            value = np.where((a != a) | (b != b), np.nan, value)
    else:
        raise NotImplementedError(i.text)
    unknown = rest - _IGNORED - {"wide", "hi", "rm", "rp", "rz", "sat", "NaN"}
    if unknown or (rest & {"rm", "rp", "rz"} and dtype != np.float32):
        raise NotImplementedError(i.text)
    if dtype == np.float32 and "ftz" in rest:
        value = _flushed(value)
    if dtype == np.float64 and "approx" in rest:
        value = _upper(value)
    if "sat" in rest:
        value = np.where(value != value, 0, np.clip(value, 0, 1)).astype(dtype)
    m.put(out, lanes, value)


def _compare(m: Machine, out: str, given: list[str], marks: Sequence[str], dtype: Any, lanes: Lanes) -> None:
    a, b = (m.get(x, dtype, lanes) for x in given[:2])
    value = COMPARE[marks[0]](a, b)
    for name, f in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        if name in marks:
            value = f(value, m.get(given[2], np.dtype(bool), lanes))
    assert "|" not in out, out
    m.put(out, lanes, value)


def _packed(m: Machine, out: str, given: str, dtype: Any, lanes: Lanes) -> None:
    """Take a number apart, or put one together; the lowest bits come first."""
    parts = (out if out.startswith("{") else given).strip("{}").split(",")
    half = np.dtype(f"u{dtype.itemsize // len(parts)}")
    names = [p.strip() for p in parts]
    if out.startswith("{"):
        cells = np.ascontiguousarray(m.get(given, dtype, lanes)).view(half).reshape(-1, len(names))
        for k, name in enumerate(names):
            m.put(name, lanes, cells[:, k])
        return
    cells = np.stack([m.get(name, half, lanes) for name in names], 1)
    m.put(out, lanes, np.ascontiguousarray(cells).view(f"u{dtype.itemsize}").reshape(-1))


def _memory(m: Machine, i: Instruction, lanes: Lanes, dtype: Any, rest: set[str]) -> None:
    loads = i.opcode[0] != "st"
    place, value = i.operands if not loads else i.operands[::-1]
    found = _ADDRESS.fullmatch(place)
    assert found is not None, i.text
    base, offset = found[1], int(found[2] or "0", 0)
    if "param" in rest:
        name = f"{base}+{offset}" if offset else base
        if loads:
            m.put(value, lanes, _as(m.params[name][lanes], dtype))
        else:
            held = m.params.setdefault(name, np.zeros(m.count, dtype))
            held[lanes] = m.get(value, dtype, lanes)
        return
    space = next((s for s in ("shared", "local") if s in rest), "global")
    address = m.get(base, np.dtype(np.uint64), lanes) + np.uint64(offset & (1 << 64) - 1)
    if not rest & {"shared", "local", "global", "const"} and (address >= SHARED).any():
        space = "local" if (address >= 2 * SHARED).any() else "shared"
        address = address - np.uint64(2 * SHARED if space == "local" else SHARED)
    for k, name in enumerate(value.strip("{}").split(",")):
        at = address + np.uint64(k * dtype.itemsize)
        if loads:
            m.put(name.strip(), lanes, m.access(space, at, dtype, lanes, None, i.text))
        else:
            m.access(space, at, dtype, lanes, m.get(name.strip(), dtype, lanes), i.text)


def run(m: Machine) -> None:
    """Run all threads to their end.

    Raises:
        PTXError: they race, read or write where they must not, or wait for one another at different places.
    """
    code, labels, meeting = m.kernel.code, m.kernel.labels, set(m.kernel.labels.values())
    at = np.zeros(m.count, np.int64)
    alive, waits = np.ones(m.count, bool), np.zeros(m.count, bool)
    everyone = slice(None)
    for _ in range(STEPS):
        ready = alive & ~waits
        if not ready.any():
            if not alive.any():
                return
            _meet(m, at, alive, waits)
            continue
        k = int(at[ready].min())
        here = ready & (at == k)
        count, others = int(here.sum()), int(ready.sum())
        lanes: Lanes = everyone if count == m.count else np.flatnonzero(here)
        while True:
            i = code[k]
            some = _guarded(m, i, lanes)
            op = i.opcode[0]
            k += 1
            if op == "bra":
                target = labels[i.operands[0]]
                at[lanes] = k
                at[some] = target
                break
            if op in ("ret", "exit"):
                at[lanes] = k
                alive[some] = False
                break
            if op in ("bar", "barrier"):
                at[lanes] = k
                waits[some] = True
                break
            if isinstance(some, slice) or len(some):
                execute(m, i, some)
            if k in meeting and count < others:
                at[lanes] = k
                break
    raise PTXError("a loop without an end")


def _guarded(m: Machine, i: Instruction, lanes: Lanes) -> Lanes:
    """Return those of the threads for which an instruction is."""
    if not i.guard:
        return lanes
    on = m.registers[i.guard][lanes]
    on = ~on if i.negated else on
    if on.all():
        return lanes
    return np.flatnonzero(on) if isinstance(lanes, slice) else lanes[on]


def _meet(m: Machine, at: Any, alive: Any, waits: Any) -> None:
    """Let threads go on that wait at a barrier, as all of their block do."""
    waiting = np.flatnonzero(waits)
    blocks = m.block[waiting]
    where = np.full(m.blocks, -1)
    where[blocks] = at[waiting]
    if (where[blocks] != at[waiting]).any():
        raise PTXError("threads of a block wait at different barriers")
    gone = ~alive & np.isin(m.block, blocks)
    if gone.any():
        raise PTXError("threads of a block wait for some that have ended")
    m.barriers[np.unique(blocks)] += 1
    waits[:] = False
