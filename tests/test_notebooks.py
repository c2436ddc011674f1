"""Notebooks are kept without outputs, and lead to one another; `pytest --nbmake notebooks` runs them."""

import json
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def notebook(request):
    return json.loads(request.param.read_text(encoding="utf-8"))


def prose(notebook):
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "markdown"]


def test_nothing_that_a_run_leaves_is_kept(notebook):
    for cell in notebook["cells"]:
        assert not cell["metadata"], cell["id"]
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], cell["id"]
            assert cell["execution_count"] is None, cell["id"]
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["language_info"] == {"name": "python"}  # no version of whoever ran it last


def test_it_opens_with_a_title_and_speaks_between_cells(notebook):
    first, *_ = prose(notebook)
    assert first.startswith("# ")
    assert len(prose(notebook)) >= sum(c["cell_type"] == "code" for c in notebook["cells"]) / 2


def test_links_lead_to_notebooks_that_there_are(notebook):
    linked = re.findall(r"\]\((\w+\.ipynb)\)", "\n".join(prose(notebook)))
    assert linked, "a notebook leads to the next one"
    assert [name for name in linked if not (FOLDER / name).exists()] == []


def test_the_readme_lists_every_notebook():
    text = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert [p.name for p in NOTEBOOKS if f"(notebooks/{p.name})" not in text] == []
