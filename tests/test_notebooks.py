"""Notebooks keep what their cells show, and lead to one another; `.ci/notebooks` runs them."""

import ast
import itertools
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


def code(notebook):
    return [c for c in notebook["cells"] if c["cell_type"] == "code"]


def kinds(cell):
    """Return what kinds of output are kept of a cell, one after the other."""
    return [k for o in cell["outputs"] for k in ([o["name"]] if "name" in o else o.get("data", {}))]


def calls(nodes):
    return {ast.unparse(n.func) for x in nodes for n in ast.walk(x) if isinstance(n, ast.Call)}


def promised(notebook):
    """Yield each cell with the kinds of output that its text promises."""
    drawing = {"plt.plot", "plt.subplots", "plt.subplot_mosaic"}
    for cell in code(notebook):
        body = ast.parse(re.sub(r"^%.*", "", "".join(cell["source"]), flags=re.MULTILINE)).body
        functions = [s for s in body if isinstance(s, ast.FunctionDef)]
        drawing |= {f.name for f in functions if calls([f]) & drawing}
        called = calls(s for s in body if not isinstance(s, ast.FunctionDef | ast.ClassDef))
        found = {"stdout"} if "print" in called else set()
        found |= {"image/png"} if called & drawing else set()
        last = body[-1].value if isinstance(body[-1], ast.Expr) else None
        found |= {"text/plain"} if isinstance(last, ast.Name | ast.Subscript) else set()
        found |= {"image/svg+xml"} if last is not None and "draw" in calls([last]) else set()
        found |= {"text/html"} if last is not None and "fg.profile" in calls([last]) else set()
        yield cell, found


def test_what_cells_show_is_kept(notebook):
    found = list(promised(notebook))
    assert [c["id"] for c, wanted in found if not wanted <= set(kinds(c))] == []
    assert sum("image/png" in wanted for _, wanted in found) >= 1
    assert not any({"text/html", "image/svg+xml"} <= set(kinds(c)) for c, _ in found), "one of both will do"


def test_it_is_small():
    sizes = {
        (p.stem, c["id"]): len(json.dumps(c["outputs"]))
        for p in NOTEBOOKS
        for c in code(json.loads(p.read_text()))
    }
    assert max(sizes.values()) < 300_000, max(sizes, key=sizes.get)
    assert sum(sizes.values()) < 2_000_000


def test_no_path_of_a_machine_is_kept(notebook):
    for cell in code(notebook):
        text = json.dumps([{**o, "data": {**o.get("data", {}), "image/png": ""}} for o in cell["outputs"]])
        found = re.search(r"ipykernel_|ipython-input|site-packages|(^|[^\w<.])/[a-z]+/[\w.]|[A-Z]:\\\\", text)
        assert not found, (cell["id"], text[found.start() - 40 : found.end() + 40])


def test_nothing_else_that_a_run_leaves_is_kept(notebook):
    for cell in notebook["cells"]:
        assert not cell["metadata"], cell["id"]
    for cell in code(notebook):
        assert cell["execution_count"] is None, cell["id"]
        assert not {"stderr", "error"} & {o.get("name", o["output_type"]) for o in cell["outputs"]}, cell[
            "id"
        ]
        assert ("stdout", "stdout") not in itertools.pairwise(kinds(cell)), "they are one"
        assert all(o.get("execution_count") is None for o in cell["outputs"]), cell["id"]
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
