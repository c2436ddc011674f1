"""Every order in which threads can run the machine code of the thread pool, and what must hold in each.

The text in LLVM's language that `kernels.pool` compiles is interpreted here, so there is no model beside it
that could differ. A state is the words of memory and, for each thread, where it is and the values that it
still needs; a transition is one thread that goes on to its next atomic instruction. Going through all states
that can be reached shows:

- every step of a loop has run exactly once when its caller returns, with the caller's own arguments;
- accesses that are not atomic are ordered by those that are (vector clocks, as ThreadSanitizer has them, with
  the orders that the text says: `monotonic` orders nothing), so that no compiler and no processor can bring
  about a state that is not among these;
- from every state all callers can come to their end, whatever the workers have done;
- at the end nobody is inside, and the queue is free.

Callers share loops one after the other; workers look for some for ever, and may be slow to it for as long, so
that those which never come are among them.

    python -m tests.kernels.interleavings --callers 2 --workers 2 --loops 1 --steps 2
"""

from __future__ import annotations

import argparse
import re
from collections import deque
from typing import Any, NamedTuple

from fgrad.kernels import pool

ORDERS = {
    "acquire": {"acquire"},
    "release": {"release"},
    "acq_rel": {"acquire", "release"},
    "monotonic": set(),
}


class HandoverError(AssertionError):
    """What must not happen, and by which thread."""


class Instruction(NamedTuple):
    """One line: what it does, the value that it defines, its operands, and words that say how."""

    operation: str
    result: str
    operands: tuple[Any, ...]
    how: Any = None


class Function(NamedTuple):
    """The blocks of a function by name, and which values are needed from an instruction on."""

    params: tuple[str, ...]
    blocks: dict[str, list[Instruction]]
    live: dict[tuple[str, int], tuple[str, ...]]


