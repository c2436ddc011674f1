"""The source of a compiled program, for readers: its steps in order, and kernels with what they compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fgrad.compiler.cost import cost
from fgrad.compiler.emit import Kernel, Part
from fgrad.compiler.fuse import Call, Nest
from fgrad.compiler.library import is_native
from fgrad.compiler.pairs import as_staged
from fgrad.compiler.plan import Block, Inner, Loop, Plan, While
from fgrad.core.primitive import ASSEMBLES, PRIMITIVES, PRODUCT
from fgrad.core.program import Equation, Var
from fgrad.core.trace import place_of

HOW = {PRODUCT: "BLAS", ASSEMBLES: "copies"}  # what a kernel of the library does


def source(plan: Plan, name: str = "") -> str:
    """Return the steps of a program as comments, then its kernels, each once, as they are compiled."""
    listing = _Listing()
    head = [
        f"{name or 'program'}: {cost(plan)}",
        "",
        f"inputs:  {_shown(plan.inputs)}",
        f"outputs: {_shown(plan.program.outputs)}",
        *([f"checks:  {_shown(plan.doubts)}: where it is true another program runs"] if plan.doubts else []),
        "",
        "in order:",
        *(f"    {line}" for line in listing.steps(plan.block)),
    ]
    parts = ["\n".join(map(_comment, head))]
    parts += [listing.kernel(text) for text in listing.uses]
    return "\n\n\n".join(parts)


class _Listing:
    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.uses: dict[str, list[tuple[Kernel, list[str]]]] = {}  # of each text, with what it computes there

    def steps(self, block: Block) -> Iterator[str]:
        """Yield a line for each step of a block, in order."""
        for i, step in enumerate(block.steps):
            if isinstance(step, Call) and i in block.inner:
                yield from self._inner(step.equation, block.inner[i])
            elif isinstance(step, Call):
                traits = PRIMITIVES[step.equation.name].traits
                how = next((how for trait, how in HOW.items() if trait in traits), "a kernel")
                how = how if is_native(step.equation) else "Python"
                yield f"{_equation(step.equation)}  # {how}; {place_of(step.equation.line)}"
            elif block.kernels[i]:  # otherwise nobody reads what it computes
                first, *joining = block.kernels[i]
                yield self._use(first, _lines(_computed(step, block)))
                for k in joining:
                    yield self._use(k, [f"joins {_buffer(k.buffers[0])}"])

    def _use(self, k: Kernel, done: list[str]) -> str:
        """Return the line of a kernel that does what is `done`."""
        name = self.names.setdefault(k.text, f"kernel{len(self.names)}")
        self.uses.setdefault(k.text, []).append((k, done))
        numbers = "".join(f", {n}" for n in k.numbers)
        return f"{name}({_shown(k.buffers)}{numbers}) for 0:{k.turns}"

    def _inner(self, equation: Equation, inner: Inner) -> Iterator[str]:
        """Yield the lines of a loop or of branches."""
        parts = ["step"]
        if isinstance(inner, Loop):
            what = f"{inner.code.length} times{', backward' * inner.code.reverse}"
        elif isinstance(inner, While):
            what, parts = "as long as it is asked to", ["test", "step"]
        else:
            what, parts = "one of", [f"branch {i}" for i in range(len(inner.blocks))]
        ends = f"of {_shown(equation.args)} to {_shown(equation.outs)}"
        yield f"{equation.name}, {what}, {ends}  # {place_of(equation.line)}"
        for part, block in zip(parts, inner.blocks, strict=True):
            yield f"    {part}: {_shown(block.plain.program.inputs)} to {_shown(block.plain.program.outputs)}"
            yield from (f"        {line}" for line in self.steps(block))

    def kernel(self, text: str) -> str:
        """Return a kernel under a comment that says what it computes where it is used first."""
        uses = self.uses[text]
        (first, done), *others = uses
        head = [
            f"{self.names[text]}, used {_times(len(uses))}",
            *(f"    {line}" for line in done),
            *(f"b{i} = {_buffer(b)}" for i, b in enumerate(first.buffers)),
        ]
        if others:
            head.append(f"also for {'; '.join(_shown(k.buffers) for k, _ in others)}")
        return "\n".join([*map(_comment, head), text])


def titles(plan: Plan) -> list[tuple[str, str, int]]:
    """Return for each nest and call of a program what it computes, its line, and the bytes of its results."""
    found = []
    for step in plan.block.steps:
        if isinstance(step, Call):
            e = step.equation
            found.append((as_staged(e).name, e.line, _size(e.outs)))
        else:
            computed = _computed(step, plan.block)
            names = list(dict.fromkeys(e.name for e in computed))
            more = f", {len(names) - 4} more" if len(names) > 4 else ""
            line = computed[-1].line if computed else ""
            title = f"kernel {', '.join(names[:4])}{more}"
            found.append((title, line, _size(r.var for r in step.roots)))
    return found


def _size(values: Iterable[Var]) -> int:
    return sum(v.aval.size * v.aval.dtype.itemsize for v in values)


def _computed(nest: Nest, block: Block) -> list[Equation]:
    """Return the equations that a nest computes, in the order of the program."""
    equations = block.plain.program.equations
    makers = {v: i for i, e in enumerate(equations) for v in e.outs}
    stored = {r.var for s in block.steps if isinstance(s, Nest) for r in s.roots}
    stored |= {v for s in block.steps if isinstance(s, Call) for v in s.equation.outs}
    found: set[int] = set()
    todo = [makers[r.var] for r in nest.roots]
    while todo:
        i = todo.pop()
        if i not in found:
            found.add(i)
            args = (a for a in equations[i].args if isinstance(a, Var))
            todo += [makers[a] for a in args if a in makers and a not in stored]
    return [equations[i] for i in sorted(found)]


def _lines(equations: Iterable[Equation]) -> list[str]:
    """Return equations as lines, each with the line of the user's program, beside one another."""
    pairs = [(_equation(e), place_of(e.line)) for e in equations]
    width = max((len(text) for text, _ in pairs), default=0)
    return [f"{text:{width}}  # {line}" for text, line in pairs]


def _equation(e: Equation) -> str:
    """Return an equation as a line: programs inside of it are left out."""
    e = as_staged(e)
    params = {k: v for k, v in e.params.items() if k != "code"}
    return str(e.with_params(params))


def _buffer(x: Any) -> str:
    return f"{x.blocks} part{'s' * (x.blocks != 1)} of {x.root.var}" if isinstance(x, Part) else repr(x)


def _shown(values: Iterable[Any]) -> str:
    return ", ".join(v.name if isinstance(v, Var) else _part(v) for v in values)


def _part(v: Any) -> str:
    if isinstance(v, Part):
        return f"parts of {v.root.var.name}"
    return "an array" if getattr(v, "ndim", 0) else str(v)


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"


def _comment(line: str) -> str:
    return f"# {line}".rstrip()
