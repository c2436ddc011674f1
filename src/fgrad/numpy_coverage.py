"""Which of NumPy's names work on Tensors, and with which derivatives, found by calling each of them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from fgrad import numpy as ours
from fgrad import random
from fgrad.core.tensor import Tensor, tensor
from fgrad.transforms.forward import jvp
from fgrad.transforms.reverse import grad
from fgrad.transforms.stage import make_graph
from fgrad.transforms.vmap import vmap

Call = Callable[[Any, Any, Any], Any]  # of the function and of two matrices

FIRST = np.array([[0.8, 0.1, 0.2], [0.1, 0.7, 0.15], [0.2, 0.15, 0.9]])  # positive definite, in every domain
SECOND = FIRST + 1.0 + np.arange(9.0).reshape(3, 3) / 9

# What a function is called with: the first of these that NumPy accepts, unless it is in `CALLS`
USUAL: Sequence[Call] = (
    lambda f, x, y: f(x),
    lambda f, x, y: f(x, y),
    lambda f, x, y: f([x, y]),
    lambda f, x, y: f(x[0]),
    lambda f, x, y: f(x[0], y[0]),
    lambda f, x, y: f(x, 1),
)

_PLACES = np.array([[2, 0, 1]])

CALLS: dict[str, Call] = {
    **dict.fromkeys(
        ("column_stack", "concat", "concatenate", "dstack", "hstack", "row_stack", "stack", "vstack"),
        lambda f, x, y: f([x, y]),
    ),
    **dict.fromkeys(("arccosh", "acosh"), lambda f, x, y: f(y)),
    **dict.fromkeys(("moveaxis", "swapaxes"), lambda f, x, y: f(x, 0, 1)),
    **dict.fromkeys(("nanpercentile", "percentile"), lambda f, x, y: f(x, 30)),
    **dict.fromkeys(("nanquantile", "quantile"), lambda f, x, y: f(x, 0.3)),
    "angle": lambda f, x, y: f(x + 1j * y),
    "apply_along_axis": lambda f, x, y: f(lambda v: v * v, 0, x),
    "apply_over_axes": lambda f, x, y: f(np.sum, x, [0]),
    "astype": lambda f, x, y: f(x, np.float64),
    "bincount": lambda f, x, y: f(np.array([0, 1, 1]), weights=x[0]),
    "bitwise_count": lambda f, x, y: f(x > 0.5),
    "block": lambda f, x, y: f([[x, y]]),
    "broadcast_to": lambda f, x, y: f(x, (2, 3, 3)),
    "choose": lambda f, x, y: f(np.array([0, 1, 0]), [x, y]),
    "clip": lambda f, x, y: f(x, 0.15, 0.75),
    "compress": lambda f, x, y: f([True, False, True], x, 0),
    "copyto": lambda f, x, y: _written(f, x, y * 1.0),
    "digitize": lambda f, x, y: f(x, [0.1, 0.5]),
    "dsplit": lambda f, x, y: f(x.reshape(1, 3, 3), 3),
    "einsum": lambda f, x, y: f("ij,jk->ik", x, y),
    "extract": lambda f, x, y: f(np.eye(3, dtype=bool), x),
    "fill_diagonal": lambda f, x, y: _written(f, x, y[0]),
    "full": lambda f, x, y: f((2, 3), x[0]),
    "histogram": lambda f, x, y: f(np.arange(3.0), bins=2, weights=x[0]),
    "imag": lambda f, x, y: f(x * 1j),
    "insert": lambda f, x, y: f(x, 1, y[0], axis=0),
    "interp": lambda f, x, y: f(x, [0.0, 0.5, 1.0], y[0]),
    "lstsq": lambda f, x, y: f(x, y)[0],
    "piecewise": lambda f, x, y: f(x, [x < 0.5], [lambda v: v * v, lambda v: 3 * v]),
    "place": lambda f, x, y: _written(f, x, np.eye(3, dtype=bool), y[0]),
    "poly": lambda f, x, y: f(x[0]),
    "polyfit": lambda f, x, y: f(np.arange(3.0), y[0], 1),
    "put": lambda f, x, y: _written(f, x, [0, 2], y[0, :2]),
    "put_along_axis": lambda f, x, y: _written(f, x, _PLACES, y[:1], 0),
    "putmask": lambda f, x, y: _written(f, x, np.eye(3, dtype=bool), y),
    "reshape": lambda f, x, y: f(x, (9,)),
    "roll": lambda f, x, y: f(x, 1),
    "select": lambda f, x, y: f([x > 0.5], [x * y], y),
    "take_along_axis": lambda f, x, y: f(x, _PLACES, 0),
    "vectorize": lambda f, x, y: f(lambda v: v * v)(x[0]),
    "where": lambda f, x, y: f(x > 0.5, x, y),
    "scipy.special.multigammaln": lambda f, x, y: f(y[0], 2),
    "scipy.special.chndtrinc": lambda f, x, y: f(3 * y[0], y[1], x[0] / 3),
    "scipy.special.pdtrik": lambda f, x, y: f(x[0], y[0]),
    "scipy.special.polygamma": lambda f, x, y: f(1, x[0]),
    "scipy.special.zeta": lambda f, x, y: f(3.0, x[0]),
    **{f"scipy.special.spherical_{k}n": lambda f, x, y: f(2, x[0]) for k in "ijky"},
    "fromfunction": lambda f, x, y: f(lambda i, j: x[0] * i * j, (2, 3)),
    "linalg.tensorinv": lambda f, x, y: f(x, ind=1),
    "linalg.tensorsolve": lambda f, x, y: f(x, y[0]),
    "random.binomial": lambda f, x, y: f(random.key(0), 5, x),
    "random.bernoulli": lambda f, x, y: f(random.key(0), x),
    "random.choice": lambda f, x, y: f(random.key(0), x),
    "random.dirichlet": lambda f, x, y: f(random.key(0), y),
    "random.multivariate_normal": lambda f, x, y: f(random.key(0), y[0], x),
    "random.shuffle": lambda f, x, y: _written(lambda z: f(random.key(0), z), x),
    "random.student_t": lambda f, x, y: f(random.key(0), y, x, y),
    "random.triangular": lambda f, x, y: f(random.key(0), -x, x / 2, y),
    "random.truncated_normal": lambda f, x, y: f(random.key(0), -x, y, x, y),
    "random.uniform": lambda f, x, y: f(random.key(0), x, y),
}

# Names that compute nothing from floating-point numbers: files, text, settings, dates, bits, types
# fmt: off
ASIDE = {
    "arange", "array2string", "array_repr", "array_str", "asarray_chkfinite", "asmatrix",
    "bartlett", "base_repr", "binary_repr", "bits", "bitwise_and", "bitwise_count",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "blackman", "bmat", "broadcast_shapes", "busday_count", "busday_offset",
    "can_cast", "common_type", "datetime_as_string", "datetime_data", "diag_indices",
    "diag_indices_from", "einsum_path", "empty", "errstate", "eye", "fftfreq", "fold_in",
    "format_float_positional", "format_float_scientific", "from_dlpack", "frombuffer", "fromfile",
    "fromiter", "frompyfunc", "fromregex", "fromstring", "gcd", "genfromtxt", "get_include",
    "get_printoptions", "getbufsize", "geterr", "geterrcall", "hamming", "hanning", "identity",
    "indices", "info", "integers", "invert", "is_busday", "isdtype", "isfortran", "isnat",
    "isscalar", "issubdtype", "iterable", "kaiser", "key", "key_data", "lcm", "left_shift", "load",
    "loadtxt", "mask_indices", "may_share_memory", "min_scalar_type", "mintypecode", "nested_iters",
    "ones", "packbits", "permutation", "printoptions", "promote_types", "randint",
    "ravel_multi_index", "rfftfreq", "right_shift", "save", "savetxt", "savez", "savez_compressed",
    "set_printoptions", "setbufsize", "seterr", "seterrcall", "shares_memory", "show_config",
    "show_runtime", "split", "test", "tri", "tril_indices", "tril_indices_from", "triu_indices",
    "triu_indices_from", "typename", "unpackbits", "unravel_index", "wrap_key_data", "zeros",
}
# fmt: on

REFUSALS = (TypeError, ValueError, AttributeError, IndexError, NotImplementedError, RuntimeError)


class Entry(NamedTuple):
    """What is known of one name."""

    name: str
    fgrad: bool  # whether fgrad's own namespace has it
    numpy: bool  # whether NumPy's own function takes Tensors
    derivative: str  # "yes"; "zero", of steps; "none", of integers and truth values; "refused"
    forward: bool = False
    second: bool = False
    vmap: bool = False
    staged: bool = False

    @property
    def works(self) -> bool:
        """Whether there is a way to call it with Tensors."""
        return self.fgrad or self.numpy


class Coverage(tuple[Entry, ...]):
    """The entries of all names; printed, a table in Markdown."""

    __slots__ = ()

    def __str__(self) -> str:
        lines = [HEAD]
        for title, prefix in SECTIONS:
            own = [e for e in self if (e.name.startswith(prefix) if prefix else "." not in e.name)]
            if not own:  # a library that is not installed
                continue
            known = [e for e in own if e.works]
            smooth = sum(e.derivative == "yes" for e in known)
            lines += [
                f"\n## {title}\n",
                f"{len(known)} of {len(own)} names take Tensors, {smooth} of them with a derivative.\n",
                "| name | fgrad | numpy | derivative | forward | second order | vmap | make_graph |",
                "|---|---|---|---|---|---|---|---|",
            ]
            for e in known:
                marks = (e.forward, e.second, e.vmap, e.staged)
                cells = [_mark(e.fgrad), _mark(e.numpy), e.derivative, *map(_mark, marks)]
                lines.append(f"| `{e.name.removeprefix(prefix)}` | {' | '.join(cells)} |")
            missing = ", ".join(f"`{e.name.removeprefix(prefix)}`" for e in own if not e.works)
            lines += [f"\nNot for Tensors: {missing}."] if missing else []
        return "\n".join([*lines, *_listed()])


RANDOM = ("fgrad.random", "random.")
SPECIAL = ("scipy.special", "scipy.special.")
SECTIONS = (("numpy", ""), ("numpy.linalg", "linalg."), ("numpy.fft", "fft."), RANDOM, SPECIAL)
LISTED = ("fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "stats")
RELEASE = ".".join(np.__version__.split(".")[:2])
try:
    _SCIPY = version("scipy")
except PackageNotFoundError:
    _SCIPY = ""
WITH_SCIPY = f" and SciPy {'.'.join(_SCIPY.split('.')[:2])}" if _SCIPY else ""
HEAD = f"""# Coverage

