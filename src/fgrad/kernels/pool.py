"""The thread pool: workers that share a loop without the interpreter, by machine code that waits spinning.

To wake a sleeping thread takes some thirty microseconds, and so does the interpreter's lock when a thread
gives it away between two pieces: as long as a loop over 10^5 numbers. So a worker that has done something
keeps looking for more for `PATIENCE` seconds before it sleeps, and the caller looks on until all is done.

The *work queue* is what callers and workers see: words of memory, in lines of the cache that do not disturb
each other, with place for one loop. How that goes from a caller to the workers and back:

| word | from     | to           | by |
|------|----------|--------------|----|
| BUSY | 0        | 1            | a caller; one who finds 1 runs its loop alone |
| GATE | 0        | OPEN         | that caller, who has written the loop and its bounds before |
| GATE | OPEN + n | OPEN + n + 1 | a worker, who reads the loop afterwards, not before |
| NEXT | lo       | hi           | the caller or a worker inside, who then runs what is between |
| GATE | OPEN + n | n            | the caller, who found no step left; from now on nobody comes in |
| GATE | any      | one less     | a worker who found no step left, and has run all that it took |
| GATE | 0        |              | is what the caller waits for: nobody is inside |
| BUSY | 1        | 0            | the caller, who returns |

Nobody depends on anybody who might not come: a worker that sleeps, or was never started, or is that of
another process after a fork, is one that does not enter. `tests/kernels/interleavings.py` goes through every
order in which threads can do this, instruction by instruction.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from array import array
from threading import Lock, Thread
from time import perf_counter, sleep, thread_time
from typing import Any, NamedTuple

import numpy as np

from fgrad import config, locks
from fgrad.blocks import suppress
from fgrad.kernels import compilation

PATIENCE = 500e-6  # seconds that a thread spins before it sleeps
WAIT = 1 / 8  # of this, a caller: a worker that has lost its core may get that of the caller
TOLERATED = 4  # of the time that a caller works, this part of it may it wait for others
NAP = 50e-6  # seconds that a caller sleeps between two looks, once it has lost its patience
PIECES = 64  # of a loop, at most, if they were equal
REST = 1e-3  # seconds that a worker stays away, at least, after it has lost its core
FREE = 0.8  # of the time that a worker wants to run, it does, where no other thread wants its core
OPEN = 1 << 32

# The words of a work queue; those that different threads write lie in different lines of the cache.
SHARE, PARTS, TURNS, SLEEP, TIME = range(5)  # address of @share, threads, ..., a C function, its argument
GATE, BUSY = 8, 9
NEXT = 16
FUNCTION, SLOTS, ARGS, STOP, LEAST, LATE = range(24, 30)  # the loop, and whether a caller waited for too long
WORDS = 32
LINE = 8  # words

_PAUSES = {
    "x86_64": "@llvm.x86.sse2.pause()",
    "amd64": "@llvm.x86.sse2.pause()",
    "aarch64": "@llvm.aarch64.hint(i32 1)",
    "arm64": "@llvm.aarch64.hint(i32 1)",
}
_CLOCKS = {  # which count at a constant rate
    "x86_64": "@llvm.readcyclecounter()",
    "amd64": "@llvm.readcyclecounter()",
    "aarch64": 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
    "arm64": 'asm sideeffect "mrs $0, cntvct_el0", "=r"()',
}
_TEXT = """
declare void {pause_type}
declare i64 @llvm.readcyclecounter()

define internal void @pieces(ptr %queue) {{
entry:
  {FUNCTION}
  {SLOTS}
  {ARGS}
  {STOP}
  {LEAST}
  {PARTS}
  {NEXT}
  %function = load ptr, ptr %FUNCTION
  %slots = load ptr, ptr %SLOTS
  %args = load ptr, ptr %ARGS
  %stop = load atomic i64, ptr %STOP monotonic, align 8
  %least = load i64, ptr %LEAST
  %parts = load i64, ptr %PARTS
  br label %look
look:
  %lo = load atomic i64, ptr %NEXT monotonic, align 8
  %left = sub i64 %stop, %lo
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %take, label %end
take:  ; half of a fair part: large pieces first, to be quick, and small ones last, so that all end together
  %part = sdiv i64 %left, %parts
  %half = ashr i64 %part, 1
  %enough = icmp sgt i64 %half, %least
  %size = select i1 %enough, i64 %half, i64 %least
  %rest = icmp sgt i64 %size, %left
  %count = select i1 %rest, i64 %left, i64 %size
  %hi = add i64 %lo, %count
  %pair = cmpxchg ptr %NEXT, i64 %lo, i64 %hi monotonic monotonic, align 8
  %mine = extractvalue {{i64, i1}} %pair, 1
  br i1 %mine, label %run, label %look
run:
  call void %function(ptr %slots, ptr %args, i64 %lo, i64 %hi)
  br label %look
end:
  ret void
}}

