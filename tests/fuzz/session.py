"""Many programs, one after the other, each made from its kind and a seed, which make it again."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.fuzz.oracles import Case, Verdict, quiet, verdict
from tests.fuzz.profiles import PROFILES, WAITING, grown
from tests.fuzz.shrinking import script, shrunk

NORMAL = [name for name in PROFILES if name not in WAITING]


def case_of(kind: str, seed: int) -> Case:
    """Return the case of a kind and a seed."""
    program, way = grown(PROFILES[kind], seed)
    space = "fgrad.numpy" if random.Random(seed).random() < 0.3 else "numpy"
    return Case(program, space, way)


@dataclass
class Tally:
    """What came of many programs."""

    programs: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    witnesses: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def add(self, kind: str, seed: int, case: Case, found: Verdict) -> None:
        self.programs += 1
        self.kinds[found.kind] += 1
        self.witnesses.update(found.by)
        if found.kind == "refused":
            words = re.sub(r"at <program>:\d+|\d+", "", found.text).replace("\n", " ")
            self.refusals[words[:100]] += 1


def seeds(start: int, only: str | None = None) -> Iterator[tuple[str, int]]:
    names = NORMAL if only is None else only.split(",")
    seed = start
    while True:
        yield names[seed % len(names)], seed
        seed += 1


def described(kind: str, seed: int, case: Case, found: Verdict, *, smaller: bool = True) -> str:
    """Return a report of a finding: its seed, and the smallest script that shows it."""
    small = shrunk(case, found) if smaller else case
    return f"--- {found.kind}   [{kind}, seed {seed}]\n{script(small)}\n{verdict(small).text}\n"


def run(
    start: int,
    *,
    programs: int | None,
    seconds: float,
    only: str | None = None,
    known: set[str] | None = None,
) -> Tally:
    """Run programs until there are enough, or until the time is over; print what is found."""
    tally, end = Tally(), time.monotonic() + seconds
    for kind, seed in seeds(start, only):
        if tally.programs == programs or time.monotonic() > end:
            break
        with quiet():
            case = case_of(kind, seed)
        found = verdict(case)
        tally.add(kind, seed, case, found)
        if found.is_finding:
            text = described(kind, seed, case, found)
            tally.findings.append(text)
            print(text, flush=True)
    return tally
