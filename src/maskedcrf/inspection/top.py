"""Top: the best few of any number of things, in bounded memory."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Top(Generic[Item]):
    """Keeps the `size` items of the highest scores; of equal ones those that came first."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._heap: list[tuple[float, int, Item]] = []
        self._seen = 0

    def add(self, score: float, item: Item) -> Item | None:
        """Consider one more; returns what is not kept, that item or one kept so far."""
        self._seen += 1
        entry = (score, -self._seen, item)
        if len(self._heap) < self.size:
            heapq.heappush(self._heap, entry)
            return None
        return heapq.heappushpop(self._heap, entry)[2]

    def best_first(self) -> list[Item]:
        """What was kept."""
        return [item for _, _, item in sorted(self._heap, reverse=True)]

    def __len__(self) -> int:
        return len(self._heap)
