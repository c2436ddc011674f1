"""`python -m fgrad` says what runs here; `demo`, `cache` and `coverage` are about compiled code and NumPy."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from fgrad import __version__, cache, config
from fgrad.demo import parallel, run
from fgrad.numpy_coverage import coverage


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the command line asks; return the exit status.

    Who reads the output may stop to, as `head` does.
    """
    try:
        status = _main(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # so that the exit does not write again
        return 1
    return status


def _main(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fgrad", description="Print versions, threads, kernel cache and devices."
    )
    parser.add_argument("--version", action="store_true", help="print the version of fgrad alone")
    commands = parser.add_subparsers(dest="command", title="commands")
    demo = commands.add_parser("demo", help="train a classifier of handwritten digits in three styles")
    demo.add_argument(
        "--epochs", type=_at_least(1), default=40, help="passes over the training data (default: 40)"
    )
    demo.add_argument("--seed", type=_at_least(0), default=0, help="of the random numbers (default: 0)")
    demo.add_argument(
        "--data-parallel",
        action="store_true",
        help="share every batch among the ranks of MPI: mpirun -n 4 python -m fgrad demo --data-parallel",
    )
    commands.add_parser("coverage", help="print which names of NumPy work on Tensors, with which derivatives")
    stored = commands.add_parser("cache", help="say what the folder of compiled code holds, or empty it")
    stored.add_argument("action", choices=["info", "clear"], nargs="?", default="info", help="default: info")
    options = parser.parse_args(argv)
    if options.version:
        print(f"fgrad {__version__}")
        return 0
    if options.command == "demo":
        if options.data_parallel:
            try:
                return parallel.main(options.epochs, options.seed)
            except ImportError as error:
                print(f"python -m fgrad demo --data-parallel: {error}", file=sys.stderr)
                return 1
        return run.main(options.epochs, options.seed)
    if options.command == "coverage":
        print(coverage())
        return 0
    if options.command == "cache":
        if options.action == "clear":
            print(f"entries removed: {cache.clear()}")
        print(cache.info())
        return 0
    print(about())
    return 0


def about() -> str:
    """Return what a bug report should begin with: versions, threads, kernel cache, devices."""
    packages = ("numpy", "numba", "optree")
    rows = {
        "fgrad": _version("fgrad") or "not installed: runs from its source",
        "python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        **{
            name: _version(name) or "not installed" for name in packages
        },  # asked of pip: importing numba is slow
        "threads": str(config.num_threads()),
        "kernel cache": _folder(config.cache_dir()),
        "devices": f"cpu; cuda {_cuda()}",
    }
    return "\n".join(f"{label:<13} {value}" for label, value in rows.items())


def _version(distribution: str) -> str | None:
    """Return the installed version of a distribution, None if there is none."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _folder(path: Path) -> str:
    """Return a folder with the number and total size of the files below it."""
    sizes = []
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):  # other processes tidy the cache, too
            if file.is_file():
                sizes.append(file.stat().st_size)
    return f"{path} ({len(sizes)} files, {sum(sizes) / 1e6:.1f} MB)"


def _cuda() -> str:
    """Return how many CUDA devices there are, or why they were not counted."""
    if not all(map(find_spec, ("numba_cuda", "cupy"))):
        return 'not checked: needs pip install "fgrad[cuda]"'
    try:
        count = import_module("cupy").cuda.runtime.getDeviceCount()  # here, because it takes a second
    except (ImportError, RuntimeError) as error:  # no libraries, or no driver
        return f"not available: {error}"
    return f"({count} device{'s' * (count != 1)})"


def _at_least(least: int) -> Callable[[str], int]:
    """Return a parser of integers not below `least`."""

    def integer(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, got {value}")
        return value

    return integer


if __name__ == "__main__":
    sys.exit(main())
