"""Shows the notebooks as pages of the documentation, with the outputs that `.ci/notebooks` keeps in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
LINK = re.compile(r"\]\((\w+)\.ipynb")  # from one notebook to another
PICTURES = {
    "image/svg+xml": "{}",
    "image/png": '<img alt="output" width="{width}" src="data:image/png;base64,{}">',
    "text/html": "{}",
}


def on_config(config: MkDocsConfig) -> None:
    """Put every notebook under its number into the navigation."""
    pages = [f"tutorials/{path.stem}.md" for path in sorted(NOTEBOOKS.glob("*.ipynb"))]
    for entry in config.nav or []:
        if isinstance(entry, dict) and "Tutorials" in entry:
            entry["Tutorials"] += pages


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add a page for each notebook, and a list of them to the page of tutorials."""
    entries = []
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        where = f"tutorials/{path.stem}.md"
        page = "\n\n".join(map(_cell, cells))
        files.append(File.generated(config, where, content=page))
        title = page.lstrip().splitlines()[0].lstrip("# ")
        entries.append(f"- [{title}]({path.stem}.md): `notebooks/{path.name}`")
    index = files.src_uris["tutorials/index.md"]
    files.remove(index)
    text = "\n".join([index.content_string, *entries, ""])
    files.append(File.generated(config, index.src_uri, content=text))


def _cell(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return LINK.sub(r"](\1.md", text)
    parts = [f"```python\n{text}\n```"] if text else []
    parts += [shown for output in cell["outputs"] if (shown := _output(output))]
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    """Return an output as Markdown: a picture where there is one, else text."""
    if output["output_type"] == "stream":
        return _text(output["text"]) if output["name"] == "stdout" else ""
    data = output.get("data", {})
    for kind, form in PICTURES.items():
        if kind in data:
            # without blank lines, which would end the block
            body = "\n".join(line for line in "".join(data[kind]).splitlines() if line.strip())
            width = output["metadata"].get(kind, {}).get("width", "")  # on a page; the picture may have more
            return f'<div class="shown">{form.format(body, width=width)}</div>'
    return _text(data["text/plain"]) if "text/plain" in data else ""


def _text(lines: Any) -> str:
    return f"```{{ .text .shown }}\n{''.join(lines)}\n```"
