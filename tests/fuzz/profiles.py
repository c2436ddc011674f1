"""What kinds of programs there are: which families of steps, which dtypes, and by which ways they are run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.fuzz.growing import EVERY, FLOATS, Growth
from tests.fuzz.programs import Program
from tests.fuzz.steps import FAMILIES


class Profile(NamedTuple):
    """A kind of programs."""

    families: dict[str, int]
    dtypes: Sequence[str] = FLOATS
    ways: Sequence[str] = ("eager",)
    steps: tuple[int, int] = (1, 8)
    errors: float = 0.1
    shapes: Any = None
    nonfinite: float = 0.1  # how many of the programs have infinities and NaN among their values
    views: bool = False
    limit: int = 300


VALUES = ("eager", "eager", "jit", "jit", "vmap", "jit(vmap)", "again")
SLOPES = (
    "grad",
    "jvp",
    "jit(grad)",
    "grad(jit)",
    "vmap(grad)",
    "grad(vmap)",
    "hvp",
    "manager",
    "grad(checkpoint)",
    "jit(hvp)",
    "jit(jvp)",
    "forward over reverse",
    "vmap(jvp)",
)
BOTH = (*VALUES, *SLOPES)
ANY = ("?", "i1", "i4", "i8", "u1", "u4", "f4", "f8", "f8", "f8", "c16")

PROFILES = {
    "elementwise": Profile({"elementwise": 1}, FLOATS, BOTH),
    "dtypes": Profile({"dtypes": 2, "elementwise": 1, "reductions": 1}, EVERY, VALUES, steps=(1, 4)),
    "reductions": Profile({"reductions": 4, "elementwise": 1}, ANY, BOTH, steps=(1, 5)),
    "shapes": Profile({"shapes": 4, "elementwise": 1}, ANY, BOTH),
    "indexing": Profile({"indexing": 4, "elementwise": 1, "shapes": 1}, ANY, BOTH, steps=(1, 6)),
    "products": Profile(
        {"products": 4, "elementwise": 1, "shapes": 1}, ("f8", "f8", "f4", "c16", "i8"), BOTH, steps=(1, 5)
    ),
    "linalg": Profile(
        {"linalg": 4, "elementwise": 1},
        ("f8",),
        BOTH,
        steps=(1, 4),
        shapes=((2, 2), (3, 3), (2, 2, 2), (3,), (2, 3, 3)),
        nonfinite=0.0,  # LAPACK does not always come to an end
    ),
    "writes": Profile(
        {"writes": 5, "elementwise": 1, "indexing": 1}, ("f8", "f8", "f4", "c16", "i8"), BOTH, steps=(3, 10)
    ),
    "control": Profile({"control": 3, "elementwise": 1}, ("f8", "f8", "f4"), BOTH, steps=(1, 4), errors=0.0),
    "nested": Profile(
        {"nested": 3, "elementwise": 1},
        ("f8",),
        BOTH,
        steps=(1, 3),
        errors=0.0,
        shapes=((), (2,), (3,), (2, 2), (1,)),
        nonfinite=0.0,
    ),
    "mixed": Profile(
        dict.fromkeys(
            ["elementwise", "reductions", "shapes", "indexing", "products", "writes", "control"], 1
        ),
        ("f8", "f8", "f8", "f4"),
        BOTH,
        steps=(3, 12),
    ),
    "large": Profile(
        {"elementwise": 2, "reductions": 2, "shapes": 1, "indexing": 1, "writes": 2},
        ("f8", "f8", "f4", "i8", "c16", "u1"),
        ("eager", "eager", "jit", "grad", "jit(grad)"),
        steps=(1, 4),
        shapes=((40000,), (200, 200), (33000,), (3, 16385)),
        nonfinite=0.0,
        limit=200_000,
    ),
    "views": Profile(
        {"views": 5, "writes": 2, "elementwise": 1},
        ("f8", "f8", "f8", "c16", "i8"),
        BOTH,
        steps=(4, 12),
        views=True,
    ),
}

WAITING: set[str] = set()  # profiles of what is not there yet: only run by name


def grown(profile: Profile, seed: int) -> tuple[Program, str]:
    """Return a random program of a kind, and a way to run it."""
    g = Growth(seed, profile.dtypes, errors=profile.errors)
    g.nonfinite, g.views, g.limit = g.chance(profile.nonfinite), profile.views, profile.limit
    way = g.one(profile.ways)
    for _ in range(g.integer(1, 3)):
        g.add_input(g.one(profile.shapes) if profile.shapes else None)
    if "writes" in profile.families:
        for x in list(g.env):
            g.add(f"{g.fresh()} = {x} * {1.0 if g.env[x].dtype.kind in 'fc' else 1}")
    names = [n for n, weight in profile.families.items() for _ in range(weight)]
    for _ in range(g.integer(*profile.steps) * 3):
        g.add(g.one(FAMILIES[g.one(names)])(g))
        if len(g.steps) >= profile.steps[1] or g.ended:
            break
    if not g.steps:
        g.add("v0 = x0 * 1")
    return g.program(), way
