"""What fgrad uses of CPython and of other libraries beyond their documented interfaces, a module for each.

No other module of fgrad names such a thing. Each has a self-test, asked when the thing is first needed; where
it fails, fgrad takes another way to the same result, or raises an error that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from fgrad import config
from fgrad.blocks import suppress

SELF_TESTS: dict[str, Callable[[], bool]] = {}  # by module and name


def self_test(test: Callable[[], bool]) -> Callable[[], bool]:
    """Return a self-test that runs once; an exception means no, and so does `FGRAD_PRIVATE=0`."""

    @cache
    def holds() -> bool:
        with suppress(Exception):  # whatever another version does there
            return config.private() and test()
        return False

    holds.__name__, holds.__doc__ = test.__name__, test.__doc__
    SELF_TESTS[f"{test.__module__.rpartition('.')[2]}.{test.__name__}"] = holds
    return holds