define void @share(ptr %queue, ptr %loop, i64 %lo, i64 %hi) {{
entry:
  {BUSY}
  %slots.at = getelementptr i64, ptr %loop, i64 1
  %args.at = getelementptr i64, ptr %loop, i64 2
  %function = load ptr, ptr %loop
  %slots = load ptr, ptr %slots.at
  %args = load ptr, ptr %args.at
  %pair = cmpxchg ptr %BUSY, i64 0, i64 1 acquire monotonic, align 8
  %free = extractvalue {{i64, i1}} %pair, 1
  br i1 %free, label %put, label %alone
alone:
  call void %function(ptr %slots, ptr %args, i64 %lo, i64 %hi)
  ret void
put:
  {FUNCTION}
  {SLOTS}
  {ARGS}
  {STOP}
  {LEAST}
  {NEXT}
  {GATE}
  {TURNS}
  {SLEEP}
  {TIME}
  {LATE}
  %all = sub i64 %hi, %lo
  %piece = sdiv i64 %all, {pieces}
  %any = icmp sgt i64 %piece, 0
  %least = select i1 %any, i64 %piece, i64 1
  store ptr %function, ptr %FUNCTION
  store ptr %slots, ptr %SLOTS
  store ptr %args, ptr %ARGS
  store i64 %least, ptr %LEAST
  store atomic i64 %hi, ptr %STOP monotonic, align 8
  store atomic i64 %lo, ptr %NEXT monotonic, align 8
  %start = call i64 {clock}
  store atomic i64 {open}, ptr %GATE release, align 8
  call void @pieces(ptr %queue)
  %was = atomicrmw sub ptr %GATE, i64 {open} acq_rel
  %ready = call i64 {clock}
  %worked = sub i64 %ready, %start
  %tolerated = sdiv i64 %worked, {tolerated}
  %turns = load i64, ptr %TURNS
  br label %wait
wait:
  %turn = phi i64 [0, %put], [%next, %spin], [%turn, %sleep], [%turn, %late]
  %inside = load atomic i64, ptr %GATE acquire, align 8
  %done = icmp eq i64 %inside, 0
  br i1 %done, label %end, label %later
later:
  %patient = icmp slt i64 %turn, %turns
  br i1 %patient, label %spin, label %sleep
spin:
  call void {pause}
  %next = add i64 %turn, 1
  br label %wait
sleep:
  %function.sleep = load ptr, ptr %SLEEP
  %word = load i64, ptr %TIME
  %time = trunc i64 %word to i32
  call void %function.sleep(i32 %time)
  %now = call i64 {clock}
  %waited = sub i64 %now, %ready
  %long = icmp sgt i64 %waited, %tolerated
  br i1 %long, label %late, label %wait
late:
  store atomic i64 1, ptr %LATE monotonic, align 8
  br label %wait
end:
  store atomic i64 0, ptr %BUSY release, align 8
  ret void
}}

define void @strips(ptr %loop, ptr %none, i64 %lo, i64 %hi) {{
entry:
  %slots.at = getelementptr i64, ptr %loop, i64 1
  %args.at = getelementptr i64, ptr %loop, i64 2
  %count.at = getelementptr i64, ptr %loop, i64 3
  %size.at = getelementptr i64, ptr %loop, i64 4
  %function = load ptr, ptr %loop
  %slots = load ptr, ptr %slots.at
  %args = load ptr, ptr %args.at
  %count = load i64, ptr %count.at
  %size = load i64, ptr %size.at
  %first = mul i64 %lo, %size
  %last = mul i64 %hi, %size
  %most = icmp slt i64 %last, %count
  %end = select i1 %most, i64 %last, i64 %count
  call void %function(ptr %slots, ptr %args, i64 %first, i64 %end)
  ret void
}}