What `python -m fgrad coverage` prints with NumPy {RELEASE}{WITH_SCIPY}: every function of NumPy that computes
something from floating-point numbers, and every universal function of `scipy.special`, called with Tensors of
float64. *fgrad*: by its name in `fgrad.numpy` or `fgrad.scipy`; *numpy*: by the library's own function. The
derivative of steps is zero; integers and truth values have none; discrete samples refuse theirs. A mark under
*second order* says that the gradient can be differentiated again."""


def _listed() -> Iterator[str]:
    """Yield the names of the modules whose functions need arguments of their own to be tried."""
    for name in LISTED if _SCIPY else ():
        module = import_module(f"fgrad.scipy.{name}")
        own = [k for k in dir(module) if not k.startswith("_") and callable(getattr(module, k))]
        names = ", ".join(f"`{k}`" for k in own if not issubclass(_kind(getattr(module, k)), Exception))
        yield f"\n## scipy.{name}\n\nDifferentiable under `fgrad.scipy.{name}`: {names}."


def _kind(x: Any) -> type:
    return x if isinstance(x, type) else type(x)


def _mark(x: bool) -> str:
    return "x" if x else ""


def coverage() -> Coverage:
    """Return which names of NumPy work on Tensors, and which derivatives they have.

    Every function is called once with small matrices, then differentiated, mapped and traced. Functions of
    files, text, settings, dates, bits and types are left out.

    Returns:
        A tuple of entries with `name`, `fgrad`, `numpy`, `derivative`, `forward`, `second`, `vmap` and
        `staged`; printed, a table in Markdown.

    Example:
        >>> entry = next(e for e in coverage() if e.name == "sin")
        >>> entry.derivative, entry.second, entry.vmap
        ('yes', True, True)
    """
    entries: list[Entry] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for prefix, module, own in (
            ("", np, ours),
            ("linalg.", np.linalg, getattr(ours, "linalg", None)),
            ("fft.", np.fft, getattr(ours, "fft", None)),
        ):
            for name in _functions(module):
                entries += _of_numpy(prefix + name, getattr(module, name), getattr(own, name, None))
        entries += [_of_random(name) for name in _functions(random)]
        entries += _of_special() if _SCIPY else ()
    return Coverage(entries)


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, f in sorted(vars(module).items() if module is random else inspect.getmembers(module))
        if not name.startswith("_")
        and callable(f)
        and not isinstance(f, type | ModuleType)
        and name not in ASIDE
    ]


def _of_numpy(name: str, theirs: Any, mine: Any) -> Iterable[Entry]:
    calls = (CALLS[name],) if name in CALLS else USUAL
    call = next((c for c in calls if _accepted(c, theirs)), None)
    if call is None or not callable(theirs):
        return
    ways = {
        "fgrad": mine is not None and _takes_tensors(call, mine),
        "numpy": _takes_tensors(call, theirs),
    }
    yield _probed(name, call, mine if ways["fgrad"] else theirs, ways)


def _of_random(name: str) -> Entry:
    sampler = getattr(random, name)
    keyed: Sequence[Call] = (lambda f, x, y: f(random.key(0), x), lambda f, x, y: f(random.key(0), x, y))
    calls = (CALLS[f"random.{name}"],) if f"random.{name}" in CALLS else tuple(reversed(keyed))
    call = next(c for c in calls if _accepted(c, sampler))
    ways = {"fgrad": _takes_tensors(call, sampler), "numpy": False}
    return _probed(f"random.{name}", call, sampler, ways)


def _of_special() -> Iterator[Entry]:
    theirs, mine = import_module("scipy.special"), import_module("fgrad.scipy.special")
    constants = import_module("fgrad.scipy.special.primitives").constants
    for name in sorted(mine._RULES | {name for name, f in vars(theirs).items() if isinstance(f, np.ufunc)}):
        f, g, full = getattr(theirs, name), getattr(mine, name), SPECIAL[1] + name
        call = CALLS.get(full) or _with_constants(getattr(f, "nin", 1), constants(f.__name__))
        ways = {
            "fgrad": name in mine._RULES and _takes_tensors(call, g),
            "numpy": not _is_lost(call, f) and _takes_tensors(call, f),
        }
        yield _probed(full, call, g, ways)


def _with_constants(count: int, places: set[int]) -> Call:
    """Return a call with vectors, but small integers in `places`."""
    return lambda f, x, y: f(*(i + 2 if i in places else x[i % 3] for i in range(count)))


def _is_lost(call: Call, f: Any) -> bool:
    """Return whether a function returns arrays where it gets Tensors."""
    parts = _attempt(lambda: _parts(call(f, tensor(FIRST), tensor(SECOND))))
    return parts is not None and not any(isinstance(p, Tensor) for p in parts)


def _attempt(f: Callable[[], Any]) -> Any:
    """Return what `f` returns, or None where it refuses."""
    try:
        return f()
    except REFUSALS:
        return None


def _accepted(call: Call, f: Any) -> bool:
    return _attempt(lambda: call(f, FIRST + 0, SECOND + 0)) is not None


def _takes_tensors(call: Call, f: Any) -> bool:
    return _attempt(lambda: call(f, tensor(FIRST), tensor(SECOND))) is not None


def _probed(name: str, call: Call, f: Any, ways: dict[str, bool]) -> Entry:
    """Return the entry of a function that takes Tensors, after trying everything with it."""
    if not any(ways.values()):
        return Entry(name, **ways, derivative="")

    def outputs(x: Any, y: Any) -> list[Any]:
        return _parts(call(f, x, y))

    def total(x: Any, y: Any) -> Any:
        return sum((p.real * p.real).sum() for p in outputs(x, y) if p.dtype.kind in "fc")

    def slope(x: Any, y: Any) -> Any:
        first, second = grad(total, (0, 1))(x, y)
        return (first * FIRST).sum() + (second * FIRST).sum()

    known = {
        "vmap": _works(lambda: vmap(outputs)(np.stack([FIRST] * 2), np.stack([SECOND] * 2))),
        "staged": _works(lambda: make_graph(outputs)(FIRST, SECOND)),
    }
    if not any(p.dtype.kind in "fc" for p in outputs(tensor(FIRST), tensor(SECOND))):
        refused = name.startswith(RANDOM[1]) and not _works(
            lambda: grad(lambda x: _sum(outputs(x, x)))(FIRST)
        )
        return Entry(name, **ways, derivative="refused" if refused else "none", **known)
    slopes = _attempt(lambda: grad(total, (0, 1))(FIRST, SECOND))
    if slopes is None:  # it took the value of Tensors that nobody differentiates, and returned an array
        return Entry(name, fgrad=False, numpy=False, derivative="")
    return Entry(
        name,
        **ways,
        derivative="yes" if any(np.any(s) for s in slopes) else "zero",
        forward=_works(lambda: jvp(total, (FIRST, SECOND), (FIRST, FIRST))),
        second=_works(lambda: grad(slope, (0, 1))(FIRST, SECOND)),
        **known,
    )


def _works(f: Callable[[], Any]) -> bool:
    return _attempt(f) is not None


def _sum(xs: Iterable[Any]) -> Any:
    return sum((x * 1.0).sum() for x in xs)


def _parts(out: Any) -> list[Any]:
    """Return the arrays and Tensors of an output."""
    if isinstance(out, list | tuple):
        return [p for o in out for p in _parts(o)]
    return [out if isinstance(out, Tensor) else np.asarray(out)]


def _written(f: Callable[..., Any], x: Any, *args: Any) -> Any:
    """Return a copy of `x` after `f` wrote into it."""
    y = x * 1.0
    f(y, *args)
    return y
