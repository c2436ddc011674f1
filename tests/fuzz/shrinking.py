"""Making a case that fails smaller, as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from tests.fuzz import reference
from tests.fuzz.oracles import Case, Verdict, quiet, verdict
from tests.fuzz.programs import NAME, Input, Program, binds, is_aliased, tidied


def shrunk(case: Case, found: Verdict, judge: Callable[[Case], Verdict] = verdict, tries: int = 400) -> Case:
    """Return a smaller case with a verdict of the same kind."""
    aliased = is_aliased(case.program)
    progress = True
    while progress and tries > 0:
        progress = False
        for smaller in candidates(case):
            tries -= 1
            if tries <= 0:
                break
            try:
                same = judge(smaller).kind == found.kind and (aliased or not is_aliased(smaller.program))
            except Exception:  # a candidate need not make sense
                same = False
            if same:
                case, progress = smaller, True
                break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """Return cases that are a little simpler."""
    program = case.program
    for p in programs(program):
        if cost(p) < cost(program):
            yield replace(case, program=p)
    if case.space != "numpy":
        yield replace(case, space="numpy")


def cost(program: Program) -> tuple[int, ...]:
    size = sum(int(np.prod(x.shape)) for x in program.inputs)
    plain = sum(
        1 for x in program.inputs for v in (() if isinstance(x.values, int) else x.values) if v not in {0, 1}
    )
    layouts = sum(x.layout != "C" for x in program.inputs)
    text = sum(map(len, program.steps))
    return (
        10 * len(program.steps)
        + 6 * len(program.results)
        + 3 * len(program.inputs)
        + size
        + layouts
        + plain
        + text // 20,
    )


def programs(program: Program) -> Iterator[Program]:
    steps, n = program.steps, len(program.steps)
    for size in (n // 2, n // 4, 2, 1):
        for i in range(0, n, max(size, 1)):
            if 0 < size < n or (size == 1 and n == 1):
                yield from without(program, i, i + size)
    if len(program.results) > 1:
        for r in program.results:
            yield tidied(replace(program, results=(r,)))
            yield tidied(replace(program, results=tuple(o for o in program.results if o != r)))
    made = [name for s in steps for name in binds(s)]
    for name in made:
        yield tidied(replace(program, results=(name,)))
    for k in range(1, n):
        yield from given(program, k)
    for k, x in enumerate(program.inputs):
        for new in simpler(x):
            yield replace(program, inputs=(*program.inputs[:k], new, *program.inputs[k + 1 :]))


def without(program: Program, low: int, high: int) -> Iterator[Program]:
    """Drop steps, where nothing else needs what they bind; or let it be another value."""
    kept = program.steps[:low] + program.steps[high:]
    lost = {name for s in program.steps[low:high] for name in binds(s)}
    results = tuple(r for r in program.results if r not in lost)
    if results and not any(lost & set(NAME.findall(s)) for s in kept):
        yield tidied(replace(program, steps=kept, results=results))
    elif high - low == 1 and len(lost) == 1:
        (name,) = lost
        for other in sorted(set(NAME.findall(program.steps[low])) - lost):
            rename = lambda text: NAME.sub(lambda m: other if m.group() == name else m.group(), text)
            yield tidied(
                replace(
                    program,
                    steps=tuple(map(rename, kept)),
                    results=tuple(dict.fromkeys(map(rename, program.results))),
                )
            )


def given(program: Program, k: int) -> Iterator[Program]:
    """Let what the first steps make be an argument instead."""
    scope = {"np": np, "fg": reference, "lax": reference.lax}
    scope.update({f"x{i}": x for i, x in enumerate(program.arrays())})
    with quiet():
        try:
            for step in program.steps[:k]:
                exec(step, scope)
        except Exception:
            return
    later = set(program.results).union(*(NAME.findall(s) for s in program.steps[k:]))
    made = [name for s in program.steps[:k] for name in binds(s) if name in later]
    new, inputs = {}, list(program.inputs)
    for name in dict.fromkeys(made):
        v = scope[name]
        if not isinstance(v, np.ndarray | np.generic) or v.size > 300:
            return
        new[name] = f"x{len(inputs)}"
        code = v.dtype.newbyteorder("=").str[1:].replace("b1", "?")
        inputs.append(Input(code, v.shape, tuple(v.ravel().tolist())))
    rename = lambda text: NAME.sub(lambda m: new.get(m.group(), m.group()), text)
    yield tidied(
        replace(
            program,
            inputs=tuple(inputs),
            steps=tuple(map(rename, program.steps[k:])),
            results=tuple(map(rename, program.results)),
        )
    )


def simpler(x: Input) -> Iterator[Input]:
    if x.layout != "C":
        yield replace(x, layout="C")
    if isinstance(x.values, int):
        for axis, n in enumerate(x.shape):
            if n > 2:
                yield replace(x, shape=(*x.shape[:axis], n // 2, *x.shape[axis + 1 :]))
        return
    for axis, n in enumerate(x.shape):
        if n > 1:
            for low, high in ((0, n // 2), (n // 2, n), (0, n - 1), (1, n)):
                a = np.array(x.values, object).reshape(x.shape)
                a = np.take(a, range(low, high), axis)
                yield replace(x, shape=a.shape, values=tuple(a.ravel().tolist()))
    kind = np.dtype(x.dtype).kind
    one = {"b": True, "u": 1, "i": 1, "f": 1.0, "c": 1 + 0j}[kind]
    for new in (one, one * 0):
        yield replace(x, values=(new,) * len(x.values))
    for i, v in enumerate(x.values):
        for new in (one * 0, one, 2 * one):
            if v != new and len(x.values) <= 24 and kind != "b":
                yield replace(x, values=(*x.values[:i], new, *x.values[i + 1 :]))


def script(case: Case) -> str:
    """Return a script of the case, to paste."""
    lines = ["import numpy as np", "import fgrad as fg", "from fgrad import lax", "", case.program.source()]
    if any("frozen(" in x.text() or "swapped(" in x.text() for x in case.program.inputs):
        lines.insert(3, "from tests.fuzz.programs import frozen, swapped")
    lines += ["", *(f"x{i} = {x.text()}" for i, x in enumerate(case.program.inputs))]
    arguments = ", ".join(f"x{i}" for i in range(len(case.program.inputs)))
    lines.append(f"# {case.way}, with np = {case.space}")
    lines.append(f"print(f({arguments}), fg.jit(f)({arguments}))")
    return "\n".join(lines)