define i64 @help(ptr %queue, i64 %turns) {{
entry:
  {GATE}
  {NEXT}
  {STOP}
  {LATE}
  br label %look
look:
  %turn = phi i64 [0, %entry], [%next, %spin], [%turn, %enter], [0, %work]
  %loops = phi i64 [0, %entry], [%loops, %spin], [%loops, %enter], [%more, %work]
  %state = load atomic i64, ptr %GATE monotonic, align 8
  %open = icmp sge i64 %state, {open}
  br i1 %open, label %ask, label %nothing
ask:
  %lo = load atomic i64, ptr %NEXT monotonic, align 8
  %stop = load atomic i64, ptr %STOP monotonic, align 8
  %left = icmp slt i64 %lo, %stop
  br i1 %left, label %enter, label %nothing
enter:  ; fails where the gate was closed meanwhile; of a loop that came meanwhile nothing has been read
  %entered = add i64 %state, 1
  %pair = cmpxchg ptr %GATE, i64 %state, i64 %entered acquire monotonic, align 8
  %inside = extractvalue {{i64, i1}} %pair, 1
  br i1 %inside, label %work, label %look
work:
  call void @pieces(ptr %queue)
  %was = atomicrmw sub ptr %GATE, i64 1 release
  %more = add i64 %loops, 1
  %flag = load atomic i64, ptr %LATE monotonic, align 8
  %late = icmp ne i64 %flag, 0
  br i1 %late, label %end, label %look
nothing:
  %patient = icmp slt i64 %turn, %turns
  br i1 %patient, label %spin, label %end
spin:
  call void {pause}
  %next = add i64 %turn, 1
  br label %look
end:
  %total = phi i64 [%loops, %nothing], [%more, %work]
  ret i64 %total
}}
"""


class ThreadPool:
    """Workers that wait for loops, and the work queue where they find them.

    Attributes:
        queue: its address, for `share`.
    """

    def __init__(self, parts: int) -> None:
        """Make a queue for a worker less than there are `parts`; `start` starts them."""
        self._code, self._parts = _code(), parts
        self._bells: list[Any] = []  # locks that workers acquire to sleep
        self._sleeping: set[Any] = set()  # those of workers that sleep, or are about to
        self._stopped = False
        words = np.zeros(WORDS + LINE, np.int64)
        start = -words.ctypes.data % (8 * LINE) // 8
        self._words = words[start : start + WORDS]
        self.queue: int = self._words.ctypes.data
        _keep(self._words)
        self._cores, self._caller = config.cores() if config.process_effects() else set[int](), -1
        self._patience = self._code.turns if parts <= config.usable_cores() else 0
        code = self._code
        turns = int(WAIT * self._patience)
        values = {SHARE: code.share, PARTS: parts, TURNS: turns, SLEEP: code.sleep, TIME: code.time}
        for word, value in values.items():
            self._words[word] = value

    def start(self) -> None:
        """Start the workers, as many as the system lets there be."""
        try:
            with suppress(RuntimeError):  # no more threads, or the interpreter ends
                for _ in range(self._parts - 1):
                    Thread(target=self._work, name="fgrad", daemon=True).start()
        except BaseException:  # an interrupt: nobody is going to know this pool
            self.stop()
            raise

    def stop(self) -> None:
        """Let the workers end; loops that are shared from now on run alone."""
        self._stopped = True
        self.wake()

    def wake(self) -> None:
        """Wake the workers that sleep; who calls this has a loop for them.

        A worker takes its own bell from the set, so that an interrupt between two steps here loses none.
        """
        if not self._sleeping:
            return
        self._caller = _core()
        with suppress(RuntimeError):  # where another thread is faster
            for bell in self._bells:
                if bell in self._sleeping and bell.locked():
                    bell.release()

    def _work(self) -> None:
        """Help until the pool stops, and sleep where there is nothing to do.

        Spinning pays where the next loop comes while it lasts, so it lasts half as long after it was in vain,
        and as long as it may after a loop came, or would have. Where threads wait for a core, the caller is
        better off alone: it would wait for a piece that nobody works at. That shows in a worker that ran for
        less time than went by; it stays away for a while, the sooner if a caller had to wait for it. (The
        threads of OpenBLAS, for example, keep their cores busy for a tenth of a second after a product.)
        Less than `PATIENCE` is no core lost: whoever stops helping waits for the interpreter's lock.
        """
        bell, turns, rest = Lock(), self._patience, 0.0
        bell.acquire()
        self._bells.append(bell)
        while not self._stopped:
            start, ran = perf_counter(), thread_time()
            loops = self._code.help(self.queue, turns)
            end = perf_counter()
            lost = end - start - (thread_time() - ran)
            free = lost < max(PATIENCE, 0.0 if self._words[LATE] else (1 - FREE) * (end - start))
            self._words[LATE] = 0
            turns = self._patience if loops > 1 and free else turns // 2
            rest = 0.0 if free else min(max(REST, 2 * rest), 64 * REST)
            if rest:
                sleep(rest)
            self._sleeping.add(bell)
            if not self._stopped:  # else `stop` may have looked before
                bell.acquire()
            self._sleeping.discard(bell)
            self._leave_core()
            if free and perf_counter() - end < PATIENCE:
                turns = self._patience

    def _leave_core(self) -> None:
        """Go to another core if this one is that of the caller.

        Where another thread has the other core, the system wakes a worker on that of the caller, and lets it
        spin there while the caller waits.
        """
        core = _core()
        if core == self._caller and core in self._cores and len(self._cores) > 1:
            with suppress(OSError):  # where the process may no longer use the others
                os.sched_setaffinity(0, self._cores - {core})


@locks.per_process
def pool() -> ThreadPool | None:
    """Return the pool of this process, with as many threads as it may have; none where there is no such code.

    Threads do not outlive a fork: a child process has a pool of its own.
    """
    with suppress(KeyError, RuntimeError):  # of a processor or an LLVM that fgrad does not know
        made = ThreadPool(config.num_threads())
        made.start()
        return made
    return None


def share(queue: int, loop: tuple[int, int, int], count: int, strip: int) -> None:
    """Run the loop of a `native` kernel for `range(count)` with the threads at a work queue.

    Args:
        queue: of the pool.
        loop: the addresses of the kernel, of its slots and of its args.
        count: how many steps there are.
        strip: of how many of them no two threads take a part.
    """
    code, task = _code(), array("q", loop)
    if strip > 1:
        inner, count = array("q", (*loop, count, strip)), -(-count // strip)
        task = array("q", (code.strips, inner.buffer_info()[0], 0))
    code.run(queue, task.buffer_info()[0], 0, count)


class _Code(NamedTuple):
    """What machine code there is, and what it asks for."""

    help: Any  # function of Python: of a queue and how often to look, how many loops there were
    run: Any  # function of Python: of a queue, the address of a loop's three words, and its bounds
    share: int  # its address
    strips: int  # address of the kernel of a loop of strips of another one
    sleep: int  # address of the C function that sleeps
    time: int  # its argument, for `NAP` seconds
    turns: int  # of spinning in `PATIENCE` seconds
    owner: Any


@locks.once
def _code() -> _Code:
    """Return the code for this machine.

    Raises:
        KeyError: of a processor that fgrad does not know.
        RuntimeError: LLVM is one that does not know the text.
    """
    engine = compilation.linked(_text())
    share, strips = map(engine.get_function_address, ("share", "strips"))
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_size_t] * 4)(share)
    help = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_size_t] * 2)(engine.get_function_address("help"))
    empty, turns = np.zeros(WORDS, np.int64), 1000
    start = thread_time()  # others may have the core for a while
    help(empty.ctypes.data, turns)
    turns = int(turns * PATIENCE / max(thread_time() - start, 1e-6))
    doze, unit = _sleep()
    time = max(1, round(NAP / unit))
    return _Code(help, run, share, strips, doze, time, turns, engine)


def _keep(x: Any) -> None:
    """Never free an object: when the interpreter ends, threads without it may still look at its memory."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))


