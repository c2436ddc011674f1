"""Ways to run a program, and what each has to give: NumPy's values, and slopes that differences find.

A way that differentiates is also compared with a second one of fgrad's own: forward with reverse mode,
compiled with eager, mapped with a loop. These hold where no difference has anything to say, as at kinks.
"""

from __future__ import annotations

import contextlib
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tests.fuzz import reference
from tests.fuzz.programs import NAME, Input, Program, binds, live, reads
from tests.fuzz.witnesses import DOUBLE, PEERS, WIDE, WITNESSES, Calculus, Peer, alike, to_floats
from tests.helpers import plain

import fgrad as fg
import fgrad.numpy as fnp
from fgrad import lax
from fgrad.core.views import Unknown

ROUNDING = 256  # units in the last place of the largest number that a program meets
SLOPES = 2e-6  # of differences, beside the largest number
SPACES = {"numpy": np, "fgrad.numpy": fnp}


@dataclass(frozen=True)
class Case:
    """A program, the namespace that it is given, and the way it is run."""

    program: Program
    space: str = "numpy"
    way: str = "eager"


@dataclass(frozen=True)
class Verdict:
    """What came of a case: "right", "refused", "undetermined", or else what is wrong."""

    kind: str
    text: str = ""
    by: tuple[str, ...] = ()  # what its derivatives agree with

    @property
    def is_finding(self) -> bool:
        return self.kind not in {"right", "refused", "undetermined"}


class FindingError(AssertionError):
    """Something is not what it must be."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


# -- comparing --------------------------------------------------------------------------------------------


def epsilon(*xs: Any) -> float:
    """Return the rounding of the coarsest of the dtypes."""
    kinds = [np.asarray(x).dtype for x in xs]
    return max([float(np.finfo(d).eps) for d in kinds if d.kind in "fc"], default=0.0)


def largest(*xs: Any) -> float:
    sizes = [np.abs(np.nan_to_num(np.asarray(x), nan=0, posinf=0, neginf=0)) for x in xs]
    return max([float(s.max()) for s in sizes if s.size], default=0.0)


def has_infinities(case: Case) -> bool:
    """Return whether a program meets infinities or NaN, of which no integer is made in a defined way."""
    source, xs = case.program.source(), case.program.arrays()
    if any(x.size == 0 for x in xs) and re.search(r"mean|average|median|var|std", source):
        return True  # of nothing
    return bool(re.search(r"nan\b|inf\b", source)) or any(not np.all(np.isfinite(x)) for x in xs)


def differs(y: Any, e: Any, tolerance: float) -> str | None:
    """Say how an array differs from what is expected, beyond a tolerance."""
    if y.dtype.kind not in "fc":
        return None if np.array_equal(y, e) else "value"
    with np.errstate(all="ignore"):
        same = (y == e) | (np.isnan(y) & np.isnan(e))
        near = np.abs(y - e) <= tolerance
    if not np.all(same | near):
        return "value"
    return None


def beside(y: Any, e: Any) -> str:
    """Return two arrays as text, or the elements that are not equal."""
    if y.shape == e.shape and y.size > 30:
        other = ~((y == e) | ((y != y) & (e != e)))
        where = np.argwhere(other)[:5].tolist()
        return f"at {where}, ...: {y[other][:5]!r}\nnot\n{e[other][:5]!r}"
    return f"{y!r}\nnot\n{e!r}"


def matches(what: str, out: Any, expected: Any, size: float, *, undefined: bool = False) -> None:
    """Compare outputs with NumPy's: as many, of these shapes and dtypes, and these values."""
    ys, es = list(map(plain, reference.leaves(out))), list(map(np.asarray, reference.leaves(expected)))
    if len(ys) != len(es):
        raise FindingError(f"{what}: structure", f"{len(ys)} results, not {len(es)}")
    eps = epsilon(*es)
    for y, e in zip(ys, es, strict=True):
        if y.shape != e.shape:
            raise FindingError(f"{what}: shape", f"shape {y.shape}, not {e.shape}")
        if y.dtype.newbyteorder("=") != e.dtype.newbyteorder("="):
            raise FindingError(f"{what}: dtype", f"dtype {y.dtype}, not {e.dtype}")
        if differs(y, e, ROUNDING * eps * max(size, 1.0)):
            if undefined and e.dtype.kind in "biu":
                raise Undetermined
            raise FindingError(f"{what}: value", beside(y, e))


def agree(what: str, ys: Any, es: Any, tolerance: float, size: float) -> None:
    """Compare two results of fgrad: NaN and infinities included."""
    for y, e in zip(map(plain, reference.leaves(ys)), map(plain, reference.leaves(es)), strict=True):
        if y.shape != e.shape:
            raise FindingError(f"{what}: shape", f"shape {y.shape}, not {e.shape}")
        if y.dtype.newbyteorder("=") != e.dtype.newbyteorder("="):
            raise FindingError(f"{what}: dtype", f"dtype {y.dtype}, not {e.dtype}")
        if differs(y, e, tolerance * max(1.0, largest(y, e), size)):
            raise FindingError(f"{what}: value", beside(y, e))


# -- ways -------------------------------------------------------------------------------------------------


def floats(xs: Any) -> tuple[int, ...]:
    return tuple(k for k, x in enumerate(xs) if x.dtype.kind in "fc")


def others(xs: list[Any], k: int) -> list[Any]:
    """Return other arguments of the same shapes and dtypes."""
    if k == 0:
        return xs
    shift = lambda x: np.roll(x, k) * (x.dtype.type(0.75) if x.dtype.kind in "fc" else x.dtype.type(1))
    return [shift(x).reshape(x.shape) for x in xs]


def stacked(xs: list[Any]) -> list[Any]:
    return [np.stack(column) for column in zip(*(others(xs, k) for k in range(3)), strict=True)]


def tangents(xs: list[Any], seed: int = 0) -> list[Any]:
    """Return directions to move in."""
    rng = np.random.default_rng(seed)
    made = []
    for x in xs:
        t = rng.uniform(0.3, 1.0, x.shape) * rng.choice([-1.0, 1.0], x.shape)
        made.append(
            (t + 1j * rng.uniform(-1, 1, x.shape) if x.dtype.kind == "c" else t).astype(
                x.dtype.newbyteorder("=")
            )
        )
    return made


