"""Caches in memory: each holds what was used last, and no more of it than `FGRAD_CACHE_ENTRIES` allows.

Machine code, programs and plans are kept by what they were made for: shapes, layouts, functions. Of these a
process may see any number, so what was used longest ago goes, and is made or loaded again if need be. What is
still referred to elsewhere, as code is by the program that calls it, stays alive until that goes too.

A function whose arguments are that many is decorated with `lru_cache(config.cache_entries())`; plain `cache`
is for functions of few arguments (dtypes, names of primitives), or of none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from fgrad import config

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRU(Generic[K, V]):
    """A mapping, to values other than None, that forgets the entries which were used longest ago.

    There are two generations: what is used is in `young`; once that has half of the entries, it becomes the
    old generation, and the one before is forgotten. So an entry that is used now and then stays, and to find
    it takes one look into a dictionary: who is in a hurry asks `cache.young.get(key) or cache.get(key)`.
    Threads may use it together: what two of them store under one key at the same time is that of either.
    """

    __slots__ = ("_limit", "_old", "young")

    def __init__(self, limit: Callable[[], int] = config.cache_entries) -> None:
        self._limit = limit
        self.young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the value of `key`, which counts as used; None if there is none."""
        found = self.young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self[key] = found
        return found

    def setdefault(self, key: K, value: V) -> V:
        """Return the value of `key`: the one that there is, else `value`."""
        found = self.get(key)
        return self._room().setdefault(key, value) if found is None else found

    def __setitem__(self, key: K, value: V) -> None:
        self._room()[key] = value

    def _room(self) -> dict[K, V]:
        """Return the young generation, which takes one entry more."""
        young = self.young
        if len(young) >= max(1, self._limit() // 2):
            self._old, self.young = young, {}
        return self.young

    def __contains__(self, key: K) -> bool:
        return key in self.young or key in self._old

    def __iter__(self) -> Iterator[K]:
        return iter({**self._old, **self.young})

    def __len__(self) -> int:
        return len({**self._old, **self.young})

    def clear(self) -> None:
        """Forget everything."""
        self.young, self._old = {}, {}
