"""A primitive is an operation with its rules, one for each interpretation that fgrad supports."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec

import numpy as np

from fgrad import config
from fgrad.core.stored import Stored

if TYPE_CHECKING:
    from fgrad.core.tensor import Tensor

P = ParamSpec("P")
Rule = Callable[..., Any]
Pattern = tuple[bool, ...]

EACH = -1  # of all operands
LARGE = 32768  # elements: more are worth a compiled loop
ROWS = 2**16  # the product of the sizes of two operands whose result may have many rows
MEDIUM = 4096  # elements: more are worth one where NumPy's own loop takes several times as long
VECTORS = 16384  # elements: more are worth one of a function for which NumPy may have no vector code
FEW = 128  # elements: more are worth the question what takes the place of NumPy's loop
OUT = 0  # the place of the output among the values that a rule may keep; primal i is at i + 1
_NAMES = {"out": OUT, "x": 1, "y": 2, "z": 3}


# What passes and transformations ask of primitives, which say it where they are declared
MOVES = "moves"  # hands its operand on: at other places, repeated, or in another dtype
CHEAP = "cheap"  # computed again in less time than it takes to keep the result
TOTAL = "total"  # raises for no values, so that it may be computed before it is known to be needed
TOTAL_OF_FLOATS = "total of floats"  # raises for no floats, but for some integers
ELEMENTWISE = "elementwise"  # works element by element, though it has no body
COMMUTATIVE = "commutative"
BILINEAR = "bilinear"  # linear in each factor, though where one is zero it keeps its value
NEVER_NEGATIVE_ZERO = "never -0.0"
SPREADS = "spreads"  # gives infinity or NaN wherever one of its operands has some
SPREADS_FIRST = "spreads the first"  # wherever its first operand has some
C_ORDER = "C order"  # lies in memory row by row
KEEPS_C_ORDER = "keeps C order"  # does so if its operands do
KEEPS_C_ORDER_OF_FIRST = "keeps C order of the first"  # does so if its first operand does
SELECTS = "selects"  # gives one of its operands, element by element
INTEGRAL = "integral"  # of integers alone, in the dtype of the arrays beside a Python number
AVERAGES = "averages"  # gives the mean of many elements
REDUCES = "reduction"  # gives one element for many
TRANSFERS = "transfers"  # moves its first operand to a device
ASSEMBLES = "assembles"  # puts its operands side by side
PRODUCT = "product"  # sums products of elements
CONTRACTION = "contraction"  # sums products by subscripts: `a` and `b` of its operands, `out` of its result
REPEATS = "repeats"  # repeats its operand up to a shape
TRANSPOSES = "transposes"  # puts its axes in the order `axes`
RESHAPES = "reshapes"  # gives its elements, row by row, in the shape `shape`
ADDS = "adds"  # its two operands
REARRANGES = "rearranges"  # gives elements of its one operand, and no others
CASTS = "casts"  # gives its operand in another dtype
CHOOSES = "chooses"  # between its other operands, by a condition, which is the first one
CANCELS = "cancels"  # its formula loses most digits of float32, which other libraries compute in double
PLACES = "places"  # gives elements of its `parts` operands, or zeros: which ones, only other operands say
OVERWRITES = "overwrites"  # gives its first operand but for a part, which it takes from the second one
ADDS_AT = "adds at"  # its first operand to zeros of `shape`, where `template` and its other operands say
ALONG = "along"  # mixes elements along `axis` or `axes`; of the others there is one of the result for each
STACKS = "stacks"  # of matrices, each by itself: all but the last two axes of its operands are apart
NOT_FOLDED = "not folded"  # looks at the world, or calls the user: not computed before the program runs
_interned: dict[tuple[int, ...], tuple[int, ...]] = {}
KEEP_OUT, KEEP_X, KEEP_Y, KEEP_XY = (_interned.setdefault(k, k) for k in ((0,), (1,), (2,), (1, 2)))


ITSELF = "itself"  # a step that works element by element is its own transpose
SYMMETRIC = "symmetric"  # so is one that mixes real elements symmetrically
LINEAR = "linear"  # the primitive is linear in its one argument: run on the tangent
WEIGHTS = "weights"  # a reduction over `axes`: every element reaches one element of the output
MULTILINEAR = "multilinear"  # the primitive is linear in each tracked argument, and the others are kept
TOGETHER = "together"  # the primitive is linear in all of its arguments at once: run on all tangents


@dataclass(eq=False, repr=False, slots=True)
class VJP:
    """The reverse step of one primitive for one pattern of tracked arguments.

    `raw(ct, *saved)` and `lifted(ct, *saved)` return one cotangent per tracked argument; `raw` may be used
    where every value is an array, `lifted` everywhere. `saved` is what `keep` and `avals` select, in this
    order, and then the parameters if `params`.

    Args:
        lifted: (ct, *saved) -> cotangents, for arrays and Tensors alike.
        raw: the same for arrays alone; None: `lifted`.
        keep: which values are saved: `OUT`, or i + 1 for primal i.
        avals: of which values shape and dtype are saved.
        params: whether the parameters are saved.
        exact: whether cotangents have the shape and dtype of their argument already.
        shaped: whether they have at least the shape of it.
        transpose: how forward mode gets the transpose of this step without recording it: ITSELF,
            SYMMETRIC, LINEAR, WEIGHTS, MULTILINEAR or TOGETHER; "" records it.
        linear: whether the primitive is linear in the tracked arguments although it keeps their values; once
            the primitive is known, whether it is so at all.
        makes: whether what `raw` returns is new, where it is neither the cotangent nor what was saved, and
            owns its memory: nobody else keeps it.
        onto: (cotangents of the tracked arguments so far, ct, *saved) -> new arrays, these plus what `raw`
            returns, where that is less work than the two; None where it is not. None: it never is.
        push: (tangents of the tracked arguments, *saved) -> those of all outputs, what forward mode asks in
            the place of the transpose; None: it transposes.
    """

    lifted: Rule
    _: KW_ONLY
    raw: Any = None
    keep: tuple[int, ...] = ()
    avals: tuple[int, ...] = ()
    params: bool = False
    exact: bool = False
    shaped: bool = False
    transpose: str = ""
    linear: bool = False
    makes: bool = False
    onto: Any = None
    push: Any = None
    declared: bool = field(init=False)  # what `linear` was
    simple: bool = field(init=False)  # saves values only
    primitive: str = field(default="", init=False)  # the name of the primitive, once it is known
    checks: bool = field(default=False, init=False)  # whether it looks at cotangents, and refuses some
    title: str = field(default="", init=False)  # what to call a step that belongs to no primitive
    pattern: Pattern = field(default=(True,), init=False)  # which arguments are tracked

    def __post_init__(self) -> None:
        self.raw = self.raw or self.lifted
        self.keep = _interned.setdefault(self.keep, self.keep)
        self.simple = not self.avals and not self.params
        self.declared, self.linear = self.linear, True


@dataclass(eq=False, repr=False, slots=True)
class AccumulatingVJP(VJP):
    """The vjp rule of a primitive that reads or writes a part of its first argument, which is tracked.

    A sweep has one buffer for the cotangent of that argument, however often it was read: `into` adds to it.
    Where the cotangent that arrives belongs to the sweep alone, `emptied` may write to it. The first result
    of `raw` is always a new array.

    Args:
        into: (buffer, ct, *saved): add what `raw` returns to a buffer, in place. None: the primitive writes.
        emptied: (ct, *saved) -> what `raw` returns, of which the first is `ct` itself.
        is_small: (ct, *saved) -> whether the step reads little of much, so that it is better done together
            with others where buffers cannot be added to.
        joined: [(ct, *saved), ...] -> what `lifted` returns, summed over many reads.
    """

    _: KW_ONLY
    into: Rule | None = None
    emptied: Rule | None = None
    is_small: Rule = lambda *_: False
    joined: Rule = lambda *_: False


def flat(_: Pattern) -> None:
    """Be the `vjp` of a primitive whose derivative is zero everywhere."""


class Reduction(NamedTuple):
    """How compiled loops reduce: any two elements are joined, in any order."""

    join: str  # the primitive that joins two elements
    identity: float  # changes nothing
    floats: str  # the code that joins two floats on the CPU: in any order, that of the vector's lanes
    integers: str = ""  # the code that joins two integers; "": it reduces floats alone


class Written(NamedTuple):
    """What a primitive is in others, which kernels know, for compiled programs.

    Attributes:
        rule: what takes the place of `run`: a function of Tensors, which looks at none of their values.
        fits: (*avals, **params) -> whether it is to.
    """

    rule: Rule
    fits: Callable[..., bool] = lambda *_, **__: True


class MatrixLoop(NamedTuple):
    """The loop of `numpy.linalg` over stacks of matrices that computes a primitive."""

    name: str  # its parameters may add to it
    finite: tuple[int, ...] = ()  # operands that have to be: iterations may never end beside infinities
    checked: int = -1  # of which operand or result the first element is NaN where the loop failed


class Universal(NamedTuple):
    """The universal function whose loops compute a primitive."""

    ufunc: np.ufunc
    output: int = 0  # which of its outputs
    whole: bool = False  # whether its first operand has to be an integer: other loops may warn, or raise
    constants: tuple[float, ...] = ()  # its last operands, which the primitive has not


@dataclass(eq=False, repr=False, slots=True)
class Primitive:
    """One operation with all of its rules.

    Args:
        name: the name that `bind` takes.
        run: (*buffers, **params) -> buffer, or a tuple of buffers where `many`.
        vjp: pattern of tracked arguments -> how cotangents go back; None where the derivative is zero.
        adjoint: the same in the recording of a linear function, where it is not `vjp`; its results are None
            where the primitive is not linear in the tracked arguments.
        shape: (*avals, **params) -> aval (or a tuple); None runs the primitive on placeholder data.
        batch: (mapped, *values, **params) -> out, the batch axis first in and out; None loops.
        body: the scalar code that may be fused; None where elements mix.
        formula: the same of a function that a library computes, to a few units in the last place.
        many: whether the output is a tuple.
        real: whether the derivative holds for real arguments only.
        inline: the same by other operations, which take its place in a staged program.
        apply: (*values, **params) -> outs, what a program does instead of applying the primitive, where
            that would lose a derivative of its own or record what has none.
        write: (x, new, **params) -> x with what the primitive takes of it replaced by `new`, where the
            result is a view of x that NumPy lets one write to.
        depends: whether it depends on how x lies in memory that the result is a view.
        large: what eager mode calls in place of `run` for arrays that are not small; it looks how large.
        by_rows: whether `large` is for arrays of different shapes alone, whose result may have many rows.
        mixes: whether a Python number takes the dtype of the arrays beside it; all with a body do so.
        costly: whether it costs much more than a pass over its operands.
        checks: whether its vjp rule looks at cotangents, and refuses some.
        unchecked: the parameters under which it refuses no values, which are of no consequence then.
        effect: parameters -> whether it does more than its results say, or refuses values, so that it
            stays in a program though nobody needs what it returns. None: never.
        lower: (program, simplify) -> the program, which contains it, without what no compiler knows;
            `simplify` is for the programs inside of it.
        integers: the code of one element of integers, before it is cut to the width of its dtype.
        truths: the code of one element of truth values.
        python: the least type of what Python's operators make of Python's numbers by it; None: an array.
        reduction: how compiled loops join the elements along `axes`; None: they do not.
        stored: how files hold it; or why no stored program may contain it.
        apart: (axis, shape, saved) -> the axis of its one tracked operand of which `axis` of the result,
            of `shape`, holds the examples one by one; None where it mixes them. None: not known.
        parts: how many of its first operands hold elements, if it does to the real and imaginary parts of
            complex ones what it does to them; `EACH`: all. 0: the parts mix.
        traits: what else is asked of it, from `MOVES` on.
        universal: the function whose loops compute it; None: `run`, if that is one.
        matrices: the loop over stacks of matrices that does.
        written: what compiled programs write in its place, of what no kernel knows.
        indices: the operand at which its index arrays begin, if it finds elements that need not be there.
        interpreted: why compiled programs leave it to Python, where they do.
    """

    name: str
    _: KW_ONLY
    run: Rule
    vjp: Callable[[Pattern], VJP | None]
    adjoint: Callable[[Pattern], VJP | None] | None = None
    shape: Rule | None = None
    batch: Rule | None = None
    body: Any = None
    formula: Any = None
    many: bool = False
    real: bool = False
    inline: Rule | None = None
    apply: Rule | None = None
    write: Rule | None = None
    depends: bool = False
    large: Rule | None = None
    by_rows: bool = False
    mixes: bool = False
    costly: bool = False
    checks: bool = False
    unchecked: dict[str, Any] = field(default_factory=dict)
    effect: Callable[[dict[str, Any]], bool] | None = None
    lower: Rule | None = None
    integers: str = ""
    truths: str = ""
    python: type | None = None
    reduction: Reduction | None = None
    stored: Stored | str = "it does not say how files hold it (`stored=`)"
    apart: Rule | None = None
    parts: int = 0
    traits: Collection[str] = ()
    universal: Universal | None = None
    matrices: MatrixLoop | None = None
    written: Written | None = None
    indices: int | None = None
    interpreted: str = ""
    flat: bool = field(init=False)  # no derivative at all
    # where eager mode looks first: vjp rules that save values only, of one tracked argument, or of two
    single: VJP | None = field(default=None, init=False)
    linear: VJP | None = field(default=None, init=False)  # of one argument, whose aval it keeps
    # tracked: the second, the first, both
    pairs: list[VJP | None] = field(default_factory=lambda: [None, None, None], init=False)
    # by tracked arguments as binary digits; primitives of one output only
    plans: dict[int, VJP] = field(default_factory=dict, init=False)
    _vjps: dict[Pattern, VJP | None] = field(default_factory=dict, init=False)
    _make_vjp: Callable[[Pattern], VJP | None] = field(init=False)

    def __post_init__(self) -> None:
        if self.universal is None and isinstance(self.run, np.ufunc):
            self.universal = Universal(self.run)
        self.mixes = self.mixes or self.body is not None
        self.traits = frozenset(self.traits)
        self.flat = self.vjp is flat
        self._make_vjp, self.vjp = self.vjp, self._remembered

    @property
    def scalar(self) -> Any:
        """What compiled loops compute at one element; None: they do not."""
        return self.body or self.formula

    def _remembered(self, pattern: Pattern) -> VJP | None:
        """Return what `vjp` was declared to return, complete; it is asked for once."""
        try:
            return self._vjps[pattern]
        except KeyError:
            if len(self._vjps) >= config.cache_entries():  # of a primitive that takes any number of arguments
                self._vjps.clear()
                self.plans.clear()
            made = self._make_vjp(pattern)
            if made is None:
                self._vjps[pattern] = None
                return None
            own = {OUT, *(i + 1 for i, tracked in enumerate(pattern) if tracked)}
            made.primitive, made.pattern, made.checks = self.name, pattern, self.checks
            made.linear = (
                made.declared or own.isdisjoint(made.keep) or (BILINEAR in self.traits and not all(pattern))
            )
            made = self._vjps.setdefault(pattern, made) or made  # complete: other threads may see it now
            if not self.many:
                self.plans[int("1" + "".join("01"[t] for t in pattern), 2)] = made
            if made.simple and len(pattern) == 1:
                self.single = made
            if made.simple and len(pattern) == 2:
                self.pairs[sum(pattern) if pattern[0] else 0] = made
            return made


def batch_size(mapped: Pattern, values: Sequence[Any]) -> int:
    """Return how many examples there are in operands of a batching rule, of which some are `mapped`."""
    size: int = next(x.shape[0] for x, m in zip(values, mapped, strict=True) if m)
    return size


PRIMITIVES: dict[str, Primitive] = {}
ARRIVED: list[Callable[[Primitive], None]] = []  # who wants to know of primitives that are added to the table
OPERATORS: dict[str, Callable[..., Tensor]] = {}  # what Tensor's operators call
FUNCTIONS: dict[str, Callable[..., Tensor]] = {}  # what Tensor's methods call: NumPy's names
UFUNCS: dict[Any, Callable[..., Any]] = {}  # a ufunc of NumPy called without keywords -> what computes it
NUMPY: dict[Any, Callable[..., Any]] = {}  # a function of NumPy -> what computes it for Tensors
METHODS: dict[str, Callable[..., Any]] = {}  # a method of NumPy's ufuncs -> (ufunc, *arguments) for Tensors
FOREIGN: dict[str, Callable[..., Any]] = {}  # an operator -> what computes it with other libraries' arrays


def register(primitive: Primitive) -> Primitive:
    """Add a primitive to the table; a name may be declared once."""
    if primitive.name in PRIMITIVES:
        raise ValueError(f"primitive {primitive.name!r} is already declared")
    PRIMITIVES[primitive.name] = primitive
    for arrived in ARRIVED:
        arrived(primitive)
    return primitive


def _declaring(make: Callable[P, Primitive]) -> Callable[P, Primitive]:
    def declared(*args: P.args, **columns: P.kwargs) -> Primitive:
        return register(make(*args, **columns))

    return declared


declare = _declaring(Primitive)  # makes a primitive of its columns and adds it to the table


def by_argument(
    *rules: Rule | None, raw: Sequence[Rule | None] = (), **options: Any
) -> Callable[[Pattern], VJP | None]:
    """Return the `vjp` of a primitive from one rule per argument.

    The positional parameters of a rule say what it keeps: `ct` first, then any of `out`, `x`, `y`, `z` (the
    primals) and `x_aval`, ... (only their shapes and dtypes). Parameters of the primitive arrive as keywords.
    None stands for an argument that no gradient can reach. `raw` are the same for arrays alone; `options` are
    those of `VJP`.
    """
    wants = [_wants(rule) if rule else ([], []) for rule in rules]

    def vjp(pattern: Pattern) -> VJP | None:
        tracked = [i for i, t in enumerate(pattern) if t]
        if all(rules[i] is None for i in tracked):
            return None
        keep = tuple(sorted({k for i in tracked for k in wants[i][0]}))
        avals = tuple(sorted({k for i in tracked for k in wants[i][1]}))
        places = [
            [*(keep.index(k) for k in wants[i][0]), *(len(keep) + avals.index(k) for k in wants[i][1])]
            for i in tracked
        ]
        lifted, on_arrays = (_joined([r[i] for i in tracked], places) for r in (rules, raw or rules))
        return VJP(lifted, raw=on_arrays, keep=keep, avals=avals, params=True, **options)

    return vjp


def _wants(rule: Rule) -> tuple[list[int], list[int]]:
    names = [
        p.name
        for p in inspect.signature(rule).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ][1:]
    values = [n for n in names if not n.endswith("_aval")]
    avals = names[len(values) :]
    return [_NAMES[n] for n in values], [_NAMES[n.removesuffix("_aval")] for n in avals]


def _joined(rules: Sequence[Rule | None], places: Sequence[Sequence[int]]) -> Rule:
    if len(rules) == 1 and list(places[0]) == list(range(len(places[0]))):
        (rule,) = rules
        return lambda ct, *saved: (rule(ct, *saved[:-1], **saved[-1]),)  # type: ignore[misc]

    def call(ct: Any, *saved: Any) -> tuple[Any, ...]:
        params = saved[-1]
        return tuple(
            rule and rule(ct, *[saved[k] for k in wanted], **params)
            for rule, wanted in zip(rules, places, strict=True)
        )

    return call
