"""Run every kind of kernel under compute-sanitizer on a GPU: python tests/cuda/sanitize.py.

memcheck finds accesses out of bounds, racecheck threads of a block that do not wait for one another,
initcheck reads of memory that nobody wrote. The script runs itself in each tool; its exit code is the number
of those that complained.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TOOLS = ("memcheck", "racecheck", "initcheck")
ROOT = Path(__file__).parents[2]


def launch() -> None:
    """Run every program eagerly and compiled, without graphs, at sizes that leave blocks half full.

    Each array is an allocation of its own: in CuPy's pool what is next to one may be read.
    """
    sys.path.insert(0, str(ROOT))
    import cupy
    from tests.cuda.programs import LIBRARY, PROGRAMS, single

    import fgrad as fg

    cupy.cuda.set_allocator(None)
    for f, *args in (*PROGRAMS.values(), *LIBRARY.values()):
        for given in (args, single(args)):
            for run in (f, fg.jit(f)):
                made = run(*(fg.tensor(a, device="cuda") for a in given))
                for y in fg.tree.leaves(made):
                    y.numpy()


def main() -> int:
    """Run this script under each tool; return how many complained."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        sys.stdout.write(
            "compute-sanitizer, which comes with CUDA's toolkit, is not here: nothing was checked\n"
        )
        return 1
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0", "FGRAD_CUDA_GRAPHS": "0"}
    failed = 0
    for name in TOOLS:
        command = [tool, "--tool", name, "--error-exitcode", "9", sys.executable, __file__, "launch"]
        code = subprocess.run(command, env=environment, check=False).returncode
        sys.stdout.write(f"{name}: {'clean' if code == 0 else f'exit code {code}'}\n")
        failed += code != 0
    return failed


if __name__ == "__main__":
    if sys.argv[1:] == ["launch"]:
        launch()
    else:
        sys.exit(main())
