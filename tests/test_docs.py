"""The tables of docs/howto: every piece of code in their columns `fgrad` runs, in the order of the page."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted((DOCS / "howto").glob("from_*.md"))
PARTING = re.compile(r"(?<!\\)\|")  # what parts the cells of a row


def snippets(page):
    """Yield the code in the last column of every table."""
    for line in page.read_text().splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            *_, last, _ = PARTING.split(line)
            yield from (code.replace(r"\|", "|") for code in re.findall("`([^`]+)`", last))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_column_of_fgrad_runs(page):
    block = page.read_text().partition("```python")[2].partition("```")[0]
    names = {}
    for example in doctest.DocTestParser().get_examples(block):
        exec(example.source, names)
    codes = list(snippets(page))
    assert len(codes) > 10
    for code in codes:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(code, f"{page.name}: {code}", "exec"), names)


def test_there_are_pages():
    assert {page.stem for page in PAGES} >= {"from_autograd", "from_jax", "from_megengine", "from_pytorch"}
