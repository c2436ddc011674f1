"""Type checkers accept right uses of fgrad and refuse wrong ones, line by line: `typed_uses.py`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.stubs import stubs

import fgrad

USES = Path(__file__).with_name("typed_uses.py")
SOURCE = Path(fgrad.__file__).parent.parent
WRONG = {n for n, line in enumerate(USES.read_text("utf-8").splitlines(), 1) if line.endswith("  # error")}


def run(*command, cwd):
    environment = {**os.environ, "MYPYPATH": str(SOURCE), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        check=False,
    )


def test_there_are_right_and_wrong_uses():
    assert len(WRONG) > 30
    assert len(USES.read_text("utf-8").splitlines()) > 2 * len(WRONG)


@pytest.mark.skipif(find_spec("mypy") is None, reason="needs mypy")
def test_mypy_refuses_what_is_wrong(tmp_path):
    done = run(
        "mypy", "--strict", "--config-file=", "--ignore-missing-imports", "--follow-imports=silent",
        "--cache-dir", str(tmp_path), "--no-error-summary", str(USES), cwd=tmp_path,
    )  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert errors, done.stderr
    assert {int(line.split(".py:")[1].split(":")[0]) for line in errors} == WRONG, done.stdout


@pytest.mark.skipif(find_spec("pyright") is None, reason="needs pyright")
def test_pyright_refuses_what_is_wrong(tmp_path):
    settings = {"include": [USES.name], "extraPaths": [str(SOURCE)], "typeCheckingMode": "strict"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    (tmp_path / USES.name).write_text(USES.read_text("utf-8"))
    done = run("pyright", "--outputjson", "--pythonpath", sys.executable, cwd=tmp_path)
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = {d["range"]["start"]["line"] + 1 for d in found if d["severity"] == "error"}
    assert lines == WRONG, [d for d in found if d["range"]["start"]["line"] + 1 not in WRONG]


def test_the_stubs_say_what_the_functions_are():
    for path, text in stubs().items():
        assert path.read_text("utf-8") == text, "python -m tests.stubs writes them again"
