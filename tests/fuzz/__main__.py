"""`python -m tests.fuzz`: random programs, for some minutes."""

from __future__ import annotations

import argparse
import os
import resource
import sys

os.environ.setdefault("FGRAD_TRACEBACK", "full")

from tests.fuzz.profiles import PROFILES
from tests.fuzz.session import NORMAL, run
from tests.fuzz.witnesses import JAX, PEERS, has_jax

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
parser.add_argument(
    "--minutes", type=float, default=None, help="how long to go on; 5 where --programs is not given"
)
parser.add_argument("--programs", type=int, default=None, help="how many programs")
parser.add_argument("--seed", type=int, default=0, help="the seed of the first program; the others follow")
parser.add_argument("--only", help=f"kinds of programs, separated by commas: {', '.join(PROFILES)}")
parser.add_argument(
    "--interpreted", action="store_true", help="let Python run the kernels: faster for small programs"
)
chosen = parser.parse_args()
resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))  # a program too many of memory fails alone
if has_jax():
    PEERS.append(JAX)
minutes = chosen.minutes if chosen.minutes is not None else 5 if chosen.programs is None else 1e6
if chosen.interpreted:
    from tests.compiler.interpreting import kernels_in_python

    small = ",".join(name for name in NORMAL if name != "large")
    with kernels_in_python():
        tally = run(chosen.seed, programs=chosen.programs, seconds=60 * minutes, only=chosen.only or small)
else:
    tally = run(chosen.seed, programs=chosen.programs, seconds=60 * minutes, only=chosen.only)
print(f"{tally.programs} programs, seeds {chosen.seed} to {chosen.seed + tally.programs - 1}")
for kind, n in tally.kinds.most_common():
    print(f"{n:8} {kind}")
print("derivatives confirmed by:")
for name, n in tally.witnesses.most_common():
    print(f"{n:8} {name}")
print("refused:")
for kind, n in tally.refusals.most_common(60):
    print(f"{n:8} {kind}")
sys.exit(bool(tally.findings))