def parsed(text: str) -> dict[str, Function]:
    """Return the functions of a text, of the instructions that the pool is made of."""
    found = {}
    for head, body in re.findall(r"^define ([^{]*)\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        name = re.search(r"@(\w+)\(", head)[1]
        params = tuple(re.findall(r"%([\w.]+)", head))
        blocks: dict[str, list[Instruction]] = {}
        for line in body.splitlines():
            line = line.partition(";")[0].strip()
            if line.endswith(":"):
                current = blocks.setdefault(line[:-1], [])
            elif line:
                current.append(instruction(line))
        found[name] = Function(params, blocks, _live(blocks))
    return found


def instruction(line: str) -> Instruction:
    """Return what a line says; refuse what is not known."""
    result, _, rest = line.rpartition(" = ") if " = " in line else ("", "", line)
    result, operation = result.strip().removeprefix("%"), rest.split()[0]
    values = [_operand(v) for v in re.findall(r"(?<= )(?:%[\w.]+|-?\d+)(?=[,) ]|$)", rest.replace("(", "( "))]
    orders = re.findall(r"\b(acquire|release|acq_rel|monotonic)\b", rest)
    if operation in {"load", "store", "cmpxchg", "atomicrmw"}:
        values = [_operand(v) for v in re.findall(r"(?:i64|ptr) (%[\w.]+|-?\d+)", rest)]
        if operation == "atomicrmw":
            assert rest.startswith("atomicrmw sub ")
        return Instruction(operation, result, tuple(values), ORDERS[orders[0]] if orders else None)
    if operation == "br":
        return Instruction(
            operation,
            result,
            tuple(values[:1] if "i1" in rest else ()),
            tuple(re.findall(r"label %([\w.]+)", rest)),
        )
    if operation == "phi":
        pairs = re.findall(r"\[(%[\w.]+|\d+), %([\w.]+)\]", rest)
        return Instruction(operation, result, (), {block: _operand(v) for v, block in pairs})
    if operation == "icmp":
        return Instruction(operation, result, tuple(values), rest.split()[1])
    if operation == "call":
        if "pause" in rest or "hint" in rest:
            return Instruction("nothing", "", ())
        if "cycle" in rest or "mrs" in rest:
            return Instruction("clock", result, ())
        args = [_operand(v) for v in re.findall(r"(?:i64|i32|ptr) (%[\w.]+|-?\d+)", rest)]
        called = re.search(r"([@%][\w.]+)\(", rest)[1]
        return Instruction("call", result, (_operand(called), *args))
    if operation == "getelementptr":
        return Instruction(
            "add", result, tuple(_operand(v) for v in re.findall(r"(?:ptr|i64) (%[\w.]+|\d+)", rest))
        )
    if operation in {"add", "sub", "mul", "sdiv", "ashr", "select", "trunc", "extractvalue", "ret"}:
        return Instruction(operation, result, tuple(values))
    raise NotImplementedError(line)


def _operand(text: str) -> Any:
    return int(text) if re.fullmatch(r"-?\d+", text) else text.removeprefix("%")


def _used(i: Instruction) -> set[str]:
    return {v for v in i.operands if isinstance(v, str) and not v.startswith("@")}


def _live(blocks: dict[str, list[Instruction]]) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the values needed before each instruction; operands of `phi` are at the end of their blocks."""
    live: dict[tuple[str, int], set[str]] = {
        (b, k): set() for b, body in blocks.items() for k in range(len(body) + 1)
    }
    changed = True
    while changed:
        changed = False
        for name, body in blocks.items():
            needed: set[str] = set()
            last = body[-1]
            for target in last.how or () if last.operation == "br" else ():
                first = blocks[target]
                needed |= live[target, 0] - {i.result for i in first if i.operation == "phi"}
                needed |= {v for i in first if i.operation == "phi" and isinstance(v := i.how[name], str)}
            for k in range(len(body) - 1, -1, -1):
                needed = (needed - {body[k].result}) | _used(body[k])
                if needed != live[name, k]:
                    live[name, k], changed = set(needed), True
    return {at: tuple(sorted(values)) for at, values in live.items()}


class Thread(NamedTuple):
    """Where a thread is: its frames, the innermost last; how many loops it has shared; what it knows."""

    frames: tuple[tuple[str, str, int, tuple[int, ...]], ...]  # function, block, instruction, live values
    turn: int
    late: bool
    known: tuple[int, ...]  # its vector clock


class State(NamedTuple):
    """All that decides what can happen next."""

    words: tuple[int, ...]
    threads: tuple[Thread, ...]
    released: tuple[tuple[int, ...], ...]  # for each word the vector clock that an acquiring read joins
    written: tuple[tuple[int, int], ...]  # for each word the thread and time of the last plain write
    read: tuple[tuple[int, ...], ...]  # and when each thread has read it last


class Exploration:
    """Threads that share loops, and workers; without `clocks` no order of accesses is checked."""

    def __init__(
        self, text: str, *, callers: int, workers: int, loops: int, steps: int, clocks: bool = True
    ) -> None:
        self.functions = parsed(text)
        self.callers, self.count, self.loops, self.steps = callers, callers + workers, loops, steps
        self.clocks = clocks
        # for each caller: address of the kernel, of slots, of args; a word of args; the steps that have run
        self.base, self.size = pool.WORDS, 4 + steps
        words = [0] * (self.base + callers * self.size)
        words[pool.PARTS] = self.count
        none = (0,) * self.count
        n = len(words)
        threads = tuple(
            Thread((), 0, False, tuple(int(i == t) for i in range(self.count))) for t in range(self.count)
        )
        self.first = State(tuple(words), threads, (none,) * n, ((0, 0),) * n, (none,) * n)

    def explore(self) -> int:
        """Return how many states there are.

        Raises:
            HandoverError: something that must not happen does, in one of them.
        """
        before: dict[State, list[State]] = {self.first: []}
        ends, todo = [], deque([self.first])
        while todo:
            state = todo.pop()
            if self.has_ended(state):
                ends.append(state)
            for t in range(self.count):
                for after in self.step(state, t):
                    if after not in before:
                        before[after] = []
                        todo.append(after)
                    before[after].append(state)
        able = set(ends)
        todo.extend(ends)
        while todo:
            for state in before[todo.pop()]:
                if state not in able:
                    able.add(state)
                    todo.append(state)
        if len(able) < len(before):
            raise HandoverError(f"{len(before) - len(able)} of {len(before)} states have no way to the end")
        return len(before)

    def has_ended(self, state: State) -> bool:
        """Return whether all callers have returned."""
        if any(t.frames or t.turn < self.loops for t in state.threads[: self.callers]):
            return False
        if state.words[pool.BUSY] or state.words[pool.GATE]:
            raise HandoverError("the queue is in use at the end")
        return True

    def step(self, state: State, t: int) -> list[State]:
        """Return what can be after thread `t` went on, none if it has ended."""
        if not state.threads[t].frames and t < self.callers and state.threads[t].turn == self.loops:
            return []
        run = Run(self, state, t)
        found = [run.go_on()]
        if run.chose:
            again = Run(self, state, t)
            again.choice = True
            found.append(again.go_on())
        return found


class Run:
    """One transition of a thread: up to and with its next atomic instruction, or its next sleep."""

    def __init__(self, world: Exploration, state: State, t: int) -> None:
        self.world, self.t = world, t
        self.words, self.threads = list(state.words), list(state.threads)
        self.released, self.written, self.read = list(state.released), list(state.written), list(state.read)
        self.thread = state.threads[t]
        self.known = list(self.thread.known)
        self.turn, self.late = self.thread.turn, self.thread.late
        self.choice = self.chose = False
        self.stack: list[list[Any]] = []
        for name, block, at, values in self.thread.frames:
            self.stack.append(
                [name, block, at, dict(zip(world.functions[name].live[block, at], values, strict=True))]
            )

    def go_on(self) -> State:
        """Return the state after it."""
        if not self.stack:
            self.begin()
        while self.stack and not self.one():
            pass
        frames = []
        for name, block, at, env in self.stack:
            needed = self.world.functions[name].live[block, at]
            frames.append((name, block, at, tuple(env[v] for v in needed)))
        self.threads[self.t] = Thread(tuple(frames), self.turn, self.late, tuple(self.known))
        return State(*map(tuple, (self.words, self.threads, self.released, self.written, self.read)))

    def begin(self) -> None:
        """Call what the thread calls: a caller `share` for its next loop, a worker `help`."""
        world, t = self.world, self.t
        if t >= world.callers:
            self.call("help", [0, 0])
            return
        at = world.base + t * world.size
        for k, value in enumerate(
            (KERNEL_ADDRESS, at + 4, at + 3)
        ):  # its task, slots and args, as plain words
            self.access(at + k, write=True)
            self.words[at + k] = value
        self.access(at + 3, write=True)
        self.words[at + 3] = 1 + self.turn
        self.call("share", [0, at, 0, world.steps])

    def end(self) -> None:
        """Look at what came of a loop when `share` has returned."""
        world, t = self.world, self.t
        if t >= world.callers:
            self.words[pool.LATE] = 0  # as a worker does in Python, one word at a time
            return
        at = world.base + t * world.size + 4
        for k in range(at, at + world.steps):
            self.access(k)
            if self.words[k] != 1:
                raise HandoverError(f"a step ran {self.words[k]} times, of loop {self.turn} of caller {t}")
            self.access(k, write=True)
            self.words[k] = 0
        self.turn, self.late = self.turn + 1, False

    def call(self, name: str, args: list[int]) -> None:
        self.stack.append([name, "entry", 0, dict(zip(self.world.functions[name].params, args, strict=True))])

    def one(self) -> bool:
        """Run an instruction; return whether others may run now."""
        frame = self.stack[-1]
        name, block, at, env = frame
        i = self.world.functions[name].blocks[block][at]
        frame[2] += 1

        def value(v: Any) -> Any:
            return env[v] if isinstance(v, str) else v

        operation = i.operation
        if operation in {"load", "store", "cmpxchg", "atomicrmw"}:
            return self.memory(i, env, value)
        if operation == "br":
            self.jump(frame, i.how[0] if len(i.how) == 1 or value(i.operands[0]) else i.how[1])
        elif operation == "ret":
            self.stack.pop()
            if not self.stack:
                self.end()
        elif operation == "call":
            return self.called(i, value)
        elif operation == "clock":
            env[i.result] = 1000 * self.late
        elif operation != "nothing":
            env[i.result] = compute(operation, i.how, [value(v) for v in i.operands])
        return False

    def jump(self, frame: list[Any], target: str) -> None:
        name, block, _, env = frame
        body = self.world.functions[name].blocks[target]
        phis = [i for i in body if i.operation == "phi"]
        given = [env[v] if isinstance(v := i.how[block], str) else v for i in phis]
        env.update(zip((i.result for i in phis), given, strict=True))
        frame[1:3] = target, len(phis)

    def called(self, i: Instruction, value: Any) -> bool:
        target, *args = i.operands
        given = [value(a) for a in args]
        if isinstance(target, str) and target.startswith("@"):
            self.call(target[1:], given)
            return False
        if len(given) == 1:  # the function that sleeps: it may take long, or not
            self.chose = True
            self.late = self.late or self.choice
            return True
        if value(target) != KERNEL_ADDRESS:
            raise HandoverError("a kernel that is none")
        self.kernel(*given)
        return False

    def kernel(self, slots: int, args: int, lo: int, hi: int) -> None:
        """Run a piece of a loop: it reads its args, and writes a word for each of its steps."""
        self.access(args)
        owner = (slots - self.world.base) // self.world.size
        if self.words[args] != 1 + self.threads[owner].turn or slots != args + 1:
            raise HandoverError("a piece has the arguments of another loop")
        if not 0 <= lo < hi <= self.world.steps:
            raise HandoverError(f"a piece from {lo} to {hi}")
        for k in range(slots + lo, slots + hi):
            self.access(k)
            self.access(k, write=True)
            self.words[k] += 1

    def memory(self, i: Instruction, env: dict[str, Any], value: Any) -> bool:
        operands = [value(v) for v in i.operands]
        place = operands[1] if i.operation == "store" else operands[0]
        if i.how is None:
            if place not in CONSTANT:
                self.access(place, write=i.operation == "store")
            if i.operation == "store":
                self.words[place] = operands[0]
            else:
                env[i.result] = self.words[place]
            return False
        old = self.words[place]
        if i.operation == "load":
            env[i.result] = old
            self.synchronize(place, i.how, reads=True)
        elif i.operation == "store":
            self.words[place] = operands[0]
            self.synchronize(place, i.how, writes=True)
        elif i.operation == "atomicrmw":
            self.words[place], env[i.result] = old - operands[1], old
            self.synchronize(place, i.how, reads=True, writes=True)
        else:
            expected, new = operands[1:]
            if old == expected:
                self.words[place] = new
                self.synchronize(place, i.how, reads=True, writes=True)
            env[i.result] = (old, int(old == expected))
        return True

    def synchronize(self, place: int, how: set[str], *, reads: bool = False, writes: bool = False) -> None:
        """Learn from a word what was released there, and release there what is known."""
        if not self.world.clocks:
            return
        there = self.released[place]
        if reads and "acquire" in how:
            self.known = list(map(max, self.known, there))
        if writes:
            mine = self.known if "release" in how else [0] * len(there)
            # what reads and writes at once goes on with the sequence that another began
            self.released[place] = tuple(map(max, there, mine)) if reads else tuple(mine)
            if "release" in how:
                self.known[self.t] += 1

    def access(self, place: int, *, write: bool = False) -> None:
        """Note a plain access, which must be ordered with those of other threads."""
        if not self.world.clocks:
            return
        writer, time = self.written[place]
        if self.known[writer] < time:
            raise HandoverError(f"word {place} is used while thread {writer} writes to it")
        if not write:
            times = list(self.read[place])
            times[self.t] = self.known[self.t]
            self.read[place] = tuple(times)
            return
        for other, time in enumerate(self.read[place]):
            if self.known[other] < time:
                raise HandoverError(f"word {place} is written while thread {other} uses it")
        self.written[place] = self.t, self.known[self.t]
        self.read[place] = (0,) * len(self.known)


KERNEL_ADDRESS = 77
CONSTANT = {pool.SHARE, pool.PARTS, pool.TURNS, pool.SLEEP, pool.TIME}  # words that nobody writes to


def compute(operation: str, how: Any, values: list[Any]) -> Any:
    """Return the result of an instruction without memory."""
    match operation, how:
        case "add", _:
            return values[0] + values[1]
        case "sub", _:
            return values[0] - values[1]
        case "mul", _:
            return values[0] * values[1]
        case "sdiv", _:
            return int(values[0] / values[1])
        case "ashr", _:
            return values[0] >> values[1]
        case "select", _:
            return values[1] if values[0] else values[2]
        case "trunc", _:
            return values[0]
        case "extractvalue", _:
            return values[0][values[1]]
        case "icmp", "eq":
            return int(values[0] == values[1])
        case "icmp", "ne":
            return int(values[0] != values[1])
        case "icmp", "sgt":
            return int(values[0] > values[1])
        case "icmp", "sge":
            return int(values[0] >= values[1])
        case "icmp", "slt":
            return int(values[0] < values[1])
    raise NotImplementedError(operation, how)


def main() -> None:
    """Explore what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("callers", 1), ("workers", 1), ("loops", 2), ("steps", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--no-clocks", action="store_true", help="fewer states; check no order of accesses")
    given = vars(parser.parse_args())
    clocks = not given.pop("no_clocks")
    print(f"{Exploration(pool._text(), **given, clocks=clocks).explore()} states, nothing wrong")  # noqa: T201


if __name__ == "__main__":
    main()
