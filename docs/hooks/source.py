"""Lists every module of the package on the map of the source, with the first sentence of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from mkdocs.structure.pages import Page

SOURCE = Path(__file__).parents[2] / "src" / "fgrad"
MAP = "design/source.md"


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Append the list to the map."""
    if page.file.src_uri != MAP:
        return markdown
    folders = sorted({path.parent for path in SOURCE.rglob("*.py")})
    return "\n\n".join([markdown, "## Every module", *map(_folder, folders)])


def _folder(folder: Path) -> str:
    rows = [f"| `{path.name}` | {_summary(path)} |" for path in sorted(folder.glob("*.py"))]
    title = "/".join(("fgrad", *folder.relative_to(SOURCE).parts))
    return "\n".join([f"### {title}", "", "| module | what it is for |", "|---|---|", *rows])


def _summary(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
