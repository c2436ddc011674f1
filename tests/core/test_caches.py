"""Caches in memory: what they hold, and that every one of them has a bound."""

import ast
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import fgrad
from fgrad import config
from fgrad.core.caches import LRU


def test_it_holds_what_was_stored():
    cache = LRU(lambda: 10)
    assert cache.get("a") is None
    cache["a"] = 1
    assert (cache.get("a"), cache.setdefault("a", 2), cache.setdefault("b", 3)) == (1, 1, 3)
    assert "a" in cache
    assert "c" not in cache
    assert sorted(cache) == ["a", "b"]
    assert len(cache) == 2
    cache["a"] = 4
    assert cache.get("a") == 4
    cache.clear()
    assert not len(cache)
    assert cache.get("a") is None


@pytest.mark.parametrize("limit", [2, 3, 10, 11, 100])
def test_it_never_holds_more_than_its_limit_and_always_what_was_used_last(limit):
    """Held to the obvious list, in order of use: at least half of the limit of them are there."""
    cache, used, draw = LRU(lambda: limit), [], random.Random(limit)
    for turn in range(3000):
        key = draw.randrange(3 * limit)
        if draw.random() < 0.5:
            cache[key] = turn
            value = turn
        else:
            value = cache.get(key)
        if value is not None:
            used = [pair for pair in used if pair[0] != key] + [(key, value)]
        assert len(cache) <= limit
        assert {k for k, _ in used[-(limit // 2) :]} <= {*cache}
        assert {*cache} <= {k for k, _ in used}
    for k, v in used[-(limit // 2) :]:
        assert cache.get(k) == v


def test_what_is_used_now_and_then_stays():
    cache = LRU(lambda: 10)
    cache["kept"] = 1
    for k in range(100):
        cache[k] = k
        if k % 4 == 0:
            assert cache.get("kept") == 1
    assert 0 not in cache


def test_threads():
    cache = LRU(lambda: 50)

    def use(seed):
        draw = random.Random(seed)
        for _ in range(5000):
            key = draw.randrange(100)
            found = cache.get(key)
            assert found is None or found == key
            assert cache.setdefault(key, key) == key

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(use, range(4)))
    finally:
        sys.setswitchinterval(interval)
    assert len(cache) <= 50 + 4  # of entries that were stored while the generations changed


@pytest.mark.parametrize("text, limit", [("", 1024), ("7", 7), ("0", 2), ("-5", 2)])
def test_the_limit_is_set_by_the_environment(monkeypatch, text, limit):
    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", text)
    assert config.cache_entries() == limit
    cache = LRU()
    for k in range(3 * limit):
        cache[k] = k
    assert limit // 2 < len(cache) <= limit


def test_a_limit_that_is_no_number(monkeypatch):
    monkeypatch.setenv("FGRAD_CACHE_ENTRIES", "many")
    with pytest.raises(ValueError, match="FGRAD_CACHE_ENTRIES must be an integer, not 'many'"):
        config.cache_entries()


# functions that remember every result, because there are few arguments: what those are
FEW = {
    "kernels/scalars.py": {"_common", "unified"},  # kinds, flags, dtypes
    "kernels/fourier.py": {"_loop"},  # kinds, flags, dtypes
    "kernels/extremes.py": {"_kernel"},  # kinds, flags, dtypes
    "kernels/assembly.py": {"_words"},  # kinds, flags, dtypes
    "compat/numba_pipeline.py": {"short"},  # a truth value
    "adjoints/formulas.py": {"_has_smooth_slopes"},  # names of atoms
    "adjoints/records.py": {"_reader"},  # names of fields
    "adjoints/slopes.py": {"_call_type", "_template"},  # atoms, functions of kernels with types of operands
    "archive/schema.py": {"signature"},  # primitives
    "compat/numpy.py": {
        "blas_address",
        "loops_of",
        "matrix_loop",
    },  # names of functions, ufuncs of primitives
    "compat/numba.py": {"clear", "copy_into", "copy_part", "duplicate", "grown"},  # a function each
    "compat/jax/devices.py": {"compiled"},  # numbers of arguments of a function
    "compat/jax/types.py": {"_upper", "_least"},  # nodes of the lattice of dtypes
    "compiler/elements.py": {"_body", "_truth"},  # names of primitives
    "compiler/simplify/rewriting.py": {"is_elementwise"},  # names of primitives
    "kernels/blas.py": {"_interpreted", "_trsm"},  # dtypes
    "kernels/body.py": {"_text"},  # names of functions
    "kernels/compilation.py": {"_builder"},  # the name of the processor
    "kernels/colouring.py": {"_kernel"},  # names of three kernels
    "kernels/convolution.py": {
        "_kernel",
        "loop",
    },  # tiles: of at most 8 rows, two vectors, and four kinds of lanes
    "kernels/gather_scatter.py": {"_kernel", "_rows", "_shared", "_fetched"},  # names of primitives, dtypes
    "kernels/lapack.py": {"_function"},  # two names
    "kernels/scans.py": {"_kernel", "kernel"},  # one axis or two, dtypes
    "kernels/selection.py": {"_kernel"},  # dtypes, arrays or numbers
    "kernels/signals.py": {"_words"},
    "kernels/small_matrices.py": {"_text"},  # two kernels, dtypes
    "kernels/sorting.py": {"_kernel", "ordering"},  # dtypes
    "kernels/sparse_products.py": {"_kernel"},  # two loops, dtypes
    "kernels/sums.py": {"_kernel"},  # dtypes, of rows of at most 32 numbers, or at most 8 side by side
    "kernels/translate.py": {"_name"},  # classes of NumPy's numbers
    "kernels/vector/__init__.py": {"_functions"},  # dtypes
    "kernels/windows.py": {"_window_kernel"},  # names of primitives, dtypes
    "numpy/registry.py": {"_kind", "_kinds"},  # letters of dtypes that NumPy's ufuncs have
    "ops/compiled.py": {"backend"},  # names of modules
    "ops/elementwise.py": {"_dtype_of", "made", "typed"},  # functions of primitives, dtypes
    "ops/fft.py": {"_dtype"},  # names of transforms, dtypes
    "ops/foreign.py": {"scipy"},  # names of modules
    "ops/precision.py": {"_limits", "_masks"},  # dtypes, with formats of fewer bits
    "transforms/cotangents.py": {"one_of"},  # dtypes
    "transforms/captures.py": {"_installed", "_is_installed"},  # names of packages
}


def remembering(path):
    """Yield the names of the functions in a file that remember a result for all arguments they ever had."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for decorator in getattr(node, "decorator_list", ()):
            text = ast.unparse(decorator)
            unbounded = "lru_cache(None" in text or "maxsize=None" in text
            if (unbounded or text.rpartition(".")[2] in {"cache", "once"}) and ast.unparse(node.args):
                yield node.name


def test_functions_that_remember_every_result_have_few_arguments():
    """Another one is decorated with `lru_cache(config.cache_entries())`, or listed above with the reason."""
    source = Path(fgrad.__file__).parent
    for path in sorted(source.rglob("*.py")):
        name = path.relative_to(source).as_posix()
        assert {*remembering(path)} <= FEW.get(name, set()), name
