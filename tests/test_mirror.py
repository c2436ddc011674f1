"""Tests mirror the package: each module has a file of tests of its name, or is listed here with another."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "fgrad"
MODULES = sorted(
    path.relative_to(SOURCE).with_suffix("").as_posix()
    for path in SOURCE.rglob("*.py")
    if path.name != "__init__.py"
)

# Files that test several modules at once, through what users call, with the modules that have no file beside.
TOGETHER = {
    # tables of every primitive, rule, pass or error, whichever module declares it
    "ops/test_primitives": "ops/* expr/atoms expr/derive expr/node lax/primitives core/primitive",
    "compiler/simplify/test_every_rule": "compiler/simplify/*",
    "compiler/test_every_lowering": "compiler/contractions compiler/decompose compiler/degenerate "
    "compiler/elements compiler/emit compiler/tables expr/emit",
    "test_messages": "errors",
    # compiled programs: modules are the stages, tests compare what comes out with NumPy
    "compiler/test_complex": "compiler/fourier compiler/pairs expr/complex_numbers",
    "compiler/test_matrices": "kernels/lapack",
    "compiler/test_written": "compiler/dense_systems compiler/indexing compiler/matrix_loops "
    "compiler/windows kernels/bridges kernels/matrix_loops",
    "compiler/test_fuse": "compiler/index compiler/loop_nests compiler/writer",
    "compiler/test_rolling": "compiler/stretches",
    "compiler/test_library": "compiler/concatenation compiler/products compiler/scans",
    "compiler/test_listing": "compiler/cost compiler/plan",
    "compiler/test_executable": "compiler/layout",
    "compiler/device/test_programs": "compiler/device/*",
    "compiler/simplify/test_passes": "core/rewriting/*",
    "transforms/loops/test_lowering": "transforms/loops/* core/control_flow",
    # kernels: their language, and the bytecode that runs them
    "kernels/test_translate": "kernels/elements kernels/instructions kernels/intrinsics kernels/scalars",
    "kernels/test_blas": "kernels/microkernel",
    "kernels/test_fourier": "kernels/butterflies",
    "ops/test_compiled": "kernels/selection",
    "kernels/test_vm": "kernels/signals kernels/stacks",
    "kernels/test_vector": "expr/special",
    # parts of recordings and traces, which tests reach by transformations
    "core/test_tensor": "core/aval core/operators core/placement",
    "core/test_fast_paths": "core/dispatch core/tape core/trace core/snapshot",
    "transforms/test_stage": "core/program",
    "transforms/test_nonfinite": "core/nonfinite",
    "transforms/test_as_njit": "transforms/embedding kernels/embedding",
    "transforms/test_reverse": "transforms/cotangents transforms/residuals",
    "transforms/test_forward": "transforms/pushforward",
    "transforms/test_checkpoint": "transforms/checkpoint_policies transforms/segment",
    "transforms/test_batch": "transforms/vmap",
    "transforms/test_collectives": "transforms/axes transforms/messages",
    "transforms/test_jit": "transforms/retrace",
    "transforms/test_jit_composition": "transforms/procedure",
    "transforms/test_callbacks": "debug transforms/effects",
    "lax/test_control": "lax/*",
    # devices, simulated
    "backend/test_functions": "backend/array backend/composed backend/library",
    "backend/test_launches": "transforms/compiled_rules",
    # NumPy's surface, by its own chapters
    "numpy/test_polynomials": "numpy/calculus",
    "numpy/test_creation": "numpy/grids numpy/windows numpy/nondifferentiable",
    "numpy/test_names": "numpy/registry",
    "numpy/test_array_api": "numpy/namespace",
    "numpy/test_selection": "numpy/functional numpy/inplace",
    "numpy/test_shapes": "numpy/diagonals numpy/insertion numpy/joining numpy/padding "
    "numpy/permutations numpy/splitting",
    "test_types": "numpy/typing",
    "numpy/test_indexing": "numpy/complex_numbers numpy/rounding",
    "numpy/test_reductions": "numpy/cumulative numpy/moments",
    "numpy/test_sharing": "numpy/views",
    "nn/test_convolution": "nn/geometry",
    "random/test_continuous": "random/sources",
    "scipy/integrate/test_initial": "scipy/integrate/*",
    "scipy/optimize/test_minimization": "scipy/optimize/*",
    # patterns are compared with dense Jacobians, of programs and arguments of all kinds
    "sparse/test_dependencies": "sparse/patterns sparse/rows",
    "sparse/test_derivatives": "sparse/arguments sparse/plans",
    "scipy/sparse/test_linalg": "scipy/sparse/conjugate",
    # pictures and what they show
    "viz/test_notes": "core/notes core/observers core/scopes",
    "viz/test_drawing": "viz/collapse viz/graph viz/l* viz/programs viz/svg viz/t*",
    "viz/test_profiling": "viz/flame viz/formatting",
    "viz/test_html": "viz/image",
    "viz/test_magic": "core/display",
    # kernels of users: every stage, through what comes out
    "adjoints/test_programs": "adjoints/*",
    "adjoints/test_interface": "dispatchers",
    "compat/autograd/test_programs": "compat/autograd/*",
    "compat/jax/test_programs": "compat/jax/*",
    # what other processes, files and libraries see
    "archive/test_archive": "core/stored",
    "distributed/test_exchange": "distributed/operations distributed/transport",
    "kernels/test_store": "files",
    "core/test_process": "import_hooks",
}


def own(module: str) -> list[Path]:
    """Return the test files that a module has by its name, or by that of its package."""
    folder, _, name = f"/{module}".rpartition("/")
    beside = TESTS / folder.strip("/")
    name = name.strip("_")
    found = [*beside.glob(f"test_{name}.py"), *beside.glob(f"test_{name}_*.py")]
    if folder:
        found += [*beside.glob(f"test_{beside.name}.py"), *beside.parent.glob(f"test_{beside.name}.py")]
    return found


def listed(module: str) -> list[str]:
    """Return the files that test a module together with others."""
    return [file for file, names in TOGETHER.items() if any(fnmatch(module, name) for name in names.split())]


def test_every_module_has_its_tests():
    without = [module for module in MODULES if not own(module) and not listed(module)]
    assert not without, "a file of tests for each, or a line in TOGETHER"


def test_the_list_holds_what_it_has_to():
    assert [file for file in TOGETHER if not (TESTS / f"{file}.py").exists()] == []
    names = [name for text in TOGETHER.values() for name in text.split()]
    assert len(set(names)) == len(names)
    idle = [n for n in names if not any(fnmatch(m, n) and not own(m) for m in MODULES)]
    assert not idle, "these have tests of their own, or are no modules"


def test_folders_of_tests_are_those_of_the_package():
    folders = {path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")}
    aside = {"cuda", "fuzz", "stress"}  # which need a GPU, and search for errors at random
    assert [folder for folder in folders - aside if not (SOURCE / folder).is_dir()] == []
