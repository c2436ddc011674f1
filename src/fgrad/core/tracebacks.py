"""Tracebacks that end in the user's program: the frames of fgrad are left out.

The places at which a program enters fgrad catch what is raised, and raise it again without the frames of
fgrad. From Python 3.11 on, their own frame is left out, too. `FGRAD_TRACEBACK=full` leaves everything as it
is.
"""

from __future__ import annotations

from types import TracebackType

from fgrad import config
from fgrad.core.mistakes import last_refusal
from fgrad.core.trace import is_internal, is_own

_NOTE = "FGRAD_TRACEBACK=full shows"


def shorten(error: BaseException) -> None:
    """Take the frames of fgrad and of what it called out of the tracebacks of an error and its causes."""
    _say_why(error)
    if config.full_traceback():
        return
    hidden = 0
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        e = chain.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        e.__traceback__, n = _shortened(e.__traceback__)
        hidden += n
        chain += [e.__cause__, e.__context__]
    if hidden and hasattr(error, "add_note"):
        _say(error, hidden)


def _say_why(error: BaseException) -> None:
    """Let the error of a library about something that a Tensor refused say what the Tensor said."""
    refusal = last_refusal()
    if refusal is None:
        return
    said, *where = refusal
    tb = error.__traceback__
    place = None
    last_is_own = False
    while tb is not None:
        code = tb.tb_frame.f_code
        if is_own(code.co_filename):
            last_is_own = True
        else:
            last_is_own = False
            if not is_internal(code.co_filename):
                place = [code, tb.tb_lineno]
        tb = tb.tb_next
    if place == where and not last_is_own and str(error) != said:
        replaced = str(error.__cause__) == said
        error.args = (said if replaced else f"{said} ({type(error).__name__} afterwards: {error})",)


def _say(error: BaseException, hidden: int) -> None:
    """Note how many frames are hidden, once."""
    notes: list[str] = getattr(error, "__notes__", [])
    for i, note in enumerate(notes):
        if _NOTE in note:
            hidden += int(note.split()[0])
            del notes[i]
            break
    frames = "frame of fgrad is" if hidden == 1 else "frames of fgrad are"
    error.add_note(f"{hidden} {frames} hidden; {_NOTE} them")


def _shortened(tb: TracebackType | None) -> tuple[TracebackType | None, int]:
    """Return a traceback without the frames of fgrad and of what it called, and how many they are."""
    kept: list[TracebackType] = []
    count, inside = 0, False
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        inside = is_own(file) or (inside and is_internal(file))
        if inside:
            count += 1
        else:
            kept.append(tb)
        tb = tb.tb_next
    made: TracebackType | None = None
    for entry in reversed(kept):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made, count
