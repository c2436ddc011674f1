"""What passes ask of primitives are columns of the primitives: no table beside them lists them by name."""

import ast
from pathlib import Path

import fgrad
import fgrad.lax
import fgrad.nn
import fgrad.numpy.fft
import fgrad.numpy.linalg
import fgrad.random
import fgrad.scipy.linalg
import fgrad.scipy.signal
import fgrad.scipy.special
from fgrad.core.primitive import PRIMITIVES, VJP, Primitive

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
# what a stored program may say: the words of the format, which stay when a primitive is renamed
FORMAT = {"archive/schema.py"}


def tables(tree):
    """Yield the module-level statements that give a name a value with names of two primitives or more."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
            words = {c.value for c in ast.walk(node.value) if isinstance(c, ast.Constant)}
            found = sorted(w for w in words if isinstance(w, str) and w in PRIMITIVES)
            if len(found) > 1:
                yield node.lineno, found


def sources():
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name.split("/")[0] not in DECLARING:
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def test_no_table_lists_primitives_by_name():
    found = {name: list(tables(tree)) for name, tree in sources()}
    listed = {name for name, lines in found.items() if lines}
    assert listed - FORMAT <= set(OTHERS), {n: found[n] for n in sorted(listed - FORMAT - set(OTHERS))}
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