def _core() -> int:
    """Return the number of the core that this thread runs on, -1 where that is not known."""
    return int(_sched_getcpu()) if _sched_getcpu is not None else -1


_sched_getcpu = getattr(ctypes.PyDLL(None), "sched_getcpu", None) if sys.platform == "linux" else None


def _sleep() -> tuple[int, float]:
    """Return the address of C's function that sleeps, and the unit of its argument in seconds."""
    if sys.platform == "win32":
        return ctypes.cast(ctypes.windll.kernel32.Sleep, ctypes.c_void_p).value or 0, 1e-3
    return ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value or 0, 1e-6


def _text() -> str:
    """Return the code in LLVM's language: `{NEXT}` there makes `%NEXT` the place of that word."""
    processor = platform.machine().lower()
    pause, clock = _PAUSES[processor], _CLOCKS[processor]
    names = (
        *("PARTS", "TURNS", "SLEEP", "TIME", "GATE", "BUSY", "NEXT", "LATE"),
        *("FUNCTION", "SLOTS", "ARGS", "STOP", "LEAST"),
    )
    words = {n: f"%{n} = getelementptr i64, ptr %queue, i64 {globals()[n]}" for n in names}
    kind = pause.replace(" 1", "")
    return _TEXT.format(
        pause=pause, pause_type=kind, clock=clock, pieces=PIECES, tolerated=TOLERATED, open=OPEN, **words
    )
