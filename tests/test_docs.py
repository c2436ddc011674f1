"""What pages show runs, and what they name exists.

Every piece of code in the columns `fgrad` of the tables of docs/howto runs, in the order of the page.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from pathlib import Path

import numpy as np
import pytest

import fgrad

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
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


def anchor(heading):
    """Return the anchor that GitHub and MkDocs make of a heading."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_pages_outside_of_the_site_lead_somewhere(name):
    links = re.findall(r"\]\((?!https?:)([^)#]+)(?:#([^)]+))?\)", (ROOT / name).read_text())
    assert links
    assert [path for path, _ in links if not (ROOT / path).exists()] == []
    for path, part in links:
        headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.MULTILINE) if part else []
        assert not part or part in map(anchor, headings), f"{path}#{part}"


def test_the_readme_is_one_page_and_has_the_two_commands():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 180
    commands = [line for line in lines if line.startswith("pip install -e ")]
    assert [c.partition("&& ")[2] for c in commands] == ["python -m fgrad demo", "python -m pytest"]


@pytest.mark.parametrize(
    "page", [*DOCS.glob("design/*.md"), *DOCS.glob("contributing/*.md")], ids=lambda page: page.stem
)
def test_files_that_pages_for_authors_name_exist(page):
    named = {path for path in re.findall(r"`([\w/.]+\.(?:py|md))\b", page.read_text()) if "/" in path}
    made_by_the_reader = {"transforms/laplacian.py", "tests/transforms/test_laplacian.py"}
    places = [ROOT, ROOT / "src", ROOT / "src" / "fgrad"]
    missing = [path for path in named if not any((place / path).exists() for place in places)]
    assert set(missing) <= made_by_the_reader


def test_the_tour_ends_with_the_picture_of_its_first_problem():
    """`.ci/pictures` makes it of what the page shows."""
    page = (DOCS / "tutorials" / "tour.md").read_text()
    assert page.splitlines()[-1].endswith("(../pictures/throws.svg)")
    problem = page.partition("## A free throw")[2].partition("\n## ")[0]
    names = {"np": np, "fg": fgrad}
    for block in re.findall(r"```python\n(.*?)```", problem, re.DOTALL):
        for example in doctest.DocTestParser().get_examples(block):
            exec(example.source, names)
    drawn = (DOCS / "pictures" / "throws.svg").read_text()
    assert len(names["throws"]) == 5
    for forward, up in names["throws"]:
        assert f"{forward:.2f} m/s forward, {up:.2f} m/s up<" in drawn
