"""Random programs, written and read again: they are what they were, and compute the same bits."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest
from tests.compiler.drawing import Drawing, computed, described, differs, search, staged
from tests.compiler.lowering_patterns import LOWERED
from tests.compiler.simplify.patterns import PATTERNS

from fgrad.archive.container import packed, unpacked
from fgrad.archive.reading import Reader
from fgrad.archive.writing import Writer

SEED = os.environ.get("FGRAD_TEST_SEED", "")  # for other programs than those of the suite
COUNT = int(os.environ.get("FGRAD_TEST_PROGRAMS", "8"))  # around each pattern
ALL = PATTERNS | LOWERED


@pytest.mark.parametrize("name", ALL)
def test_programs_are_read_as_they_were_written(name):
    read = Counter[str]()

    def check(chosen: Any) -> list[int]:
        d = Drawing(chosen, ALL[name].modes)
        t = staged(d, ALL[name].draw(d))
        if t is None:
            return d.used
        writer = Writer("f")
        said = writer.program(t.program)
        header, arrays, version = unpacked(packed({"program": said}, writer.arrays.found))
        program = Reader(arrays, version).program(header["program"])
        error, values = computed(program, t.inputs)
        if error or any(differs(y, e) for y, e in zip(values, t.outputs, strict=True)):
            raise AssertionError(
                f"{described(t)}\ngives {t.outputs}, and read again\n{program}\n{error or values}"
            )
        read[name] += 1
        return d.used

    search(check, f"{name} {SEED}", COUNT)
    assert read[name]