def weighted(f: Any, *, analytic: bool = False) -> Any:
    """Return the sum of a function's results with weights, which is a real number, or stands for one."""

    def total(*xs: Any) -> Any:
        result: Any = 0.0
        for k, y in enumerate(reference.leaves(f(*xs))):
            if not hasattr(y, "dtype") or y.dtype.kind not in "fcO":
                continue
            w = np.cos(np.arange(float(np.prod(y.shape))) + k).reshape(y.shape)
            if y.dtype.kind == "c" and not analytic:
                result = (
                    result + np.sum(np.real(y) * w) + np.sum(np.imag(y) * w[..., ::-1])
                    if y.ndim
                    else result + np.real(y) + np.imag(y) * 0.5
                )
            else:
                result = result + np.sum(y * w)
        return result

    return total


def held(f: Any, xs: list[Any]) -> tuple[Any, list[Any]]:
    """Return the function of the arguments that can be followed, and these."""
    where = floats(xs)

    def of_floats(*moving: Any) -> Any:
        full: list[Any] = [x if k in where else x.copy("K") for k, x in enumerate(xs)]  # some are written to
        for k, x in zip(where, moving, strict=True):
            full[k] = x
        return f(*full)

    return of_floats, [xs[k] for k in where]


def pairing(gs: Any, ts: Any) -> Any:
    return sum(np.sum(np.real(g * t)) for g, t in zip(gs, ts, strict=True))


def every(xs: Any) -> tuple[int, ...]:
    return tuple(range(len(xs)))


def loop(f: Any, xs: list[Any]) -> Any:
    runs = [reference.leaves(f(*(x.copy() for x in others(xs, k)))) for k in range(3)]
    return [stacked_results(column) for column in zip(*runs, strict=True)]


def stacked_results(column: Any) -> Any:
    """Return the results of all examples; numbers of Python give way to arrays, as they do beside them."""
    made = np.stack(list(map(plain, column)))
    if any(hasattr(y, "dtype") for y in column):
        made = made.astype(np.result_type(*(y.dtype if hasattr(y, "dtype") else y for y in column)))
    return made


def managed(f: Any, xs: list[Any]) -> Any:
    ts = [fg.tensor(x) for x in xs]
    gm = fg.GradManager().attach(ts)
    with gm, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gm.backward(f(*ts) + 0.0 * sum(np.sum(np.real(np.where(np.isfinite(t), t, 0))) for t in ts))
    return [t.grad for t in ts]


VALUES: dict[str, Callable[[Any, list[Any]], Any]] = {
    "eager": lambda f, xs: f(*map(fg.tensor, xs)),
    "jit": lambda f, xs: fg.jit(f)(*xs),
    "vmap": lambda f, xs: fg.vmap(f)(*stacked(xs)),
    "jit(vmap)": lambda f, xs: fg.jit(fg.vmap(f))(*stacked(xs)),
}

Slope = Callable[[Any, list[Any]], Any]
gradient = lambda f, xs: fg.grad(f, every(xs))(*xs)
curvature = lambda f, xs, ts: fg.grad(lambda *x: pairing(fg.grad(f, every(xs))(*x), ts), every(xs))(*xs)
FIRST: dict[str, Slope] = {  # gradients of a number
    "grad": gradient,
    "jit(grad)": lambda f, xs: fg.jit(fg.grad(f, every(xs)))(*xs),
    "grad(jit)": lambda f, xs: gradient(fg.jit(f), xs),
    "grad(checkpoint)": lambda f, xs: gradient(fg.checkpoint(f), xs),
    "manager": managed,
}
MAPPED: dict[str, Slope] = {
    "vmap(grad)": lambda f, xs: fg.vmap(fg.grad(f, every(xs)))(*stacked(xs)),
    "grad(vmap)": lambda f, xs: gradient(lambda *x: np.sum(fg.vmap(f)(*x)), stacked(xs)),
}
PUSHED: dict[str, Slope] = {
    "jvp": lambda f, xs: fg.jvp(f, tuple(xs), tuple(tangents(xs)))[1],
    "jit(jvp)": lambda f, xs: fg.jit(lambda *x: fg.jvp(f, x, tuple(tangents(xs)))[1])(*xs),
    "vmap(jvp)": lambda f, xs: fg.vmap(lambda *x: fg.jvp(f, x, tuple(tangents(xs)))[1])(*stacked(xs)),
}
SECOND: dict[str, Slope] = {
    "hvp": lambda f, xs: curvature(f, xs, tangents(xs)),
    "jit(hvp)": lambda f, xs: fg.jit(
        lambda *x: (
            fg.hvp(f, x, tuple(tangents(xs)))[1] if len(xs) > 1 else (fg.hvp(f, x, tuple(tangents(xs)))[1],)
        )
    )(*xs),
    "forward over reverse": lambda f, xs: fg.jvp(fg.grad(f, every(xs)), tuple(xs), tuple(tangents(xs)))[1],
}
WAYS = (*VALUES, "again", *FIRST, *MAPPED, *PUSHED, *SECOND)


# -- running ----------------------------------------------------------------------------------------------

# The words of what fgrad refuses though NumPy does it: anything else is a finding
REFUSALS = [
    re.compile(words)
    for words in (
        r"needs the values? of a Tensor",  # staged, mapped
        r"would lose its gradient",  # NumPy's arrays, numbers and objects
        r"has no complex derivative|is not holomorphic",
        r"cannot write a complex value into a Tensor",
        r"must return a carry like the one it gets",
        r"an in-place operation cannot change the (dtype|shape)",
        r"depends on the memory layout",
        r"have no derivative|has no derivative|is not determined|are not determined",  # of factors
        r"a NumPy array cannot hold a Tensor",
        r"assignment destination is read-only",  # which NumPy's ufunc.at overlooks
        r"are equal, and the result depends",  # of singular values
        r"are equal: their vectors are determined only up to a rotation",  # the second derivative of each
        r"is determined only up to",  # vectors, up to a sign or phase
        r"has no finite slope",  # the logarithm of the determinant of a singular matrix
        r"must be a string or a real number, not 'complex'",  # into an array of NumPy's
        r"matmul of Tensors takes no axes",  # what `array @= Tensor` asks for
        r"takes a mask without elements for integers",  # an array that is indexed by a Tensor
        r"cannot convert float NaN to integer",  # of a Tensor, by NumPy's own array
    )
]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def judge(case: Case) -> Verdict:
    """Run a case and say what came of it."""
    try:
        with quiet():
            return _judged(case)
    except FindingError as error:
        if error.kind.endswith(": value") and makes_integers_of_nan(case):
            return Verdict("undetermined", "what a machine makes of NaN as an integer")
        return Verdict(error.kind, str(error))


