"""What passes ask of primitives are columns of the primitives: no table beside them lists them by name."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import fgrad
from fgrad.core.primitive import VJP, Primitive

SOURCE = Path(fgrad.__file__).parent
# where primitives are declared, and what lists functions: of NumPy, of SciPy and its own
DECLARING = {"ops", "expr", "numpy", "scipy", "backend", "coverage.py", "extend", "__init__.py"}
# names of something else that are those of primitives too
OTHERS = {
    "compat/cpython.py": "methods of Python's containers",
    "kernels/cuda.py": "functions of CUDA's library",
    "kernels/mathlib.py": "functions of NumPy that tests hold the scalar library against",
    "kernels/rows.py": "kernels of rows",
    "kernels/scalars.py": "functions and instructions that LLVM calls",
    "kernels/vector/__init__.py": "functions of the scalar library",
    "kernels/vector/errors.py": "polynomials",
    "kernels/vector/exponentials.py": "polynomials",
    "kernels/vector/libm.py": "functions of the C library",
    "kernels/vector/trigonometric.py": "polynomials",
    "kernels/windows.py": "kinds of windows",
}


@functools.cache
def primitives():
    """Return the names that fgrad declares, in a process where no test has declared any."""
    load = (
        "import fgrad, fgrad.distributed, fgrad.lax, fgrad.nn, fgrad.numpy.fft, fgrad.numpy.linalg\n"
        "import fgrad.random, fgrad.scipy.linalg, fgrad.scipy.signal, fgrad.scipy.special\n"
        "import fgrad.transforms.procedure\n"
        "from fgrad.core.primitive import PRIMITIVES\n"
        "print(*PRIMITIVES)"
    )
    done = subprocess.run([sys.executable, "-c", load], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split()) - {"jit"}  # which names the function too


def tables(tree):
    """Yield the module-level statements that give a name a value with names of two primitives or more."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            words = {c.value for c in ast.walk(node.value) if isinstance(c, ast.Constant)}
            found = sorted(w for w in words if isinstance(w, str) and w in primitives())
            if len(found) > 1:
                yield node.lineno, found


@functools.cache
def sources():
    paths = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return [
        (name, ast.parse(path.read_text(encoding="utf-8")))
        for name, path in paths.items()
        if name.split("/")[0] not in DECLARING
    ]


def test_no_table_lists_primitives_by_name():
    found = {name: list(tables(tree)) for name, tree in sources()}
    listed = {name for name, lines in found.items() if lines}
    assert listed <= set(OTHERS), {n: found[n] for n in sorted(listed - set(OTHERS))}
    assert set(OTHERS) <= listed, "exceptions that nothing needs any more"


def test_tables_are_found():
    tree = ast.parse('A = {"sum": 1, "max": 2}\nB = ("sum",)\nC: set[str] = {"add", "x", "where"}\n')
    assert [line for line, _ in tables(tree)] == [1, 3]


def test_nothing_assigns_to_primitives_from_elsewhere():
    """Attributes are written where the classes are, by who declares, and by observers, which restore them."""
    slots = {*Primitive.__slots__, *VJP.__slots__}
    for name, tree in sources():
        if name in {"core/primitive.py", "core/observers.py"}:
            continue
        for node in ast.walk(tree):
            for target in getattr(node, "targets", ()):
                if isinstance(target, ast.Attribute) and target.attr in slots:
                    written = ast.unparse(target)
                    assert ast.unparse(target.value) not in {"primitive", "vjp", "step"}, f"{name}: {written}"


# what programs are rewritten to and built of: passes know these by name, and no others in more than 3 modules
VOCABULARY = {
    "add", "broadcast_to", "concatenate", "contract", "convert", "divide", "equal", "gather", "greater_equal",
    "isfinite", "less", "log", "logical_and", "logical_not", "max", "mean", "min", "multiply", "negative",
    "positive", "power", "real", "reshape", "scale", "slice", "sqrt", "stack", "stop_gradient", "subtract",
    "sum", "transpose", "unslice", "update", "where",
}  # fmt: skip


def test_only_the_vocabulary_of_passes_is_named_in_many_modules():
    named = {}
    for name, tree in sources():
        if name in OTHERS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in primitives():
                named.setdefault(node.value, set()).add(name)
    often = {primitive for primitive, modules in named.items() if len(modules) > 3}
    assert often <= VOCABULARY, {p: sorted(named[p]) for p in sorted(often - VOCABULARY)}
