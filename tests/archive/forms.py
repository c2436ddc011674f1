"""What every primitive of the table looks like in a file: `python -m tests.archive.forms` writes it down.

A program of a version of the format means the same for as long as that version is read, so primitives may be
added to this list, and none may change without a new version.
"""

from __future__ import annotations

from pathlib import Path

from tests.ops.test_primitives import SAMPLES

from fgrad.archive.container import VERSIONS
from fgrad.archive.schema import has_code, signature
from fgrad.core.primitive import PRIMITIVES

FILE = Path(__file__).with_name("forms.txt")


def forms() -> dict[str, str]:
    """Return the operands and parameters of every primitive that can be stored."""
    found = {}
    for name in sorted({s.primitive for s in SAMPLES}):
        primitive = PRIMITIVES[name]
        stored = primitive.stored
        if isinstance(stored, str) or has_code(primitive):
            continue
        count, optional = signature(primitive)
        said = [f"{k}?" if k in optional else k for k in sorted(stored.params)]
        found[name] = " ".join([f"version {stored.since}:", "any" if count is None else str(count), *said])
    return found


def written() -> dict[str, str]:
    """Return what is written down."""
    lines = FILE.read_text().splitlines()
    return dict(line.split(" ", 1) for line in lines)


if __name__ == "__main__":
    FILE.write_text("".join(f"{k} {v}\n" for k, v in forms().items()))
    print(f"{len(forms())} primitives, version {VERSIONS[-1]}")
