"""Settings: from the environment, each read when it is needed, or for a block of code."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, get_args

from fgrad.blocks import Setting
from fgrad.names import offered as _offered

__all__ = ["disable_jit", "on_escape"]

if TYPE_CHECKING:
    from pathlib import Path

Policy = Literal["error", "warn", "ignore"]
_policy: ContextVar[Policy | None] = ContextVar("fgrad.on_escape", default=None)

_disabled: ContextVar[bool | None] = ContextVar("fgrad.disable_jit", default=None)

# why some call of a jitted function may need more than the short way: observers of primitives, default
# devices
occasions: list[object] = []


def cache_dir() -> Path:
    """Return the folder of compiled kernels: `FGRAD_CACHE_DIR`, else `fgrad` in the user's cache folder."""
    from pathlib import Path  # noqa: PLC0415 -- late: few programs that differentiate use files

    chosen = os.environ.get("FGRAD_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "fgrad" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fgrad"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fgrad"


def cache_size() -> int:
    """Return how many bytes the folder of compiled kernels may hold: `FGRAD_CACHE_SIZE`, default 256 MiB."""
    return _integer("FGRAD_CACHE_SIZE", 256 * 2**20)


def cache_entries() -> int:
    """Return how many entries a cache in memory may hold: `FGRAD_CACHE_ENTRIES`, default 1024, at least 2.

    Each jitted function has such a cache of its programs; compiled kernels are one, and so are plans of
    contractions and the like (see `core.caches`).
    """
    return max(2, _integer("FGRAD_CACHE_ENTRIES", 1024))


def on_escape(policy: Policy) -> Setting:
    """Choose what happens in a block where a Tensor that is being differentiated becomes a plain value.

    `float(t)`, `numpy.asarray(t)`, `array[i] = t`, or a function of NumPy without a rule cannot follow a
    derivative. Where that is meant everywhere in a block, as for logging or plotting, say so once here; for
    one value say `t.detach()`, `t.item()` or `t.numpy()`. Outside every block `FGRAD_ON_ESCAPE` decides,
    which is "error" if it is not set. What `vmap` and `make_graph` follow has no value, so it never escapes.

    Args:
        policy: "error" raises TypeError; "warn" gives the plain value and an `EscapeWarning` for the line of
            the program; "ignore" gives the plain value.

    Raises:
        ValueError: an unknown policy.

    Example:
        >>> from fgrad import grad
        >>> with on_escape("ignore"):
        ...     print(grad(lambda x: x * float(x))(3.0))  # the second factor counts as a constant
        3.0
    """
    return Setting(_policy, _known(policy, "on_escape"))


def escape_policy() -> Policy:
    """Return what `on_escape` chose for the running block, else `FGRAD_ON_ESCAPE`, else "error"."""
    return _policy.get() or _known(os.environ.get("FGRAD_ON_ESCAPE") or "error", "FGRAD_ON_ESCAPE")


def _known(policy: str, name: str) -> Policy:
    for known in get_args(Policy):
        if policy == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"{name} is one of {', '.join(map(repr, get_args(Policy)))}, not {policy!r}")


def disable_jit(disable: bool = True) -> Setting:
    """Run jitted functions as Python in a block.

    Then `print` and a debugger see values. Outside every block `FGRAD_DISABLE_JIT` decides.

    Args:
        disable: False compiles in the block, whatever surrounds it.

    Returns:
        A context manager.

    Example:
        >>> import fgrad
        >>> with disable_jit():
        ...     print(fgrad.jit(lambda x: x if x > 0 else -x)(-2.0))
        2.0
    """
    return Setting(_disabled, disable)


def jit_disabled() -> bool:
    """Return whether jitted functions run as Python: `disable_jit`, else `FGRAD_DISABLE_JIT`."""
    chosen = _disabled.get()
    return _integer("FGRAD_DISABLE_JIT", 0) != 0 if chosen is None else chosen


chosen_jit: Callable[[], bool | None] = (
    _disabled.get
)  # what `disable_jit` chose for the running block, None outside of all


def full_traceback() -> bool:
    """Return whether tracebacks show the frames of fgrad: `FGRAD_TRACEBACK` is "full", not "short".

    Raises:
        ValueError: it is something else.
    """
    chosen = os.environ.get("FGRAD_TRACEBACK") or "short"
    if chosen not in ("short", "full"):
        raise ValueError(f"FGRAD_TRACEBACK is 'short' or 'full', not {chosen!r}")
    return chosen == "full"


def quiet() -> bool:
    """Return whether nothing is said on stderr while much is compiled: `FGRAD_QUIET`."""
    return _integer("FGRAD_QUIET", 0) != 0


def private() -> bool:
    """Return whether fgrad may rely on what other libraries keep to themselves: `FGRAD_PRIVATE` is not 0."""
    return _integer("FGRAD_PRIVATE", 1) != 0


def checked() -> bool:
    """Return whether kernels check where they read and write: `FGRAD_CHECK`; see `kernels.checks`."""
    return _integer("FGRAD_CHECK", 0) != 0


def process_effects() -> bool:
    """Return whether fgrad may change the process around it: `FGRAD_PROCESS_EFFECTS`, by default so.

    The page on the process in docs/howto says what it changes, and when.
    """
    return _integer("FGRAD_PROCESS_EFFECTS", 1) != 0


def cuda_graphs() -> bool:
    """Return whether programs on a GPU are recorded as CUDA graphs: `FGRAD_CUDA_GRAPHS`, by default so."""
    return _integer("FGRAD_CUDA_GRAPHS", 1) != 0


def num_threads() -> int:
    """Return how many threads kernels may use: `FGRAD_NUM_THREADS`, else the usable cores, at most 8."""
    return max(1, _integer("FGRAD_NUM_THREADS", min(usable_cores(), 8)))


def mpi_timeout() -> float:
    """Return how many seconds a rank waits for the others: `FGRAD_MPI_TIMEOUT`, default 300."""
    text = os.environ.get("FGRAD_MPI_TIMEOUT") or "300"
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"the environment variable FGRAD_MPI_TIMEOUT must be a number of seconds, not {text!r}"
        ) from None


def usable_cores() -> int:
    """Return on how many cores this process may run."""
    return len(cores()) or os.cpu_count() or 1


def cores() -> set[int]:
    """Return the numbers of these cores; none where the system does not say."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


def _integer(name: str, default: int) -> int:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"the environment variable {name} must be an integer, not {text!r}") from None


def __dir__() -> list[str]:
    return _offered(globals())
