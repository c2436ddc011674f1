"""Every keyword of every function that NumPy or SciPy has too, alone and in pairs, against that function.

The table is one of kinds of parameters, by their names: the library's own signature says which a function
has, and the library says which values it takes.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special
from tests.helpers import plain

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import scipy as ours

MODULES = {
    "numpy": (np, fnp),
    "numpy.linalg": (np.linalg, fnp.linalg),
    "numpy.fft": (np.fft, fnp.fft),
    "scipy.fft": (scipy.fft, ours.fft),
    "scipy.linalg": (scipy.linalg, ours.linalg),
    "scipy.ndimage": (scipy.ndimage, ours.ndimage),
    "scipy.signal": (scipy.signal, ours.signal),
    "scipy.integrate": (scipy.integrate, ours.integrate),
    "scipy.special": (scipy.special, ours.special),
}
RNG = np.random.default_rng(7)
WIDE, LONG, OTHER = RNG.uniform(-2, 2, (3, 4)), RNG.uniform(0.2, 2, 5), RNG.uniform(-1, 2, 5)
NEAR_SYMMETRIC = np.array([[4.0, 1.01, 0.52], [0.99, 3.0, 0.23], [0.48, 0.17, 5.0]])
DEFINITE = np.array([[2.0, 0.3, -0.2], [0.3, 1.1, 0.4], [-0.2, 0.4, 3.1]])
SQUARE = np.array([[1.1, 2.3, 3.7], [4.6, 5.9, 6.8], [2.6, 1.7, 0.4]])
MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 0, 1]], bool)

# what a parameter without default is given, by its name; all others get one of FIRST, or one of REST
FIRST, REST = (WIDE, NEAR_SYMMETRIC, SQUARE, LONG), (OTHER, LONG, WIDE * WIDE + 0.1, SQUARE)
OPERANDS: dict[str, tuple[Any, ...]] = {
    "arrays": ((LONG, OTHER), (WIDE, WIDE + 1)),
    "axis": (0, 1, -1),
    "b": (NEAR_SYMMETRIC @ np.ones(3), SQUARE, LONG),
    "c_and_lower": ((np.linalg.cholesky(NEAR_SYMMETRIC + NEAR_SYMMETRIC.T), True),),
    "c_or_cr": (LONG, (LONG[:3], OTHER[:3])),
    "condition": (MASK, [True, False, True]),
    "coordinates": (np.array([[0.3, 1.2, 2.1], [0.7, 2.2, 0.4]]),),
    "deg": (1, 2),
    "fp": (np.array([1.0, -1.0, 2.0, 0.5]),),
    "in1": (LONG, WIDE),
    "in2": (OTHER[:3], SQUARE[:2, :3]),
    "indices": ([0, 2],),
    "indices_or_sections": (2, [1]),
    "kth": (1, [0, 2]),
    "lu_and_piv": (scipy.linalg.lu_factor(NEAR_SYMMETRIC),),
    "m": (WIDE, LONG),
    "mask": (MASK,),
    "matrix": (np.array([[0.9, 0.1], [-0.2, 0.8]]),),
    "n": (4,),
    "obj": (1, [0, 2]),
    "pad_width": (1, ((1, 0), (2, 1))),
    "q": (0.3, np.array([0.1, 0.45, 0.85])),
    "repeats": (2, [1, 2, 0]),
    "reps": (2, (2, 1)),
    "shape": ((2, 3), 5),
    "shift": (1, (1, 2)),
    "sigma": (0.7, 1),
    "size": (3,),
    "sos": (scipy.signal.butter(2, 0.3, output="sos"),),
    "start": (0.5, LONG),
    "stop": (3.0, OTHER + 4),
    "tup": ((LONG, OTHER), (WIDE, WIDE + 1)),
    "v": (LONG[:3], OTHER),
    "values": (LONG[:3], 7.5, WIDE),
    "weights": (np.array([0.2, 0.5, 0.1]), SQUARE),
    "xp": (np.array([0.0, 0.5, 1.5, 3.2]),),
    "zoom": (1.5,),
}
# what a parameter with a default is given, by its name
BORDERS = ("reflect", "constant", "nearest", "mirror", "wrap", "grid-wrap", "grid-mirror", "grid-constant")
OPTIONS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("check_finite", "copy", "endpoint", "full_matrices", "prefilter", "rowvar"), (False,)),
    **dict.fromkeys(("balanced", "compute_uv", "return_onesided", "sorted", "padded"), (False,)),
    **dict.fromkeys(("overwrite_a", "overwrite_b", "overwrite_x", "overwrite_input"), (True,)),
    **dict.fromkeys(("density", "keepdims", "pivoting", "retstep", "returned", "grid_mode"), (True,)),
    **dict.fromkeys(("assume_unique", "bias", "deg", "equal_nan", "increasing", "permute_l"), (True,)),
    **dict.fromkeys(("include_initial", "return_sign", "transposed", "unit_diagonal", "upper"), (True,)),
    **dict.fromkeys(("return_counts", "return_index", "return_inverse", "return_rank", "p_indices"), (True,)),
    **dict.fromkeys(("lower", "hermitian", "orthogonalize"), (True, False)),
    "a_max": (0.5, None),
    "a_min": (-0.5, None),
    "append": (0.7, LONG[:3, None]),
    "assume_a": ("gen", "sym", "pos", "her", "upper triangular", "lower triangular", "tridiagonal", "banded"),
    "atol": (0.1,),
    "aweights": (LONG, LONG[:4]),
    "axes": (None, (0,), (1,), (0, 1), (1, 0), (-1,), 0, 1),
    "axis": (0, 1, -1, -2, 2, (0, 1), (1, 0), None, np.int64(1)),
    "axis1": (1, -1),
    "axis2": (0, 1),
    "axisa": (0,),
    "axisb": (0,),
    "axisc": (0,),
    "b": (DEFINITE, LONG, WIDE * WIDE),
    "base": (2.0,),
    "boundary": ("fill", "wrap", "symm"),
    "bp": (2, [1, 3]),
    "correction": (1, 0.5),
    "cval": (0.4,),
    "ddof": (1, 2, 0.5),
    "decimals": (1, -1),
    "detrend": ("linear", "constant", False),
    "discont": (1.0, 4.0),
    "dtype": ("float32", "complex128", "int64", "float16"),
    "dx": (0.5,),
    "edge_order": (2,),
    "fillvalue": (0.4,),
    "fs": (2.0,),
    "fweights": ([1, 2, 1, 3], [1, 2, 1, 3, 1]),
    "ind": (1,),
    "indexing": ("xy", "ij"),
    "initial": (0.3, 5.0, -9.0),
    "k": (1, -1, 2, 5, -7),
    "kind": ("stable",),
    "lapack_driver": ("gelsd", "gelsy"),
    "left": (0.25,),
    "m": (1, 2, 3),
    "max": (0.5,),
    "method": ("linear", "lower", "nearest", "hazen", "inverted_cdf", "fft", "direct", "pad", "gust"),
    "min": (-0.5,),
    "minlength": (7,),
    "mode": ("full", "same", "valid", "clip", "edge", "r", "economic", "mean", "minimum", *BORDERS),
    "n": (1, 2, 3, 5, 7),
    "nan": (0.5,),
    "ndmin": (3,),
    "nfft": (8,),
    "noverlap": (1, 2),
    "norm": ("ortho", "forward", "backward"),
    "nperseg": (3, 4),
    "num": (1, 4, 0),
    "offset": (1, -1, 0.3, (0.1, 0.2)),
    "ord": (1, 2, -1, -2, 3, 0.5, np.inf, -np.inf, "fro", "nuc"),
    "order": ("C", "F", "A", "K", 0, 1, 2, 3, (0, 1)),
    "origin": (1, -1, (0, 1)),
    "output": ("float32",),
    "output_shape": ((2, 3), (5, 6)),
    "p": (1, 2, "fro", np.inf),
    "padlen": (2, 0),
    "padtype": ("even", "constant", None),
    "period": (5.5,),
    "prepend": (0.7, LONG[:3, None]),
    "r": (OTHER,),
    "radius": (1, 2),
    "range": ((-1.0, 2.0),),
    "rcond": (1e-3, 0.4),
    "right": (True, 0.75),
    "rtol": (1e-3, 0.4),
    "s": ((2,), (3, 5), (2, 2)),
    "scaling": ("density", "spectrum", "psd"),
    "side": ("left", "right"),
    "size": (2, (2, 3)),
    "start": (1, 2),
    "to_begin": (0.3, [1.0, 2.0]),
    "to_end": (0.4,),
    "trans": (0, 1, 2),
    "trim": ("f", "b"),
    "truncate": (2.0,),
    "type": (1, 2, 3, 4),
    "UPLO": ("U", "L"),
    "w": (LONG,),
    "weights": (LONG, LONG[:4], LONG[:3], np.abs(WIDE)),
    "where": (MASK, MASK[:, :1], MASK[0], False),
    "window": ("hann", "boxcar"),
    "x": (np.array([0.0, 0.4, 1.1, 2.0]), np.array([0.0, 0.4, 1.1, 2.0, 3.5])),
    "y": (WIDE * WIDE, LONG),
}
# functions of files, texts and types, those that write to an argument, and those that take functions
LEFT_OUT = re.compile(
    r"(numpy\.(save|load|array|format|from|show|seterr|set_|get|info|einsum_path|can_cast|shares|may_share|"
    r"require|empty|apply|piecewise|vectorize|copyto|put|place|fill_diagonal|asarray|asany|copy|test)|"
    r"scipy\.integrate\.(quad|odeint|fixed_quad|solve_ivp)|.*_workers|scipy\.ndimage\.(sobel|prewitt)$)"
)
DEVIATIONS = {  # function and what differs -> why
    r"scipy.linalg.(eig|eigh|svd)\(.*(values|slopes)": "vectors are determined up to signs",
    r"scipy.linalg.(eig|eigvals)\(.*NotImplementedError": "documented",
    r"scipy.linalg.eig\(.*right=0.75": "SciPy takes no array for a truth value",
    r"scipy.linalg.(qr|schur)\(.*not supported": "documented",
    r"scipy.linalg.eigv?\w*\(.*type=4": "SciPy knows three, and tries",
    r"scipy.linalg.(lstsq|lu|qr)\(.*int(32|64)\[\d*\], not int": "the integers of LAPACK",
    r"scipy.linalg.lstsq\(.*gelsy.*4 results": "None is where singular values would be",
    r"scipy.linalg.cho_factor": "the other triangle, which SciPy leaves as it was, is zero",
    r"scipy.linalg.(lu_factor|solve_sylvester).*expected a matrix": "of stacks of matrices, not of vectors",
    r"scipy.linalg.inv.*(tridiagonal|banded).*KeyError": "SciPy's solve knows them, its inv does not",
    r"scipy.linalg.orthogonal_procrustes.*LinAlgError": "not determined by matrices of lower rank",
    r"scipy.linalg.hankel": "of a stack of vectors, as SciPy from 1.19 on",
    r"scipy.ndimage.spline_filter.*float64.*, not float32": "documented: the wider of two dtypes",
    r"scipy.ndimage.(convolve|correlate).*axes=1.*AxisError": "SciPy looks at axes of all but one length",
    r"scipy.ndimage.affine_transform.*order=1.*slopes": "points of the image, where there is a kink",
    r"scipy.special.zeta.*not known": "documented",
    r"numpy\.\w+\(.*order=.*(order must be|order is permitted)": "arrays that are made have no order",
    r"numpy\.(arg)?partition.*values": "compiled, all is sorted",
    r"(numpy|scipy).linalg.eig(vals)?\(.*complex128.*, not float64": "whether they are real is not known",
    r"numpy.roots.*complex128.*, not float64": "likewise",
    r"numpy.logspace.*float16.*nan": "10**4 overflows in the product of slopes",
    r"numpy.linalg.qr.*Unrecognized mode": "NumPy warns of names that it had",
    r"numpy.cov.*float16.*values": "NumPy rounds in between",
}
LIMIT = 60  # of pairs of options for one choice of operands


class Trial(NamedTuple):
    """A call, as the library and fgrad know it."""

    name: str
    theirs: Callable[..., Any]
    mine: Callable[..., Any]
    args: tuple[Any, ...]
    options: dict[str, Any]

    def __str__(self) -> str:
        told = [str(x.shape) if isinstance(x, np.ndarray) else repr(x)[:30] for x in self.args]
        told += [
            f"{k}={v.shape if isinstance(v, np.ndarray) and v.ndim else v!r}" for k, v in self.options.items()
        ]
        return f"{self.name}({', '.join(told)})"


def outcome(f: Callable[..., Any], args: Any, options: Any) -> Any:
    """Return what a function gives, or the error that it raises."""
    args, options = copy.deepcopy((args, options))
    try:
        return f(*args, **options)
    except Exception as error:
        return error


def leaves(y: Any) -> list[Any]:
    """Return arrays among results."""
    found = itertools.chain(*map(leaves, y)) if isinstance(y, tuple | list) else [y]
    return [
        x
        for x in found
        if isinstance(x, np.ndarray | np.number | np.bool | int | float | complex | fg.Tensor)
    ]


def functions(module: str) -> Iterator[tuple[str, Any, Any]]:
    """Return the functions of a module that both have, and that say which parameters they take."""
    theirs, mine = MODULES[module]
    for name in sorted(set(dir(theirs)) & set(dir(mine))):
        f = getattr(theirs, name)
        full = f"{module}.{name}"
        if name[0] == "_" or not callable(f) or isinstance(f, type | np.ufunc) or LEFT_OUT.match(full):
            continue
        yield full, f, getattr(mine, name)


def parameters(f: Any) -> tuple[list[inspect.Parameter], list[str]]:
    """Return parameters without default, and the names of the others."""
    try:
        found = list(inspect.signature(f).parameters.values())
    except ValueError:
        return [], []
    found = [p for p in found if p.kind is not p.VAR_KEYWORD]
    needed = [p for p in found if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]
    return needed, [p.name for p in found if p not in needed and p.name in OPTIONS]


@cache
def trials(module: str, *, pairs: bool) -> list[Trial]:
    """Return calls with one option, or with two of those that the library takes alone."""
    rng = np.random.default_rng(11)
    made = []
    for name, f, g in functions(module):
        needed, named = parameters(f)
        lists: list[tuple[Any, ...]] = [
            OPERANDS.get(p.name, REST if i else FIRST) for i, p in enumerate(needed)
        ]
        if needed and needed[-1].kind is inspect.Parameter.VAR_POSITIONAL:
            lists = [(LONG,), (OTHER,)]
        shapes = set()
        for args in itertools.islice(itertools.product(*lists), 60):
            kinds = tuple(getattr(x, "shape", type(x)) for x in args)
            if kinds in shapes or len(shapes) == 3 or isinstance(outcome(f, args, {}), Exception):
                continue
            shapes.add(kinds)
            alone = [{}, *({n: v} for n in named for v in OPTIONS[n])]
            if pairs:
                taken = [o for o in alone[1:] if not isinstance(outcome(f, args, o), Exception)]
                two = [a | b for a, b in itertools.combinations(taken, 2) if a.keys() != b.keys()]
                alone = [two[i] for i in rng.permutation(len(two))[:LIMIT]]
            made += [Trial(name, f, g, args, o) for o in alone]
    return made


def places(trial: Trial) -> list[Any]:
    """Return where float arrays are among the arguments, for what reads and writes them there."""
    found: list[Any] = []
    for i, x in enumerate((*trial.args, *trial.options.values())):
        if isinstance(x, np.ndarray) and x.dtype == float:
            found.append((i, None))
        elif isinstance(x, tuple) and i < len(trial.args):
            found += [(i, j) for j, y in enumerate(x) if isinstance(y, np.ndarray) and y.dtype == float]
    return found


def varied(trial: Trial, f: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """Return the call as a function of its float arrays, and these."""
    where = places(trial)
    everything = (*trial.args, *trial.options.values())

    def call(*values: Any) -> Any:
        given = list(copy.deepcopy(everything))
        for (i, j), v in zip(where, values, strict=True):
            if j is None:
                given[i] = v
            else:
                given[i] = (*given[i][:j], v, *given[i][j + 1 :])
        n = len(trial.args)
        return f(*given[:n], **dict(zip(trial.options, given[n:], strict=True)))

    return call, [everything[i] if j is None else everything[i][j] for i, j in where]


def differs(found: Any, expected: Any, rtol: float = 1e-7) -> str:
    """Return in what results differ: an empty text if in nothing."""
    if isinstance(found, Exception) or isinstance(expected, Exception):
        if isinstance(found, Exception) == isinstance(expected, Exception):
            return ""
        return f"refuses: {found!r}" if isinstance(found, Exception) else f"accepts: {expected!r}"
    found, expected = leaves(found), leaves(expected)
    if len(found) != len(expected):
        return f"{len(found)} results, not {len(expected)}"
    for a, e in zip(map(plain, found), map(plain, expected), strict=True):
        if (a.shape, a.dtype) != (e.shape, e.dtype):
            return f"{a.dtype}{list(a.shape)}, not {e.dtype}{list(e.shape)}"
        near = {"e": 1e-2, "f": 1e-4, "F": 1e-4}.get(e.dtype.char, rtol)
        size = max(np.abs(e[np.isfinite(e)]).max(initial=0), 1e-6) if e.dtype.kind in "fc" else 0
        if not np.allclose(a, e, near, near * size, equal_nan=True):
            return f"values {a!r}, not {e!r}"
    return ""


def slopes(trial: Trial, expected: Any) -> str:
    """Return in what derivatives differ from differences of the library, and cotangents from tangents."""
    f, values = varied(trial, trial.theirs)
    g, _ = varied(trial, trial.mine)
    keep = [plain(y).dtype.kind in "fc" for y in leaves(expected)]
    if not any(keep) or not values:
        return ""
    floats = lambda y: [x for x, k in zip(leaves(y), keep, strict=True) if k]
    rng = np.random.default_rng(13)
    moves = [rng.normal(size=v.shape) for v in values]
    try:
        _, tangents = fg.jvp(lambda *xs: floats(g(*xs)), tuple(values), tuple(moves))
        out, pull = fg.vjp(lambda *xs: floats(g(*xs)), *values)
        cts = [rng.normal(size=y.shape).astype(y.dtype) for y in out]
        pulled = pull(cts)
    except (TypeError, ValueError, NotImplementedError, np.linalg.LinAlgError) as error:
        return f"no derivative: {error!r}"
    product = lambda xs, ys: sum(np.sum(plain(x) * plain(y)).real for x, y in zip(xs, ys, strict=True))
    narrow = any(y.dtype.char in "efF" for y in out)
    size = 1 + sum(np.sum(np.abs(plain(t) * c)) for t, c in zip(tangents, cts, strict=True))
    if not abs(product(cts, tangents) - product(pulled, moves)) <= (1e-2 if narrow else 1e-7) * size:
        return f"cotangents: {product(pulled, moves)}, not {product(cts, tangents)}"
    estimates = []
    for step in (1e-6, 1.3e-5):
        moved = ([v + s * m for v, m in zip(values, moves, strict=True)] for s in (step, -step))
        ends = [outcome(f, xs, {}) for xs in moved]
        if any(isinstance(y, Exception) for y in ends):  # not all elements are free to move
            return ""
        up, down = ([plain(y) for y in floats(y)] for y in ends)
        estimates.append([(a - b) / (2 * step) for a, b in zip(up, down, strict=True)])
    for t, near, far in zip(map(plain, tangents), *estimates, strict=True):
        if near.dtype.char in "efF":
            continue
        size = max(np.abs(near).max(initial=0), 1)
        if np.allclose(near, far, 1e-3, 1e-4 * size) and not np.allclose(t, near, 2e-4, 2e-5 * size):
            return f"slopes {t!r}, not {near!r}"
    return ""


def compiled(trial: Trial, expected: Any) -> str:
    """Return in what the compiled call differs."""
    g, values = varied(trial, trial.mine)
    try:
        return differs(fg.jit(g)(*values), expected)
    except (fg.errors.NoValueError, TypeError):  # what depends on values
        return ""


def wrong(trial: Trial, *, compile: bool) -> list[str]:
    """Return what is wrong with a call, less what is known."""
    expected = outcome(trial.theirs, trial.args, trial.options)
    found = [differs(outcome(trial.mine, trial.args, trial.options), expected)]
    if not isinstance(expected, Exception):
        call, values = varied(trial, trial.mine)
        found.append(differs(outcome(call, [fg.tensor(v) for v in values], {}), expected))
        if not any(found):
            found.append(slopes(trial, expected))
        if compile and not any(found):
            found.append(compiled(trial, expected))
    told = [f"{trial}: {text}" for text in dict.fromkeys(found) if text]
    return [t for t in told if not any(re.search(known, t, re.DOTALL) for known in DEVIATIONS)]


def check(module: str, *, pairs: bool, compile: bool = False) -> None:
    tried = trials(module, pairs=pairs)
    assert len(tried) > 10
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = list(itertools.chain(*(wrong(trial, compile=compile) for trial in tried)))
    if found:
        pytest.fail(f"{len(found)} of {len(tried)}\n" + "\n".join(found), pytrace=False)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_options_alone(module):
    check(module, pairs=False)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_options_in_pairs(module):
    check(module, pairs=True)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_options_compiled(module):
    check(module, pairs=False, compile=True)