def makes_integers_of_nan(case: Case) -> bool:
    """Return whether NumPy makes integers of NaN, which depend on their places in memory."""
    plain_f = _functions(case)[1]
    with warnings.catch_warnings(record=True) as found, np.errstate(invalid="warn"):
        warnings.simplefilter("always")
        outs = [attempt(plain_f, *others(case.program.arrays(), k))[0] for k in range(3)]
    integers = any(
        getattr(y, "dtype", np.dtype(float)).kind in "iu" for out in outs for y in reference.leaves(out)
    )
    return integers and any("invalid value" in str(w.message) for w in found)


def _functions(case: Case) -> tuple[Any, Any]:
    real = case.program.function(np=SPACES[case.space], fg=fg, lax=lax)
    return real, case.program.function(np=np, fg=reference, lax=reference.lax)


def differentiates(case: Case) -> bool:
    """Return whether a program has derivatives inside, which are differences in the reference."""
    return bool(re.search(r"fg\.\w*(grad|jvp|vjp|hess|jac)", case.program.source()))


def demand_settled(case: Case, expected: Any) -> None:
    """Stop where differences inside of a program did not settle, as at kinks."""
    if differentiates(case) and any(np.any(np.isnan(e)) for e in reference.leaves(expected)):
        raise Undetermined


class Noting:
    """NumPy's namespace, which notes in which dtypes its universal functions compute floats."""

    def __init__(self, **own: Any) -> None:
        self.noted: set[Any] = set()
        self.own = own

    def __getattr__(self, name: str) -> Any:
        if name in self.own:
            return self.own[name]
        found = getattr(np, name)
        if not isinstance(found, np.ufunc):
            return found

        def noting(*args: Any, **kwargs: Any) -> Any:
            out = found(*args, **kwargs)
            self.noted.update(y.dtype.type(0) for y in reference.leaves(out) if y.dtype.kind in "fc")
            return out

        for method in ("reduce", "accumulate", "reduceat", "outer", "at"):
            setattr(noting, method, getattr(found, method))
        return noting


def extent(case: Case) -> float:
    """Return the largest number that NumPy meets in a program."""
    names = Noting()
    scope: dict[str, Any] = {"np": names, "fg": reference, "lax": reference.lax}
    scope.update({f"x{i}": x for i, x in enumerate(case.program.arrays())})
    for step in case.program.steps:
        exec(step, scope)
    slopes = differentiates(case)
    eps = epsilon(*(x for x in scope.values() if isinstance(x, np.ndarray | np.generic)), *names.noted)
    slack = SLOPES / (ROUNDING * eps) if slopes and eps else 1.0  # NumPy's are differences
    of_results = epsilon(*(scope[name] for name in case.program.results))
    slack = max(slack, eps / of_results) if of_results else slack  # what was rounded more coarsely before
    return slack * largest(
        *[
            v
            for k, v in scope.items()
            if NAME.fullmatch(k) and isinstance(v, np.ndarray | np.generic | int | float)
        ]
    )


def _judged(case: Case) -> Verdict:
    real, plain_f = _functions(case)
    xs = case.program.arrays()
    if case.way in VALUES or case.way == "again":
        return values(case, real, plain_f, xs)
    if not floats(xs):
        return Verdict("undetermined", "nothing to follow")
    return slopes(case, real, plain_f, xs)


def attempt(f: Any, *args: Any) -> tuple[Any, Exception | None]:
    try:
        return f(*args), None
    except FindingError:
        raise
    except Exception as error:
        return None, error


def refusal(case: Case, error: Exception) -> Verdict:
    """Return the verdict on an error of fgrad's where NumPy has none."""
    said = f"{type(error).__name__}: {str(error)[:200]}"
    if isinstance(error, np.linalg.LinAlgError) and is_fragile(case):
        return Verdict("undetermined", "a matrix that is singular but for roundings")
    if not any(words.search(str(error)) for words in REFUSALS):
        return Verdict(f"{case.way}: {type(error).__name__}", said)
    return Verdict("refused", said)


def answers(error: Exception, expected: Exception) -> bool:
    """Return whether an error is the one that NumPy raises, or a refusal of fgrad's."""
    kind = type(expected)
    return (
        isinstance(error, kind)
        or any(words.search(str(error)) for words in REFUSALS)
        or issubclass(kind, type(error))
        or isinstance(error, TypeError | NotImplementedError | ValueError | OverflowError)
    )


def silent(case: Case, what: str, xs: list[Any], error: Exception) -> Verdict:
    """Return the verdict where NumPy raises and fgrad does not: what is dead need not run in a program."""
    if "jit" in case.way and case.way not in VALUES:  # of the results, only floats count
        return Verdict("undetermined", "dead steps")
    if case.way not in {"eager", "vmap"}:
        f = live(case.program).function(np=np, fg=reference, lax=reference.lax)
        if attempt(f, *(x.copy("K") for x in xs))[1] is None:
            return Verdict("undetermined", "dead steps")
        ks = range(3) if "vmap" in case.way else range(1)
        if isinstance(error, np.linalg.LinAlgError) and all(is_dead(case, others(xs, k)) for k in ks):
            return Verdict("undetermined", "dead by algebra")
    return Verdict(f"{what}: no error", f"NumPy raises {type(error).__name__}: {error}")


