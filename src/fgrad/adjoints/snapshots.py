"""The adjoint of a loop that records nothing: it keeps snapshots, from which parts of it run again."""

from __future__ import annotations

from typing import Any

from numba import types

from fgrad.adjoints import emission, syntax
from fgrad.adjoints.syntax import For


class Snapshots:
    """What the adjoint writes for loops that keep snapshots."""

    plan: Any
    kinds: dict[str, Any]
    function: Any
    sums: Any
    recording: bool
    is_compiled: bool
    is_flat_inside: Any
    counts: Any
    loop: Any
    named: Any
    count: Any
    popped: Any
    head_back: Any
    block_back: Any
    sums_of: Any

    def segments(self, s: For, out: emission.Text) -> None:
        """Write a loop that records nothing: it keeps snapshots, from which segments of it run again."""
        start, stop, step = (syntax.text(n) for n in (s.start, s.stop, s.step))
        turns, count, size, k = (self.named(s, n) for n in ("turns", "segments", "size", "segment"))
        given = self.function.snapshots
        out.add(f"{turns} = len(range({start}, {stop}, {step}))", s.line)
        least = f"math.ceil(math.sqrt({turns}))" if given is True else f"-(-{turns} // {given})"
        out.add(f"{size} = {least}")
        out.add(f"if {size} < 1:")  # Numba compiles `max` and `int` as functions
        out.add(f"    {size} = 1")
        out.add(f"{count} = -(-{turns} // {size})")
        for n in self.plan.segments[s]:
            ty = self.kinds[n]
            size_all = f"{count} * {n}.size" if syntax.is_array(ty) else count
            out.add(f"{self.snapshot(s, n)} = np.empty({size_all}{emission.dtype_argument(ty)})")
        out.add(f"for {k} in range({count}):")
        out.depth += 1
        for n in self.plan.segments[s]:
            kept = self.snapshot(s, n)
            is_array = syntax.is_array(self.kinds[n])
            out.add(
                f"copy_part({kept}, {k} * {n}.size, {n}, 0, {n}.size)" if is_array else f"{kept}[{k}] = {n}"
            )
        self.segment_ends(s, out)
        if self.is_compiled and self.is_flat_inside(s):
            self.forget(s, out)
        else:
            self.recording = False
            self.loop(self.segment(s), out)
            self.recording = True
        out.depth -= 1

    def forget(self, s: For, out: emission.Text) -> None:
        """Write a segment that records and forgets: it is the loop of the reverse sweep, compiled once."""
        tops = [f"p{k}" for k in sorted(self.counts(s.body))]
        marks = [self.named(s, f"{p}_before") for p in tops]
        for p, mark in zip(tops, marks, strict=True):
            out.add(f"{mark} = {p}")
        self.loop(self.segment(s), out)
        for p, mark in zip(tops, marks, strict=True):
            out.add(f"{p} = {mark}")

    def segment_ends(self, s: For, out: emission.Text) -> None:
        """Write where a segment begins and ends."""
        start, stop, step = (syntax.text(n) for n in (s.start, s.stop, s.step))
        count, size, k = (self.named(s, n) for n in ("segments", "size", "segment"))
        low, high = (self.named(s, n) for n in ("low", "high"))
        times = "" if step == "1" else f" * {step}"
        out.add(f"{low} = {start} + {k} * {size}{times}")
        out.add(f"{high} = {low} + {size}{times} if {k} < {count} - 1 else {stop}")

    def segment(self, s: For) -> For:
        """Return the loop over one segment."""
        low, high = (syntax.name(self.named(s, n), types.intp) for n in ("low", "high"))
        return For(s.var, low, high, s.step, s.body, s.line)

    def segments_back(self, s: For, out: emission.Text) -> None:
        """Write the reverse of such a loop, segment by segment."""
        count, k = (self.named(s, n) for n in ("segments", "segment"))
        found = self.sums_of(s)
        for line in found.before() if found else ():
            out.add(line, s.line)
        out.add(f"for {k} in range({count} - 1, -1, -1):", s.line)
        out.depth += 1
        for n in self.plan.segments[s]:
            kept, ty = self.snapshot(s, n), self.kinds[n]
            is_array = syntax.is_array(ty)
            out.add(f"copy_part({n}, 0, {kept}, {k} * {n}.size, {n}.size)" if is_array
                    else f"{n} = {self.popped(f'{kept}[{k}]', ty)}")  # fmt: skip
        self.segment_ends(s, out)
        part = self.segment(s)
        self.loop(part, out)
        self.count(out)
        self.head_back(part, out)
        outer, self.sums = self.sums, found
        out.lines += self.block_back(s.body, out)
        self.sums = outer
        out.depth -= 1
        for line in found.behind() if found else ():
            out.add(line)

    def snapshot(self, s: For, name: str) -> str:
        """Return the name of the snapshots of a variable."""
        found: str = self.named(s, f"{name}_kept")
        return found
