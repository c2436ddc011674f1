"""Colours, light and dark: of the system, of JupyterLab, of the documentation, or as asked for."""

from __future__ import annotations

import re

LIGHT = {
    "paper": "#ffffff", "card": "#ffffff", "rim": "#d5dae1", "ink": "#1c2430", "muted": "#5d6b7c",
    "faint": "#8c98a8", "edge": "#9aa7b8", "shade": "#1c243014",
    "input": "#12805c", "output": "#b3541e", "group": "#5b6577",
    "elementwise": "#2f6fde", "linear": "#0e8a9c", "product": "#7a45d1", "reduction": "#c2660c",
    "other": "#c43a6b", "heat": "#e5484d",
    "manager": "#2f6fde", "sweep": "#c2660c", "backward": "#c2660c", "scope": "#12805c", "control": "#7a45d1",
}  # fmt: skip
DARK = {
    "paper": "#111418", "card": "#1c2129", "rim": "#39424f", "ink": "#e8edf4", "muted": "#a3afbf",
    "faint": "#7b8798", "edge": "#66758a", "shade": "#00000066",
    "input": "#4cc38a", "output": "#f0935e", "group": "#9aa7b8",
    "elementwise": "#6ea8ff", "linear": "#4fc8d8", "product": "#b794ff", "reduction": "#f5a04c",
    "other": "#ff7fa9", "heat": "#ff6369",
    "manager": "#6ea8ff", "sweep": "#f5a04c", "backward": "#f5a04c", "scope": "#4cc38a", "control": "#b794ff",
}  # fmt: skip
PAGES = (  # what notebooks and sites call themselves in the dark, and in the light
    ('[data-jp-theme-light="false"]', '[data-jp-theme-light="true"]'),
    ('[data-theme="dark"]', '[data-theme="light"]'),
    ('[data-md-color-scheme="slate"]', '[data-md-color-scheme="default"]'),
    (".vscode-dark", ".vscode-light"),
)
THEMES: dict[str, dict[str, str] | None] = {"auto": None, "light": LIGHT, "dark": DARK}
SANS = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif"
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"


def chosen(name: str) -> dict[str, str] | None:
    """Return the colours of a theme; None for those of the page or system."""
    if name not in THEMES:
        raise ValueError(f"theme is one of {', '.join(map(repr, THEMES))}, not {name!r}")
    return THEMES[name]


def variables(colours: dict[str, str]) -> str:
    """Return declarations of CSS."""
    return "".join(f"--fg-{name}:{value};" for name, value in colours.items())


def themed(selector: str) -> str:
    """Return CSS that gives the colours to `selector`: those of the page if it says, else of the system."""
    light, dark = variables(LIGHT), variables(DARK)
    darkly, lightly = (",".join(f"{page} {selector}" for page in pages) for pages in zip(*PAGES, strict=True))
    return (
        f"{selector}{{{light}}}@media(prefers-color-scheme:dark){{{selector}{{{dark}}}}}"
        f"{darkly}{{{dark}}}{lightly}{{{light}}}"
    )


def resolved(svg: str, colours: dict[str, str]) -> str:
    """Return a picture with colours in the place of variables, for programs that know no variables."""
    return re.sub(r"var\(--fg-(\w+)\)", lambda found: colours[found[1]], svg)