class Soothed:
    """NumPy's `linalg`, which goes on with other matrices where there is an error for those given."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __getattr__(self, name: str) -> Any:
        found = getattr(np.linalg, name)
        if not callable(found) or isinstance(found, type):
            return found

        def run(a: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return found(a, *args, **kwargs)
            except np.linalg.LinAlgError:
                noise = self.rng.uniform(-0.1, 0.1, np.shape(a))
                other = np.eye(*np.shape(a)[-2:]) * self.rng.uniform(1, 2) + noise + noise.swapaxes(-1, -2)
                return found(other, *args, **kwargs)

        return run


def is_dead(case: Case, xs: list[Any]) -> bool:
    """Return whether no result depends on what the functions that raise would return."""
    made = []
    for seed in range(2):
        names = Noting(linalg=Soothed(seed))
        f = case.program.function(np=names, fg=reference, lax=reference.lax)
        out, error = attempt(f, *(x.copy("K") for x in xs))
        if error is not None:
            return False
        made.append([np.asarray(y).tobytes() for y in reference.leaves(out)])
    return made[0] == made[1]


def values(case: Case, real: Any, plain_f: Any, xs: list[Any]) -> Verdict:
    mapped = "vmap" in case.way
    before = [x.copy("K") for x in xs]
    run = lambda ys: loop(plain_f, ys) if mapped else plain_f(*(y.copy("K") for y in ys))
    expected, error = attempt(run, xs)
    if case.way == "again":
        return again(case, real, plain_f, xs, expected, error)
    way = VALUES[case.way]
    out, raised = attempt(way, real, xs)
    if error is not None:
        if raised is None:
            return silent(case, case.way, xs, error)
        if not answers(raised, error):
            return Verdict(f"{case.way}: other error", f"{raised!r}, not {error!r}")
        return Verdict("right")
    if raised is not None:
        return refusal(case, raised)
    size = extent(case)
    demand_settled(case, expected)
    settled(case, lambda: matches(case.way, out, expected, size, undefined=has_infinities(case)), out, xs)
    if case.way == "eager" and not re.search(r"\b(fg|lax)\.", case.program.source()):
        scalars(case, out, expected)
    unchanged(case, xs, before)
    if not mapped:
        apart(case, out, run(xs))
        unchanged(case, xs, before)
        second = way(real, xs)
        settled(
            case,
            lambda: matches(f"{case.way}, after its results were written to", second, expected, size),
            second,
            xs,
        )
    return Verdict("right")


def again(case: Case, real: Any, plain_f: Any, xs: list[Any], expected: Any, error: Any) -> Verdict:
    """Call one compiled function with other values and other shapes, then with these."""
    jitted = fg.jit(real)
    longer = [np.concatenate([x, x[:1]]) if x.ndim else x for x in xs]
    size = None
    for k, ys in enumerate((others(xs, 1), longer, others(xs, 2), xs)):
        e, failed = (expected, error) if ys is xs else attempt(plain_f, *(y.copy("K") for y in ys))
        out, raised = attempt(jitted, *ys)
        if failed is not None:
            if raised is None and (said := silent(case, f"call {k}", ys, failed)).is_finding:
                return said
            continue
        if raised is not None:
            return refusal(case, raised)
        demand_settled(case, e)
        size = extent(case) if size is None and error is None else size or 1.0
        settled(
            case,
            lambda: matches(
                f"call {k}", out, e, max(size, largest(*map(np.asarray, reference.leaves(e)))) * 10
            ),
            out,
            ys,
        )
    return Verdict("right")


def unchanged(case: Case, xs: list[Any], before: list[Any]) -> None:
    for k, (x, b) in enumerate(zip(xs, before, strict=True)):
        if x.tobytes() != b.tobytes():
            raise FindingError(f"{case.way}: an argument was written to", f"x{k} is {x!r}, was {b!r}")


def scalars(case: Case, out: Any, expected: Any) -> None:
    """Compare what is a scalar, which nobody can write to, and what an array without axes."""
    for k, (y, e) in enumerate(zip(reference.leaves(out), reference.leaves(expected), strict=True)):
        if isinstance(y, fg.Tensor) and isinstance(y._value, np.ndarray) != isinstance(e, np.ndarray):
            raise FindingError(f"{case.way}: scalar or array", f"result {k} is {y!r}, and {e!r} in NumPy")


def apart(case: Case, out: Any, expected: Any) -> None:
    """Write to each result, and see that those change that NumPy changes, and no other."""
    ys, es = reference.leaves(out), reference.leaves(expected)
    for i, (y, e) in enumerate(zip(ys, es, strict=True)):
        if not isinstance(e, np.ndarray) or not e.flags.writeable:
            continue
        if not isinstance(y, fg.Tensor) and not (isinstance(y, np.ndarray) and y.flags.writeable):
            continue
        kept, changed = [plain(o).copy() for o in ys], [np.array(o) for o in es]
        try:
            y[...] = 1
        except ValueError:  # read-only, where NumPy warns that it will be
            continue
        e[...] = 1
        if any(type(o) is Unknown for o in ys):  # nobody knows, so nobody may look at it
            return
        for j, o in enumerate(ys):
            if type(o) is np.ndarray:  # which NumPy made of a Tensor, and lets nobody write to
                continue
            shared = y is o or changed[j].tobytes() != np.asarray(es[j]).tobytes()
            same = plain(o).tobytes() == kept[j].tobytes()
            if not shared and not same:
                raise FindingError(f"{case.way}: results share memory", f"results {i} and {j}")
            if shared and same and case.way == "eager" and largest(kept[j] * 1.0 - np.asarray(es[j])) > 0.1:
                raise FindingError(f"{case.way}: results are copies", f"results {i} and {j}")


def settled(case: Case, check: Callable[[], None], out: Any, xs: list[Any]) -> None:
    """Let a check fail only where the program does not amplify roundings by itself."""
    try:
        check()
    except FindingError as error:
        if error.kind.endswith("value") and (
            is_fragile(case)
            or is_closer(case, out)
            or has_signs_of_nan(case)
            or has_other_zeros(case, out, xs)
            or has_other_parts(case, out, xs)
            or (TOUCHES.search(case.program.source()) and differentiates(case) and is_special(case))
        ):
            raise Undetermined from error
        raise


# What takes the same value on both sides of a point, where the slope of its arms may be the same too: by the
# convention for ties the second derivative is that of the mean of both arms
TOUCHES = re.compile(r"max|min|clip|abs|where|svd|norm|cond|hypot|std")


# What chooses among several numbers: where they tie, each has its share of the slope
TIES = re.compile(r"(?:maximum|minimum|fmax|fmin|max|min|ptp|clip|median|amax|amin)\b")
# What leaves zeros whose sign follows from the order of its operands, also among the functions of NumPy
EXTREMA = re.compile(r"max|min|clip")
# What does so in programs and in batches, docs/conventions.md
SUMS = re.compile(r"outer|dot|matmul|einsum|inner|kron|@|sum|prod|mean")


def has_other_zeros(case: Case, out: Any, xs: list[Any]) -> bool:
    """Return whether results are those of NumPy, had its extrema and sums left zeros of another sign."""
    unsure = [
        bool(EXTREMA.search(step) or (case.way != "eager" and SUMS.search(step)))
        for step in case.program.steps
    ]
    if not any(unsure):
        return False
    variants = []
    for sign in (1.0, -1.0, 0.0):
        run = lambda *ys, sign=sign: with_zeros(case, list(ys), unsure, sign)
        made, error = attempt(loop if "vmap" in case.way else lambda f, ys: f(*ys), run, xs)
        if error is not None:
            return False
        variants.append(list(map(np.asarray, reference.leaves(made))))
    for y, *es in zip(map(plain, reference.leaves(out)), *variants, strict=True):
        found = np.zeros(y.shape, bool)
        for e in es:
            if y.shape != e.shape:
                return False
            near = ROUNDING * epsilon(e) * max(1.0, largest(e))
            found |= (y == e) | (np.isnan(y) & np.isnan(e)) | (np.abs(y * 1.0 - e) <= near)
        if not np.all(found):
            return False
    return True


def has_other_parts(case: Case, out: Any, xs: list[Any]) -> bool:
    """Return whether results differ only where they follow from the order on either side of a partition."""
    if "partition" not in case.program.source():
        return False
    made = []
    for turn in (lambda part: part, lambda part: part[..., ::-1], lambda part: np.roll(part, 1, -1)):
        own = {"partition": lambda a, kth, axis=-1, turn=turn: parted(np.sort(a, axis), kth, axis, turn)}
        f = case.program.function(np=Noting(**own), fg=reference, lax=reference.lax)
        expected, error = attempt(*((loop, f, xs) if "vmap" in case.way else (f, *(x.copy("K") for x in xs))))
        if error is not None:
            return False
        made.append([np.asarray(e) for e in reference.leaves(expected)])
    for y, e, *more in zip(map(plain, reference.leaves(out)), *made, strict=True):
        if y.shape != e.shape:
            return False
        same = lambda a, e=e: (a == e) | ((a != a) & (e != e))
        known = np.logical_and.reduce([same(other) for other in more])
        near = np.abs(y * 1.0 - e) <= ROUNDING * epsilon(e) * max(1.0, largest(e))
        if not np.all(~known | same(y) | near):
            return False
    return True


def parted(a: Any, kth: int, axis: int, turn: Callable[[Any], Any]) -> Any:
    """Return a sorted array with both sides of the element at `kth` in another order."""
    made = np.moveaxis(a.copy(), axis, -1)
    kth = kth % made.shape[-1] if made.shape[-1] else 0
    made[..., :kth], made[..., kth + 1 :] = turn(made[..., :kth].copy()), turn(made[..., kth + 1 :].copy())
    return np.moveaxis(made, -1, axis)


def with_zeros(case: Case, xs: list[Any], unsure: list[bool], sign: float) -> list[Any]:
    """Return what a program gives in NumPy if new zeros of some steps have a sign; 0 turns it around."""
    scope: dict[str, Any] = {"np": np, "fg": reference, "lax": reference.lax}
    scope.update({f"x{i}": x.copy("K") for i, x in enumerate(xs)})
    for step, is_unsure in zip(case.program.steps, unsure, strict=True):
        exec(step, scope)
        for name in binds(step) if is_unsure else ():
            v = scope[name]
            if isinstance(v, np.ndarray | np.generic) and v.dtype.kind == "f":
                zero = np.copysign(v.dtype.type(0), sign) if sign else -v
                new = np.where(v == 0, zero, v).astype(v.dtype)
                scope[name] = new if isinstance(v, np.ndarray) else new[()]
    return [scope[r] for r in case.program.results]


def has_signs_of_nan(case: Case) -> bool:
    """Return whether a program asks for signs, and meets NaN, whose sign means nothing."""
    if not re.search(r"signbit|copysign", case.program.source()):
        return False
    steps = replace(
        case.program, results=tuple(dict.fromkeys(n for s in case.program.steps for n in binds(s)))
    )
    f = steps.function(np=np, fg=reference, lax=reference.lax)
    ks = range(3) if "vmap" in case.way or case.way == "again" else range(1)
    met = [attempt(f, *(x.copy("K") for x in others(case.program.arrays(), k)))[0] for k in ks]
    return any(np.any(np.isnan(y)) for y in map(np.asarray, reference.leaves(met)) if y.dtype.kind in "fc")


def is_closer(case: Case, out: Any) -> bool:
    """Return whether results are nearer to those in extended precision than NumPy's are."""
    wide = case.program.function(np=reference.Extended(), fg=reference, lax=reference.lax)
    f = case.program.function(np=np, fg=reference, lax=reference.lax)
    xs = case.program.arrays()
    true, error = attempt(wide, *map(reference.lift, xs))
    if error is not None or "vmap" in case.way or case.way == "again":
        return False
    for y, e, t in zip(*map(reference.leaves, (out, f(*xs), true)), strict=True):
        y, e, t = plain(y), np.asarray(e), np.asarray(t)
        if (
            e.dtype.kind not in "fc"
            or t.shape != y.shape
            or np.any(np.abs(y - t) > np.abs(e - t) + ROUNDING * epsilon(e) * np.abs(t))
        ):
            return False
    return True


