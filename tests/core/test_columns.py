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
DECLARING = {"ops", "expr", "numpy", "scipy", "backend", "numpy_coverage.py", "extend", "__init__.py"}
# names of something else that are those of primitives too
OTHERS = {
    "adjoints/library.py": "functions of NumPy, written as kernels",
    "adjoints/slopes.py": "operators and functions in kernels, and the atoms that they are",
    "archive/reading.py": "names that primitives had in older files, which belong to the format",
    "compat/cpython.py": "methods of Python's containers",
    "kernels/launching.py": "functions of CUDA's library",
    "kernels/mathlib.py": "functions of NumPy that tests hold the scalar library against",
    "kernels/scalars.py": "functions and instructions that LLVM calls",
    "kernels/vector/__init__.py": "functions of the scalar library",
    "kernels/vector/errors.py": "polynomials",
    "kernels/vector/exponentials.py": "polynomials",
    "kernels/vector/libm.py": "functions of the C library",
    "kernels/vector/trigonometric.py": "polynomials",
    "kernels/windows.py": "kinds of windows",
    "lax/linalg.py": "functions that it offers",
    "random/threefry.py": "distributions that are drawn, by JAX's names",
    "nn/layers.py": "functions that layers apply",
    "tree.py": "functions of trees",
    "sparse/side_by_side.py": "how tangents with an axis more follow operations: one rule each",
}
STANDING_IN = ("compat/autograd/", "compat/jax/")  # for other libraries: names are theirs


# words in other modules that mean something else
HOMONYMS = {
    "adjoints/blocks.py": {"sum"},  # the beginning of a variable's name
    "adjoints/compact.py": {"max", "min"},  # Python's
    "adjoints/loops.py": {"max", "min"},  # Python's
    "adjoints/order.py": {"add"},  # a way to write
    "adjoints/strips.py": {"scale"},  # a function that kernels of reverse steps call
    "compiler/scans.py": {"add", "multiply"},  # ufuncs that accumulate
    "compiler/windows.py": {"max"},  # a kind of pooling
    "compat/numpy.py": {"solve"},  # a loop of NumPy
    "lax/indexing.py": {"update"},  # a parameter
    "lax/running.py": {"multiply"},  # a ufunc
    "random/sources.py": {"scale"},  # a parameter of distributions
    "archive/writing.py": {"slice"},  # Python's
    "core/nonfinite.py": {"divide", "sum"},  # a setting of NumPy's; a word of messages
    "kernels/butterflies.py": {"contract", "gather"},  # the same; a way to read vectors
    "kernels/assembly.py": {"add"},  # an instruction of LLVM
    "kernels/gather_scatter.py": {"add"},  # what a kernel does with a place
    "kernels/instructions.py": {"contract"},  # what LLVM may do with a product
    "kernels/microkernel.py": {"contract"},
    "random/continuous.py": {"scale"},  # a parameter of distributions
    "transforms/reverse.py": {"real"},  # kinds of numbers
    "viz/html.py": {"max", "mean", "min"},  # what a table shows
}
SURFACE = {
    **dict.fromkeys(
        [
            f"adjoints/{name}.py"
            for name in ("arrays", "calls", "lowering", "recording", "reversal", "tangent")
        ],
        "attributes and functions of NumPy in kernels",
    ),
    "compiler/rolling.py": "what stretches become: parts of what loops stack",
    "sparse/dependencies.py": "which entries a read reaches, and a write: one rule each",
    "sparse/lanes.py": "how slopes follow operations that scale and move: one rule each",
    "core/operators.py": "what operators and methods of Tensors call: NumPy's names",
    "core/rewriting/operations.py": "what passes write: one method each",
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
        if name.split("/")[0] not in DECLARING and not name.startswith(STANDING_IN)
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


def named_in(tree):
    """Yield the primitives that a module names."""
    slots = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__slots__"
    ]  # fmt: skip
    # what Python's operators and NumPy's functions do for Tensors
    functions = [
        node.slice for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in {"FUNCTIONS", "OPERATORS"}
    ]  # fmt: skip
    hidden = {id(c) for node in [*slots, *functions] for c in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in hidden and node.value in primitives():
            yield node.value


def test_no_primitive_is_named_in_many_modules():
    named, homonyms = {}, set()
    for name, tree in sources():
        if name not in OTHERS and name not in SURFACE:
            found = set(named_in(tree))
            homonyms |= {(name, word) for word in found if word in HOMONYMS.get(name, ())}
            for primitive in found.difference(HOMONYMS.get(name, ())):
                named.setdefault(primitive, set()).add(name)
    assert homonyms == {(n, w) for n, words in HOMONYMS.items() for w in words}, "words that nobody says"
    often = {primitive: sorted(modules) for primitive, modules in named.items() if len(modules) > 3}
    assert not often
