"""Procedures: programs that are called as one operation, each compiled when it first runs.

What a live trace does with a procedure gives procedures again: a recording runs one that also returns what
its reverse step needs, and the reverse step is another; a vmap runs one for all examples. They are made when
they are first needed, and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fgrad.backend.array import Device, DeviceArray
from fgrad.backend.devices import as_array, find
from fgrad.compiler import Executable, compile, partition
from fgrad.core.aval import Aval, aval_of
from fgrad.core.caches import LRU
from fgrad.core.dispatch import following, lowered, node_on
from fgrad.core.nonfinite import quiet, watching
from fgrad.core.placement import near
from fgrad.core.primitive import PRIMITIVES, VJP, Pattern, batch_size, declare, flat
from fgrad.core.program import Program, Var, aval_out
from fgrad.core.rewriting.substitution import replaced
from fgrad.core.snapshot import snapshot
from fgrad.core.tape import HIDDEN, Pick, Tape
from fgrad.core.tensor import Tensor, alias, wrap
from fgrad.core.trace import State, Tracer, current, running
from fgrad.locks import lazy, making
from fgrad.ops.linear import convert
from fgrad.transforms.batch import for_examples
from fgrad.transforms.manager import GradManager
from fgrad.transforms.residuals import Cut, arriving
from fgrad.transforms.stage import Stage, staged, staging


class Procedure:
    """A program of flat values, and what is derived from it."""

    def __init__(self, program: Program, name: str = "") -> None:
        self.program: Program = program
        self.name: str = name
        self.ins: tuple[Aval, ...] = tuple(v.aval for v in program.inputs)
        self.outs: tuple[Aval, ...] = tuple(map(aval_out, program.outputs))
        self._saving: dict[tuple[Pattern, bool], Saving | None] = {}
        self._unchecked: dict[Pattern, Procedure] = {}
        self._mapped: LRU[tuple[Pattern, int], Procedure] = LRU()
        self._on: dict[tuple[Device, frozenset[int]], Any] = {}
        self._between: dict[tuple[str | None, ...], partition.Partition] = {}  # by where the values are
        self._donating: dict[frozenset[int], Executable] = {}

    def run(self, values: Sequence[Any], donated: frozenset[int] = frozenset()) -> list[Any]:
        """Return the outputs for arrays, computed on the device on which one of these is.

        They may lie in the memory of the inputs `donated`.
        """
        if self.is_moving:
            return self._placed(values).run(values)
        place = next((v.place for v in values if v.__class__ is DeviceArray), None) or self.held_place
        if place is not None:
            return list(self.on(place, donated).run(values))
        return (self.donating(donated) if donated else self.executable).run(values)

    @lazy
    def is_moving(self) -> bool:
        """Whether the program moves values between devices."""
        return partition.is_moving(self.program)

    def _placed(self, values: Sequence[Any]) -> partition.Partition:
        """Return the program compiled for the devices that it moves values between."""
        devices = tuple(map(partition.where, values))
        if devices not in self._between:

            def compiled(program: Program, device: str) -> partition.Run:
                part, place = Procedure(program, self.name), find(device)
                return part.executable.run if place is None else part.on(place).run

            with making:
                self._between[devices] = partition.Partition(self.program, devices, compiled)
        return self._between[devices]

    @lazy
    def held_place(self) -> Device | None:
        """The device of an array that the program holds."""
        held = [*(a for e in self.program.equations for a in e.args), *self.program.outputs]
        arrays = (getattr(a, "_value", a) for a in held)
        return next((a.place for a in arrays if a.__class__ is DeviceArray), None)

    def on(self, place: Device, donated: frozenset[int] = frozenset()) -> Any:
        """Return the program compiled for a CUDA device; outputs may lie in the inputs `donated`."""
        key = (place, donated)
        if key not in self._on:
            with making:
                if key not in self._on:
                    module = import_module("fgrad.compiler.device")  # late: few programs run on one
                    self._on[key] = module.DeviceExecutable(self.program, place, donated)
        return self._on[key]

    @lazy
    def executable(self) -> Executable:
        """The compiled program."""
        return compile(self.program, self.name)

    def donating(self, donated: frozenset[int]) -> Executable:
        """Return the compiled program whose results may lie in the memory of the inputs `donated`."""
        with making:
            if donated not in self._donating:
                self._donating[donated] = compile(self.program, self.name, donated)
            return self._donating[donated]

    def saving(self, wanted: Pattern, *, linear: bool = False) -> Saving | None:
        """Return what records the procedure where the arguments `wanted` are followed; None: no gradient.

        A recording that is `linear` in them takes the rules that operations have for that, if any has.
        """
        key = wanted, linear and any(PRIMITIVES[e.name].adjoint for e in self.program.equations)
        if key not in self._saving:
            with making:
                if key not in self._saving:
                    self._saving[key] = _saving(self, wanted, by_adjoints=key[1])
        return self._saving[key]

    def unchecked(self, followed: Pattern) -> Procedure:
        """Return the procedure for values of no consequence, of which only the dependence matters."""
        if followed not in self._unchecked:
            self._unchecked[followed] = _unchecked(self, followed)
        return self._unchecked[followed]

    def mapped(self, mapped: Pattern, size: int) -> Procedure:
        """Return the procedure for `size` examples at once; the arguments `mapped` have them first."""
        key = (mapped, size)
        found = self._mapped.get(key)
        if found is None:
            with making:
                found = self._mapped.get(key) or self._mapped.setdefault(key, _mapped(self, mapped, size))
        return found

    def __str__(self) -> str:
        return str(self.program)


def _alone(fun: Any, avals: Sequence[Aval]) -> Program:
    """Return the program of a function that depends on its arguments only."""
    with quiet(), running(()):
        program, captured = staged(fun, avals)
    assert not captured  # noqa: S101 -- there is no other trace to capture from
    return program


class Saving:
    """A procedure that also returns what its reverse step needs, and that step."""

    primals: tuple[int, ...]
    vjp: VJP

    def __init__(
        self, cut: Cut, name: str, wanted: Pattern, cts: Sequence[int], present: Sequence[bool]
    ) -> None:
        self.forward: Procedure = Procedure(cut.forward, name)
        self.primals, self._cts, self._present = tuple(cut.primals), tuple(cts), tuple(present)
        self._backward = cut.backward
        self._steps: dict[tuple[bool, ...], Procedure] = {}
        vjp = self.vjp = VJP(self._call)
        vjp.primitive, vjp.pattern = "jit", wanted

    def _call(self, cts: Sequence[Any], *saved: Any) -> list[Any]:
        """Return the cotangents of the arguments that are followed; `cts` are those of all outputs."""
        given = [cts[i] for i in self._cts]
        step = self._step(tuple(ct is not None for ct in given))
        avals = step.ins[len(saved) :]
        arrived = [ct for ct in given if ct is not None]
        found = iter(
            apply(step, [*saved, *(convert(ct, a.dtype) for ct, a in zip(arrived, avals, strict=True))])
        )
        return [next(found) if there else None for there in self._present]

    def _step(self, arrived: tuple[bool, ...]) -> Procedure:
        """Return the reverse step for the cotangents that arrived; the others are zero."""
        if arrived not in self._steps:
            cts = self._backward.inputs[len(self._backward.inputs) - len(arrived) :]
            zeros = {
                v: np.broadcast_to(np.zeros((), v.aval.dtype), v.aval.shape)
                for v, there in zip(cts, arrived, strict=True)
                if not there
            }
            some = [v for v, there in zip(cts, arrived, strict=True) if there]
            program = replaced(arriving(self._backward, cts, some), zeros)
            self._steps[arrived] = Procedure(program, f"the gradient of {self.forward.name}")
        return self._steps[arrived]


def _saving(procedure: Procedure, wanted: Pattern, *, by_adjoints: bool) -> Saving | None:
    n = len(procedure.ins)
    cts = [i for i, a in enumerate(procedure.outs) if a.dtype.kind in "fc"]
    tracked = [i for i, w in enumerate(wanted) if w]
    present: list[bool] = []
    linear, checks, sweep = True, False, 0

    def joint(*values: Any) -> list[Any]:
        nonlocal linear, checks, sweep
        stage = next(t for t in current().traces if isinstance(t, Stage))
        primals = list(values[:n])
        with GradManager() as gm:
            if by_adjoints:
                gm.make_linear()
            leaves = []
            for i in tracked:
                primals[i] = gm.follow(primals[i]._value, primals[i]._nodes)
                leaves.append(primals[i])
            ys = procedure.program.run(primals)
            steps = [n.vjp for n in gm.recording_tape().live() if isinstance(n.vjp, VJP)]
            linear = all(step.linear for step in steps)
            checks = any(step.checks for step in steps)
            pullback = gm.pullback([ys[i] for i in cts], leaves, once=True)
        sweep = len(stage.equations)
        grads = pullback(values[n:])
        present.extend(g is not None for g in grads)
        return [
            *(y if y.__class__ is Tensor else as_array(y) for y in ys),
            *(g for g in grads if g is not None),
        ]

    program = _alone(joint, [*procedure.ins, *(procedure.outs[i] for i in cts)])
    if not any(present):
        return None
    cut = Cut(program, n, len(procedure.outs), sweep)
    saving = Saving(cut, procedure.name, wanted, cts, present)
    saving.vjp.linear, saving.vjp.checks = linear, checks
    return saving


def _unchecked(procedure: Procedure, followed: Pattern) -> Procedure:
    program = procedure.program
    if not any(PRIMITIVES[e.name].unchecked for e in program.equations):
        return procedure
    reached = {v for v, f in zip(program.inputs, followed, strict=True) if f}
    equations = []
    for e in program.equations:
        unchecked = PRIMITIVES[e.name].unchecked
        if any(isinstance(a, Var) and a in reached for a in e.args):
            reached.update(e.outs)
            if unchecked and isinstance(e.args[0], Var) and e.args[0] in reached:
                e = e.with_params(e.params | unchecked)  # noqa: PLW2901 -- takes its place
        equations.append(e)
    return Procedure(
        Program(program.inputs, equations, program.outputs, (None, None), list(program.regions.values())),
        procedure.name,
    )


def _mapped(procedure: Procedure, mapped: Pattern, size: int) -> Procedure:
    avals = [Aval((size, *a.shape), a.dtype) if m else a for a, m in zip(procedure.ins, mapped, strict=True)]
    program = _alone(lambda *values: for_examples(procedure.program.run, values, mapped, size), avals)
    return Procedure(program, f"vmap of {procedure.name}")


# ---- application ------------------------------------------------------------------------------------------


def apply(procedure: Procedure, args: Sequence[Any]) -> list[Any]:
    """Return the outputs of a procedure for arrays or Tensors: arrays, or Tensors if there is one.

    Where a function is being staged, its operations become part of that program. Otherwise it runs as one:
    under the innermost tracer, returning what every tape above that needs.
    """
    state = current()
    if staging() or watching():
        return procedure.program.run(args)
    tracers = [a._value for a in args if a.__class__ is Tensor and isinstance(a._value, Tracer)]
    for tracer in tracers:
        if tracer.trace not in state.traces:
            tracer.escaped()
    floor = max((b.trace.level for b in tracers), default=-1)
    steps: list[tuple[Tape, Saving, int]] = []
    whole = procedure
    tapes = following(args, state.traces, floor)
    for tape in tapes:
        if tape.linear_only:
            whole = whole.unchecked(tuple([node_on(tape, a) is not None for a in args]))
    for tape in reversed(tapes):  # the outer ones differentiate what the inner ones keep
        followed = tuple([node_on(tape, a) is not None for a in args])
        saving = whole.saving(followed, linear=tape.linear_only)
        if saving is not None:
            steps.append((tape, saving, len(whole.outs)))
            whole = saving.forward
    if tracers:
        trace = next(b.trace for b in tracers if b.trace.level == floor)
        made = trace.process(CALL, tuple([lowered(a, state, floor) for a in args]), {"code": whole})
        outs = [alias(o) if o.__class__ is Tensor else wrap(o) for o in made]
    else:
        found = whole.run([_value(a) for a in args])
        if not any(a.__class__ is Tensor for a in args):
            return list(found)
        outs = list(map(wrap, found))
    for tape in state.suspended:
        if any(node_on(tape, a) is not None for a in args):
            for out in outs:
                if out.dtype.kind in "fc":
                    out._nodes += (tape.node(HIDDEN, (), ()),)
    for tape, saving, count in reversed(steps):
        _record(tape, saving, count, args, outs, state)
    return outs[: len(procedure.outs)]


def _value(a: Any) -> Any:
    return as_array(a._value if a.__class__ is Tensor else a)


def _record(
    tape: Tape, saving: Saving, count: int, args: Sequence[Any], outs: Sequence[Tensor], state: State
) -> None:
    """Record on `tape` how the first `count` of `outs` came about; behind them is what its step needs."""
    primals = [args[i] for i in saving.primals]
    saved = [
        lowered(x, state, tape.level) if x.__class__ is Tensor else snapshot(as_array(x), aval_of(x).dtype)
        for x in primals
    ]
    saved += [lowered(o, state, tape.level) for o in outs[count : len(saving.forward.outs)]]
    parents = tuple([n for a in args if (n := node_on(tape, a)) is not None])
    avals: list[Any] = [(o.shape, o.dtype) for o in outs[:count]]
    if saving.forward.is_moving:  # forward mode has to know where cotangents would come from
        avals = [(*a, near(o)) for a, o in zip(avals, outs, strict=False)]
    node = tape.node(saving.vjp, tuple(saved), parents, aval=avals)
    for i, out in enumerate(outs[:count]):
        if out.dtype.kind in "fc":
            out._nodes += (tape.node(Pick(i, count), (), (node,)),)


def _batch(mapped: Pattern, *values: Any, code: Procedure) -> tuple[Any, ...]:
    size = batch_size(mapped, values)
    return tuple(apply(code.mapped(mapped, size), values))


CALL = declare(
    "jit",
    run=lambda *values, code: tuple(code.run([_value(v) for v in values])),
    vjp=flat,
    shape=lambda *_, code: code.outs,
    batch=_batch,
    many=True,
    stored="it belongs to one process",
)