class Undetermined(Exception):  # noqa: N818 -- no error: nothing can be said
    """The values of a program depend on its roundings."""


def is_fragile(case: Case) -> bool:
    """Return whether roundings of the arguments or of single steps change the results much."""
    f = case.program.function(np=np, fg=reference, lax=reference.lax)
    rng = np.random.default_rng(0)
    xs = case.program.arrays()
    mapped = "vmap" in case.way
    if differentiates(case):
        base = f(*(x.copy("K") for x in xs))
        for noise in (1e-12, -1e-12):
            with reference.other_steps(noise=noise):
                other = f(*(x.copy("K") for x in xs))
            for y, e in zip(*(map(np.asarray, reference.leaves(o)) for o in (other, base)), strict=True):
                if y.shape != e.shape or differs(y, e, SLOPES * max(1.0, largest(e))):
                    return True
    for k in range(3) if mapped or case.way == "again" else range(1):
        base = f(*(x.copy("K") for x in others(xs, k)))
        for _ in range(4):
            rounded, error = attempt(with_other_roundings, case, others(xs, k), rng)
            if error is None and any(
                y.shape != e.shape or differs(y, e, 8 * epsilon(e) * max(1.0, largest(e)))
                for y, e in zip(rounded, map(np.asarray, reference.leaves(base)), strict=True)
            ):
                return True
            moved = []
            for x in others(xs, k):
                eps = float(np.finfo(x.dtype).eps) if x.dtype.kind in "fc" else 0
                moved.append(
                    (x * (1 + 4 * eps * rng.choice([-1, 0, 1], x.shape))).astype(x.dtype)
                    if eps
                    else x.copy("K")
                )
            new, error = attempt(f, *moved)
            if error is not None:
                return True
            for y, e in zip(
                map(np.asarray, reference.leaves(new)), map(np.asarray, reference.leaves(base)), strict=True
            ):
                if y.shape != e.shape or differs(y, e, 8 * epsilon(e) * max(1.0, largest(e))):
                    return True
    return False


