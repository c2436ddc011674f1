"""Damages stored programs in any number of ways: `python -m tests.archive.mutate --count N --seed S`.

A mutant is refused by ValueError, or it is a program: it runs, gives what it says that it gives, and raises
nothing but what depends on the values of its arguments. Mutants run in child processes with little memory;
a process that dies, hangs or grows is a failure like any other. Each mutant has a number, so that it is made
again by `--first NUMBER --count 1`.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import hashlib
import json
import math
import mmap
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.archive.corpus import Entry, programs, rows

import fgrad as fg
from fgrad import tree
from fgrad.archive.container import DTYPES, unpacked
from fgrad.archive.reading import Reader
from fgrad.compiler.executable import Executable
from fgrad.core.aval import aval_of
from fgrad.core.primitive import PRIMITIVES
from fgrad.core.program import Program, Var
from fgrad.core.trace import running

MAX_BYTES = 2**24
MEMORY = 2**30  # of the address space that a child may take beyond what it has
SECONDS = 5  # of the processor that a mutant may take, if it has no loop
KINDS = ("raw", "digest", "field", "typed")
BY_VALUE = {  # primitives whose errors depend on the values of operands, and the errors
    **dict.fromkeys(("gather", "scatter_add", "put", "winners", "representative"), (IndexError,)),
    "pivot_order": (IndexError,),
    "riccati": (ValueError,),
    "rank": (IndexError, ValueError),
    "search": (),
    "fitted": (OverflowError, ValueError),
    "require": (ValueError, ZeroDivisionError),
    "draw": (ValueError,),
    "roots": (ValueError, np.linalg.LinAlgError),
    "power": (ValueError,),  # integers to negative integers
    # orders that are no whole numbers
    **dict.fromkeys((f"spherical_{kind}" for kind in ("jn", "yn", "in", "kn")), (ValueError,)),
    **dict.fromkeys(("eval_hermite", "eval_hermitenorm", "lambertw"), (ValueError,)),
}


# ---- mutation ----------------------------------------------------------------------------------------------


class Original(NamedTuple):
    """A program, with its parts."""

    name: str
    data: bytes
    header: Any
    tail: bytes  # what stands behind the header, without the digest
    pieces: list[Any]


def original(entry: Entry) -> Original:
    """Return a program taken apart."""
    length = int.from_bytes(entry.data[12:20], "little")
    header = json.loads(entry.data[20 : 20 + length])
    start = 20 + length
    start += -start % 64 if header["arrays"] else 0
    return Original(entry.name, entry.data, header, entry.data[start:-32], [*parts(header)])


def parts(x: Any) -> Iterator[Any]:
    """Yield a JSON value and all that is in it."""
    yield x
    for part in x.values() if isinstance(x, dict) else x if isinstance(x, list) else ():
        yield from parts(part)


def sealed(body: bytes) -> bytes:
    """Return bytes with a right digest."""
    return body + hashlib.sha256(body).digest()


def rebuilt(header: Any, tail: bytes, version: int = 2) -> bytes:
    """Return a file with a header, and a right digest."""
    text = json.dumps(header, separators=(",", ":")).encode()
    body = struct.pack("<8sIQ", b"\x89fgrad\r\n", version, len(text)) + text
    return sealed(body + bytes(-len(body) % 64 if tail else 0) + tail)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with some changed, left out, put in, or repeated."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        i = rng.randrange(max(1, len(made)))
        n = rng.choice((1, 1, 4, 16, 64))
        match rng.randrange(6):
            case 0:
                made[i : i + 1] = bytes([rng.randrange(256)])
            case 1:
                made[i : i + 1] = bytes([made[i] ^ 1 << rng.randrange(8)]) if made else b""
            case 2:
                del made[i : i + n]
            case 3:
                made[i:i] = rng.randbytes(n)
            case 4:
                made[i:i] = made[i : i + n]
            case _:
                j = rng.randrange(max(1, len(made)))
                made[i : i + n] = made[j : j + n]
    return bytes(made)


LARGE = (2**16, 2**20, 2**31, 2**32, 2**33, 2**40, 2**48, 2**63, -(2**63), 2**70)
NUMBERS = (-1, 0, 1, 2, 3, 4, 7, 8, 64, *LARGE)
OTHERS = (
    *(None, True, False, "", "x", "\0\n", "\ud800", "{}", "sum", "lower", [], {}, {"var": 0}),
    *({"tuple": []}, {"tuple": [0, 0]}, {"tuple": [-1]}, {"list": [0, 1]}, {"slice": [None, None, -1]}),
    *({"float": "nan"}, {"float": "1e308"}, {"float": "-0.0"}, {"hole": None}, {"ellipsis": None}),
    *({"array": 0}, {"scalar": 0}, {"dtype": "float16"}),
)
NAMES = sorted(DTYPES)


def changed(x: Any, rng: random.Random, others: Sequence[Any]) -> Any:
    """Return a JSON value with one place changed, mostly to what could stand there."""
    if isinstance(x, dict | list) and x and rng.random() < 0.93:
        x = x.copy()
        k = rng.choice(list(x)) if isinstance(x, dict) else rng.randrange(len(x))
        chance = rng.random()
        if chance < 0.03:
            del x[k]
        elif chance < 0.06 and isinstance(x, list):
            x.insert(k, x[k])
        elif chance < 0.09 and isinstance(x, list):
            j = rng.randrange(len(x))
            x[k], x[j] = x[j], x[k]
        else:
            x[k] = changed(x[k], rng, others)
        return x
    if rng.random() < 0.75:  # of the same kind
        if type(x) is int:
            return rng.choice((x + 1, x - 1, 2 * x, -x, rng.choice(NUMBERS)))
        if type(x) is bool:
            return not x
        if type(x) is str and x in DTYPES:
            return rng.choice(NAMES)
        same = [o for o in others if type(o) is type(x)]
        if same:
            return rng.choice(same)
    return rng.choice((rng.choice(OTHERS), rng.choice(NUMBERS), rng.choice(others)))


def by_rows(header: Any, rng: random.Random) -> Any:
    """Return a program in which primitives, shapes or dtypes of operands are others, as typed as it was."""
    header = json.loads(json.dumps(header))
    program = header["program"]
    if rng.random() < 0.3 and program["equations"]:
        e = rng.choice(program["equations"])
        alike = [n for n in STORED if STORED[n].params.keys() == STORED[e[0]].params.keys()]
        e[0] = rng.choice(alike or [e[0]])
    for aval in program["inputs"]:
        if rng.random() < 0.4:
            aval[0] = rng.choice(NAMES)
        if rng.random() < 0.4:
            n = rng.choice((0, 1, 1, 2, 2, 3, 4, 5))
            shape = aval[1]
            match rng.randrange(5):
                case 0 if shape:
                    shape[rng.randrange(len(shape))] = n
                case 1:
                    shape.insert(rng.randrange(len(shape) + 1), n)
                case 2 if shape:
                    del shape[rng.randrange(len(shape))]
                case 3:
                    aval[1] = list(rng.choice(program["inputs"])[1])
                case _:
                    aval[1] = [0 if rng.random() < 0.1 else m for m in shape]
    for e in program["equations"]:
        if e[2] and rng.random() < 0.5:
            k = rng.choice(list(e[2]))
            e[2][k] = changed(e[2][k], rng, [*parts(json.loads(json.dumps(e[2])))])
    return header


def repaired(header: Any, tail: bytes) -> Any:
    """Return a program whose equations give what the rules of their primitives say, as far as they do."""
    program = header["program"]
    try:
        _, arrays, version = unpacked(rebuilt({**header}, tail))
        reader = Reader(arrays, version, MAX_BYTES)
        env = [Var(reader.aval(a), "v") for a in program["inputs"]]
        for e in program["equations"]:
            name, operands, given, outs = e
            args = [reader.operand(a, env) for a in operands]
            found = reader.infer(name, args, {k: reader.value(v) for k, v in given.items()}, len(outs))
            e[3] = [[a.dtype.name, list(a.shape)] for a in found]
            env += [Var(a, "v") for a in found]
    except Exception:
        return header
    return header


STORED = {name: p.stored for name, p in sorted(PRIMITIVES.items()) if not isinstance(p.stored, str)}


def mutant(originals: Sequence[Original], seed: str, number: int) -> tuple[str, str, bytes]:
    """Return the kind, the origin and the bytes of a mutant."""
    rng = random.Random(f"{seed}-{number}")
    o = rng.choice(originals)
    kind = rng.choices(KINDS, (1, 3, 8, 8))[0]
    if kind == "raw":
        return kind, o.name, damaged(o.data, rng)
    if kind == "digest":
        return kind, o.name, sealed(damaged(o.data[:-32], rng))
    if kind == "typed":
        header = by_rows(o.header, rng)
    else:
        header = o.header
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            header = changed(header, rng, o.pieces)
    if isinstance(header, dict) and rng.random() < (1.0 if kind == "typed" else 0.5):
        with contextlib.suppress(Exception):
            header = repaired(json.loads(json.dumps(header)), o.tail)
    return kind, o.name, rebuilt(header, o.tail, rng.choices((2, 1, 3), (30, 2, 1))[0])


# ---- what has to hold --------------------------------------------------------------------------------------


class Late(BaseException):
    """A mutant took too long."""


def checked(data: bytes, rng: random.Random, *, compiled: bool) -> tuple[str, str]:
    """Return what became of a mutant, and what is wrong with that."""
    try:
        loaded = fg.load(data, max_bytes=MAX_BYTES)
    except ValueError as error:
        return "refused", "" if str(error) else "no message"
    except Exception as error:
        return "refused", f"load raises {described(error)}"
    program = loaded.program
    args = [values(v.aval, rng) for v in program.inputs]
    allowed = errors(program)
    plain = outcome(lambda: program.run(args), allowed)
    if isinstance(plain, str):
        return "ran", f"{plain}, by {shown(program)}"
    if plain is not None:
        wrong = mistyped(program, plain)
        if wrong:
            return "ran", wrong
    if not compiled:
        return "ran", ""
    stored = loaded._stored
    given = [int(x) if i in dict(stored.limits) else x for i, x in enumerate(args)]
    positional, named = tree.unflatten(stored.structure, given)
    whole = outcome(
        lambda: loaded(*positional, **named), (*allowed, OverflowError) if stored.limits else allowed
    )
    if isinstance(whole, str):
        return "compiled", f"called: {whole}, by {shown(program)}"
    fast = outcome(lambda: Executable(program).run(args), allowed)
    if isinstance(fast, str):
        return "compiled", f"compiled: {fast}, by {shown(program)}"
    if fast is not None:
        wrong = mistyped(program, fast)
        if wrong:
            return "compiled", f"compiled: {wrong}"
        if plain is not None and not draws(program):
            for a, b in zip(plain, fast, strict=True):
                if not alike(np.asarray(getattr(a, "_value", a)), b):
                    return "compiled", f"compiled: {b} is not {a}, in {shown(program)}"
    return "compiled", ""


def outcome(run: Callable[[], Any], allowed: tuple[type[Exception], ...]) -> Any:
    """Return results, None for an error that depends on values, or what is wrong."""
    try:
        with running(()), np.errstate(all="ignore"):
            return run()
    except allowed:
        return None
    except Exception as error:
        return None if "the order must be an integer" in str(error) else f"raises {described(error)}"


def described(error: Exception) -> str:
    """Return an error, and where it comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[::-1][:4])
    return f"{type(error).__name__}: {str(error)[:200]} ({where})"