def with_other_roundings(case: Case, xs: list[Any], rng: Any) -> list[Any]:
    """Return what a program gives in NumPy if every step that makes new floats rounds them otherwise."""
    scope: dict[str, Any] = {"np": np, "fg": reference, "lax": reference.lax}
    scope.update({f"x{i}": x.copy("K") for i, x in enumerate(xs)})
    for step in case.program.steps:
        exec(step, scope)
        for name in binds(step):
            v = scope[name]
            held = [a for k, a in scope.items() if k != name and isinstance(a, np.ndarray)]
            if not isinstance(v, np.ndarray | np.generic) or v.dtype.kind not in "fc":
                continue
            if not any(np.may_share_memory(v, a) for a in held):
                turn = 1 + 4 * np.finfo(v.dtype).eps * rng.choice([-1, 0, 1], v.shape)
                new = (v * turn).astype(v.dtype)
                scope[name] = new if isinstance(v, np.ndarray) else new[()]
    return [np.asarray(y) for r in case.program.results for y in reference.leaves(scope[r])]


# -- slopes -----------------------------------------------------------------------------------------------


def slopes(case: Case, real: Any, plain_f: Any, xs: list[Any]) -> Verdict:
    if case.way == "manager":  # whose Tensors hold copies, as np.array makes them
        xs = [np.array(x) for x in xs]
    before = [x.copy("K") for x in xs]
    _, error = attempt(plain_f, *(x.copy("K") for x in xs))
    if error is None and "vmap" in case.way:
        _, error = attempt(loop, plain_f, xs)
    f, ys = held(real, xs)
    total = weighted(f)
    way = case.way
    run = {**FIRST, **MAPPED, **PUSHED, **SECOND}[way]
    try:
        out = run(total, ys)
    except Exception as raised:
        if error is not None:
            return (
                Verdict("right")
                if answers(raised, error)
                else Verdict(f"{way}: other error", f"{raised!r}, not {error!r}")
            )
        return refusal(case, raised)
    if error is not None:
        return silent(case, way, xs, error)
    unchanged(case, xs, before)
    size = extent(case)
    named = [np.dtype(name) for name in ("float16", "float32") if name in case.program.source()]
    eps = epsilon(*xs, *(reference.leaves(plain_f(*(x.copy("K") for x in xs)))), *(d.type(0) for d in named))
    close = max(1e-9, 1000 * eps)
    if way in FIRST:
        for g, x in zip(map(plain, out), ys, strict=True):
            if g.shape != x.shape or g.dtype.newbyteorder("=") != x.dtype.newbyteorder("="):
                raise FindingError(f"{way}: shape or dtype", f"{g.dtype}{g.shape}, not {x.dtype}{x.shape}")
    try:
        if way in FIRST:
            if way == "grad":
                pushed = PUSHED["jvp"](total, ys)
                agree(
                    "grad, beside jvp",
                    np.asarray(float(pairing(map(plain, out), tangents(ys)))),
                    np.asarray(float(pushed)),
                    close * 10,
                    size,
                )
            else:
                agree(f"{way}, beside grad", out, gradient(total, ys), close, size)
        elif way in MAPPED:
            agree(f"{way}, beside a loop", out, loop(lambda *x: gradient(total, x), ys), close, size)
        elif way in PUSHED:
            es = (
                loop(lambda *x: PUSHED["jvp"](total, list(x)), ys)
                if "vmap" in way
                else pairing(gradient(total, ys), tangents(ys))
            )
            agree(
                f"{way}, beside {'a loop' if 'vmap' in way else 'grad'}",
                [np.asarray(plain(out), float)],
                [np.asarray(plain(reference.leaves(es)[0]), float)],
                close * 10,
                size,
            )
        elif way != "hvp":
            agree(f"{way}, beside hvp", list(out), list(SECOND["hvp"](total, ys)), close * 10, size)
    except FindingError as found:
        if found.kind.endswith("value") and is_fragile_slope(total, ys, way):
            return Verdict("undetermined", "roundings")
        if way in SECOND and RANKS.search(case.program.source()) and is_special(case):
            return Verdict("undetermined", "second derivatives where the rank is deficient")
        if way in PUSHED and overflows_in_half(case, plain(out), total, ys):
            return Verdict("undetermined", "a tangent that float16 cannot hold")
        if (
            "nan" in str(found)
            and case.way in OF_TWO_MODES
            and (has_infinities(case) or POLES.search(case.program.source()))
        ):  # docs/conventions.md, "Infinite slopes"
            return Verdict("undetermined", "a zero meets an infinite slope")
        raise
    return differences(case, out, plain_f, xs, size, eps)


def overflows_in_half(case: Case, out: Any, total: Any, ys: list[Any]) -> bool:
    """Return whether a tangent is infinite in half precision, which the gradient goes around."""
    if "float16" not in case.program.source() or not np.any(np.isinf(out)):
        return False
    size = pairing(gradient(total, ys), tangents(ys))
    return bool(np.abs(plain(size)) > np.finfo(np.float16).max)


def is_fragile_slope(total: Any, ys: list[Any], way: str) -> bool:
    """Return whether fgrad's own derivatives change much when arguments are rounded otherwise."""
    rng = np.random.default_rng(0)
    second = way in SECOND
    run = SECOND["hvp"] if second else gradient
    base, error = attempt(run, total, ys)
    if error is not None:
        return False
    for _ in range(4):
        zeros = [np.where(y == 0, y * rng.choice([-1, 1], y.shape), y) for y in ys]  # of either sign
        turns = [1 + 4 * np.finfo(y.dtype).eps * rng.choice([-1, 0, 1], y.shape) for y in ys]
        moved = [(z * t).astype(y.dtype) for z, t, y in zip(zeros, turns, ys, strict=True)]
        new, error = attempt(run, total, moved)
        if error is not None:
            return True
        for a, b in zip(map(plain, new), map(plain, base), strict=True):
            if differs(a, b, 100 * np.finfo(b.dtype).eps * max(1.0, largest(b))):
                return True
    return False


def differences(case: Case, out: Any, plain_f: Any, xs: list[Any], size: float, eps: float) -> Verdict:
    """Compare derivatives with differences, in extended precision where the program allows it, and others."""
    try:
        by, found = WIDE, testimony(case, out, plain_f, xs, WIDE)
    except Exception:
        try:
            by, found = DOUBLE, testimony(case, out, plain_f, xs, DOUBLE)
        except Exception as error:
            return Verdict("undetermined", f"{type(error).__name__}: {error}")
    if found is None:
        return Verdict("right")
    try:
        said = [by.name] if confirmed(case, by, found, plain_f, xs, size, eps) else []
    except FindingError as error:
        with reference.other_steps(0.01):
            finer = testimony(case, out, plain_f, xs, by) or []
        if any(differ_somewhere(a, b) for (*_, a), (*_, b) in zip(found, finer, strict=True)):
            raise Undetermined from error  # the steps of a staircase, for one
        raise
    for w in (*WITNESSES, *PEERS):
        if w.is_asked(case.program.source(), sum(x.size for x in xs)):
            try:
                pairs = (testimony_of_peer if w in PEERS else testimony)(case, out, plain_f, xs, w)
            except Exception:  # whatever it is, the witness does not understand the program
                continue
            settled = [  # what is no kink
                (what, y, np.where(np.isfinite(base), e, np.nan))
                for (what, y, e), (_, _, base) in zip(pairs, found, strict=True)
            ]
            said += [w.name] * confirmed(case, w, settled, plain_f, xs, size, eps)
    return Verdict("right", by=tuple(said)) if said else Verdict("undetermined", "kinks")


def differ_somewhere(a: Any, b: Any) -> bool:
    """Return whether two differences of one function are not the same, where both say something."""
    both = np.isfinite(a) & np.isfinite(b)
    return bool(np.any(np.abs(a[both] - b[both]) > 1e-4 * np.maximum(1.0, np.abs(a[both]))))


def confirmed(
    case: Case, by: Calculus | Peer, pairs: list[Any], plain_f: Any, xs: list[Any], size: float, eps: float
) -> bool:
    """Return whether a witness knows a derivative, which is fgrad's then.

    Raises:
        FindingError: it is another one.
        Undetermined: the point is one at which conventions differ, or derivatives depend on roundings.
    """
    certain = False
    for what, y, e in pairs:
        known = np.isfinite(e)
        certain |= bool(np.any(known))
        bound = max(by.tolerance, 3e3 * eps) * max(1.0, largest(y[known], e[known]), size)
        if not np.any(known & ~(np.abs(y - e) <= bound)):
            continue
        source = case.program.source()
        lost = not np.all(np.isfinite(y[known]))
        if lost and has_infinities(case):
            raise Undetermined
        if lost and POLES.search(source) and case.way in FIRST | SECOND and pushes(case, xs):
            raise Undetermined
        twice = case.way in SECOND or differentiates(case)
        if twice and TOUCHES.search(source) and is_special(case):
            raise Undetermined
        if ((lost and POLES.search(source)) or CHOICES.search(source)) and is_special(case):
            raise Undetermined
        tied = len(TIES.findall(source)) > 1 and has_ties(case, xs) and is_special(case)
        if tied and (what[0] != "x" or lies_between(y, case, xs, int(what[1:]))):
            raise Undetermined  # each has the mean of its slopes, not that of all of them together
        raise FindingError(f"{case.way}: slope", f"{what}, beside {by.name}: {beside(y, e)}")
    return certain


def has_ties(case: Case, xs: list[Any]) -> bool:
    """Return whether at least two steps that choose extrema choose among equals."""
    scope: dict[str, Any] = {"np": np, "fg": reference, "lax": reference.lax}
    scope.update({f"x{i}": x.copy("K") for i, x in enumerate(xs)})
    tied = 0
    for step in case.program.steps:
        if TIES.search(step):
            seen = [np.ravel(scope[name]) for name in sorted(reads(step)) if name in scope]
            met = np.concatenate(seen) if seen else np.zeros(0)
            tied += len(TIES.findall(step)) if np.unique(met).size < met.size else 0
        if attempt(exec, step, scope)[1] is not None:
            return False
    return tied > 1


def lies_between(y: Any, case: Case, xs: list[Any], k: int) -> bool:
    """Return whether a gradient is a mean of those that a program without ties at any step has."""
    from scipy.optimize import nnls

    steps, size = [f"x{i} = apart(x{i}, 1e-5)" for i in range(len(xs))], 1e-5
    for step in case.program.steps:
        size *= 4
        steps += [step, *(f"{name} = apart({name}, {size})" for name in binds(step))]
    found = []
    for seed in range(12):
        rng = np.random.default_rng(seed)

        def apart(v: Any, size: float, rng: Any = rng) -> Any:
            kind = getattr(v, "dtype", np.dtype(int))
            return v + rng.uniform(-size, size, np.shape(v)).astype(kind) if kind.kind == "f" else v

        program = replace(case.program, steps=tuple(steps))
        f, ys = held(program.function(np=np, fg=fg, lax=lax, apart=apart), xs)
        found.append(plain(gradient(weighted(f), ys)[k]))
    corners = np.stack([np.append(np.ravel(g), 1.0) for g in found], -1)
    _, distance = nnls(corners, np.append(np.ravel(y), 1.0))
    return bool(distance <= 0.01 * max(1.0, largest(*found)))


def pushes(case: Case, xs: list[Any]) -> bool:
    """Return whether forward mode has a number where reverse mode has NaN: zeros meet infinite slopes."""
    f, ys = held(case.program.function(np=SPACES[case.space], fg=fg, lax=lax), xs)
    total = weighted(f)
    in_reverse = [np.all(np.isfinite(plain(g))) for g in gradient(total, ys)]
    return bool(np.isfinite(PUSHED["jvp"](total, ys))) and not all(in_reverse)


# Ways that are compared with another mode: NaN of one of them may be a number in the other
OF_TWO_MODES = {"grad", "jvp", "jit(jvp)", "forward over reverse", "jit(hvp)"}

# What takes one of several arms; a condition that holds at a point alone has the slope of its arm there
CHOICES = re.compile(
    r"[=!]=|[<>]|where|sign|nonzero|arg|isin|searchsorted|digitize|select|heaviside|lax|if |unique|trim"
    r"|median|quantile|percentile|sort|partition|modf"
)

# What is not continuous where the rank of a matrix changes; the conventions say what the first derivative is
RANKS = re.compile(r"pinv|lstsq")

# What has infinite slopes somewhere
POLES = re.compile(
    r"sqrt|cbrt|log|arc|norm|std|var|cov|corrcoef|hypot|reciprocal|power|\*\*|/|angle|abs|svd|eig|qr|cholesky"
)