def errors(program: Program) -> tuple[type[Exception], ...]:
    """Return the errors that depend on the values of arguments."""
    found: set[type[Exception]] = {np.linalg.LinAlgError}
    for e in program.equations:
        found.update(BY_VALUE.get(e.name, ()))
        if "code" in e.params:
            for p in e.params["code"].inner():
                found.update(errors(p))
    return tuple(found)


def draws(program: Program) -> bool:
    """Return whether results may differ between runs, or are only known to rounding errors that grow."""
    return any("code" in e.params for e in program.equations)


def mistyped(program: Program, outs: Sequence[Any]) -> str:
    """Return what is wrong with the shapes and dtypes of results."""
    for y, out in zip(program.outputs, outs, strict=True):
        wanted = y.aval if isinstance(y, Var) else aval_of(y)
        if isinstance(y, Var) and aval_of(out) != wanted:
            return f"gives {aval_of(out)}, not {wanted}, by {shown(program)}"
    return ""


def shown(program: Program) -> str:
    """Return a program in one line."""
    return " | ".join(str(program).split("\n"))[:600]


def alike(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether arrays are equal up to rounding; what is huge or tiny is not looked at."""
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        scale = max(1.0, float(np.max(np.abs(a), initial=0, where=np.isfinite(a))))
        eps = float(np.finfo(a.dtype).eps)
        near = np.isclose(a, b, rtol=1e3 * eps**0.5, atol=1e3 * eps**0.5 * scale, equal_nan=True)
        return bool(np.all(near | ~np.isfinite(a) | ~np.isfinite(b)))


def values(aval: Any, rng: random.Random) -> Any:
    """Return an array like `aval`."""
    made = np.random.default_rng(rng.randrange(2**32))
    if aval.dtype.kind == "b":
        return made.random(aval.shape) < 0.5
    if aval.dtype.kind in "iu":
        return made.integers(0, rng.choice((1, 2, 4)), aval.shape).astype(aval.dtype)
    x = made.uniform(*rng.choice(((0, 1), (-2, 2), (0.2, 0.8), (1, 3), (0, 0))), aval.shape)
    return (x + 1j * x[..., ::-1] if aval.dtype.kind == "c" and x.ndim else x).astype(aval.dtype)


# ---- many of them ------------------------------------------------------------------------------------------


class Session:
    """Checks mutants in child processes."""

    def __init__(self, seed: str, originals: Sequence[Original], compiled: int) -> None:
        self.seed, self.originals, self.compiled = seed, originals, compiled
        self.counts: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self, first: int, count: int, chunk: int = 5000, seconds: float = math.inf) -> int:
        """Check mutants `first` to before `first` + `count`, as far as time allows; return how many."""
        at, began = first, time.monotonic()
        while at < first + count and time.monotonic() < began + seconds:
            at = self._chunk(at, min(at + chunk, first + count))
        return at - first

    def _chunk(self, start: int, stop: int) -> int:
        """Check some mutants in a child; return the number of the next one."""
        with mmap.mmap(-1, 16) as place, tempfile.TemporaryFile("w+") as file:  # which mutant, and since when
            return self._forked(start, stop, place, file)

    def _forked(self, start: int, stop: int, place: mmap.mmap, file: Any) -> int:
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            try:
                self._child(start, stop, place, file)
            except BaseException:
                traceback.print_exc(file=file)
                file.flush()
            finally:
                os._exit(0)
        status = self._watched(pid, place)
        at, _ = struct.unpack("<qd", place[:16])
        file.seek(0)
        text = file.read().splitlines()
        for line in text:
            if line.startswith("="):
                self.counts.update(json.loads(line[1:]))
            elif line.startswith("!"):
                self.failures.append(json.loads(line[1:]))
        if status == 0 and at == stop:
            return stop
        trace = "\n".join(line for line in text if line[:1] not in "=!")
        self.failures.append(f"{at}: the process ended with {status}\n{trace[-3000:]}")
        self.counts["died"] += 1
        return at + 1

    def _watched(self, pid: int, place: mmap.mmap) -> int:
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return status
            _, began = struct.unpack("<qd", place[:16])
            if began and time.monotonic() - began > 12 * SECONDS:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def _child(self, start: int, stop: int, place: mmap.mmap, file: Any) -> None:
        faulthandler.enable(file)
        warnings.simplefilter("ignore")
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))

        def late(*_: Any) -> None:
            raise Late

        signal.signal(signal.SIGPROF, late)
        counts: Counter[str] = Counter()
        for number in range(start, stop):
            place[:16] = struct.pack("<qd", number, time.monotonic())
            kind, name, data = mutant(self.originals, self.seed, number)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            compiled = bool(self.compiled) and number % self.compiled == 0
            try:
                what, wrong = checked(data, random.Random(number), compiled=compiled)
            except Late:
                what, wrong = "late", "" if b"lax." in data else "takes too long"
            except BaseException as error:
                what, wrong = "failed", f"{type(error).__name__}: {error}"
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            counts[f"{kind}: {what}"] += 1
            if wrong:
                counts["wrong"] += 1
                file.write("!" + json.dumps(f"{number} ({kind} of {name}): {wrong}") + "\n")
                file.flush()
        file.write("=" + json.dumps(counts) + "\n")
        file.flush()
        place[:16] = struct.pack("<qd", stop, 0.0)


def session(seed: str, each: int = 3, compiled: int = 0) -> Session:
    """Return what checks mutants of the whole corpus."""
    entries = [*rows(each), *programs() * max(1, each * 4)]
    for e in programs():
        fg.load(e.data)
    return Session(seed, [original(e) for e in entries], compiled)


def main() -> int:
    """Run as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no more begin")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--each", type=int, default=3, help="samples of each primitive")
    parser.add_argument("--compiled", type=int, default=0, help="compile one of so many; 0 compiles none")
    parser.add_argument("--show", type=int, default=40, help="failures that are shown")
    options = parser.parse_args()
    began = time.monotonic()
    s = session(options.seed, options.each, options.compiled)
    count = s.run(options.first, options.count, seconds=60 * options.minutes)
    for line in s.failures[: options.show]:
        print(line)
    for k in sorted(s.counts):
        print(f"{s.counts[k]:10} {k}")
    print(f"{count} mutants in {time.monotonic() - began:.0f} s, {len(s.failures)} failures")
    return bool(s.failures)


if __name__ == "__main__":
    sys.exit(main())