def is_special(case: Case) -> bool:
    """Return whether the same way is right at a point close by, so that only the point is an exception."""
    rng = np.random.default_rng(0)
    xs = case.program.arrays()
    step = lambda x: 0.05 * rng.uniform(0.2, 1, x.shape) * rng.choice([-1, 1], x.shape)
    finite = lambda x: np.where(np.isinf(x), 30 * np.sign(x), x) if x.dtype.kind == "f" else x
    near = lambda x: finite(x) + step(x).astype(x.dtype)
    moved = tuple(given(near(x)) if x.dtype.kind in "fc" else given(x) for x in xs)
    if any(case.program.inputs[k].layout == "broadcast" for k in range(len(xs))):
        return True
    other = replace(case, program=replace(case.program, inputs=moved))
    if _asked:  # for a point close by
        return False
    _asked.append(case)
    try:
        if verdict(other).kind in {"right", "undetermined"}:
            return True
        return differentiates(case) and verdict(with_other_steps(case)).kind == "right"
    finally:
        _asked.pop()


_asked: list[Case] = []


def with_other_steps(case: Case) -> Case:
    """Return a case in which each new float is a bit more, so that no step makes points of its own."""
    scope: dict[str, Any] = {"np": np, "fg": reference, "lax": reference.lax}
    scope.update({f"x{i}": x.copy("K") for i, x in enumerate(case.program.arrays())})
    steps = []
    for step in case.program.steps:
        exec(step, scope)
        made = [name for name in binds(step) if getattr(scope[name], "dtype", np.dtype(int)).kind in "fc"]
        steps += [step, *(f"{name} = {name} + 0.0{371 + 100 * k}" for k, name in enumerate(made))]
    return replace(case, program=replace(case.program, steps=tuple(steps)))


def given(x: Any) -> Input:
    """Return an array as what goes into a program."""
    code = x.dtype.newbyteorder("=").str[1:].replace("b1", "?")
    return Input(code, x.shape, tuple(x.ravel().tolist()))


def testimony(case: Case, out: Any, plain_f: Any, xs: list[Any], by: Calculus) -> list[Any] | None:
    """Return pairs of what fgrad gave and what a witness gives; None where the way has no derivative.

    Raises:
        Unsuited: the witness has nothing to say.
    """
    f, ys = held(case.program.function(**by.namespace()), xs)
    if by.is_checked or "partition" in case.program.source():  # whose other places depend on the dtype
        f = alike(f, held(plain_f, xs)[0], ys, list(map(by.lift, ys)), max(1e-6, 1e4 * epsilon(*ys)))
    total = weighted(f, analytic=by.analytic)
    ts, vs = tangents(ys), tangents(ys, 1)
    lifted = [by.lift(reference.ordered(y)) for y in ys]
    move = lambda zs, t, us: [laid_out_like(z, z + u * by.number(t)) for z, u in zip(zs, us, strict=True)]
    slope = lambda us: to_floats(by.slope(lambda t: total(*move(lifted, t, us))))
    if case.way in FIRST:
        gs = list(map(plain, out))
        if sum(y.size for y in ys) > 12:
            return [
                ("along", np.asarray(pairing(gs, us)), slope(us))
                for us in (tangents(ys, seed) for seed in (1, 2))
            ]
        pairs = []
        for k, (g, y) in enumerate(zip(gs, ys, strict=True)):
            e = np.zeros(y.shape, complex if y.dtype.kind == "c" else float)
            for i, unit in reference.directions(y):
                along = lambda d, k=k: [d if j == k else np.zeros_like(z) for j, z in enumerate(ys)]
                e[i] = slope(along(unit))
                if y.dtype.kind == "c":
                    e[i] -= 1j * slope(along(1j * unit))
            pairs.append((f"x{k}", g, e))
        return pairs
    if case.way in {"jvp", "jit(jvp)"}:
        return [("along", np.asarray(plain(out), float), slope(ts))]
    if case.way in SECOND:
        found = by.twice(lambda a, t: total(*move(move(lifted, a, vs), t, ts)))
        return [("twice", np.asarray(float(pairing(map(plain, out), vs))), to_floats(found))]
    return None


def laid_out_like(x: Any, y: Any) -> Any:
    """Return `y` in the order in memory of `x`, on which it depends what writes are seen."""
    if y.ndim < 2 or y.strides == x.strides:
        return y
    made = np.empty_like(x, y.dtype)
    made[...] = y
    return made


def testimony_of_peer(case: Case, out: Any, plain_f: Any, xs: list[Any], by: Peer) -> list[Any]:
    """Return what `testimony` does, of JAX's derivatives."""
    import jax

    f, ys = held(case.program.function(**by.names()), xs)
    ys = [y.astype(y.dtype.newbyteorder("=")) for y in ys]
    f = alike(f, held(plain_f, xs)[0], ys, ys, max(1e-6, 1e4 * epsilon(*ys)))
    total, ts, vs = weighted(f), tangents(ys), tangents(ys, 1)
    gradient_of = jax.grad(total, every(ys))
    if case.way in FIRST:
        found = list(map(np.asarray, gradient_of(*ys)))
        if sum(y.size for y in ys) <= 12:
            return [(f"x{k}", plain(g), e) for k, (g, e) in enumerate(zip(out, found, strict=True))]
        us = [tangents(ys, seed) for seed in (1, 2)]
        return [("along", np.asarray(pairing(map(plain, out), u)), np.asarray(pairing(found, u))) for u in us]
    if case.way in SECOND:
        (_, found) = jax.jvp(gradient_of, tuple(ys), tuple(ts))
        return [
            ("twice", np.asarray(float(pairing(map(plain, out), vs))), np.asarray(float(pairing(found, vs))))
        ]
    return [
        ("along", np.asarray(plain(out), float), np.asarray(jax.jvp(total, tuple(ys), tuple(ts))[1], float))
    ]


def verdict(case: Case) -> Verdict:
    """Return the verdict on a case."""
    try:
        return judge(case)
    except Undetermined:
        return Verdict("undetermined", "roundings")
    except Exception as error:  # one way has a derivative that another one refuses
        if any(words.search(str(error)) for words in REFUSALS):
            return Verdict("refused", f"{type(error).__name__}: {str(error)[:200]}")
        if isinstance(error, np.linalg.LinAlgError) and (is_special(case) or is_fragile(case)):
            return Verdict("undetermined", "a matrix that is singular but for roundings")
        return Verdict(
            f"{case.way}: {type(error).__name__} beside", "".join(traceback.format_exception(error)[-6:])
        )
