"""Counters of the service in the text format that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128)


class Histogram:
    """How many values fell under each bound, and their sum."""

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> Iterable[str]:
        """The samples, each bucket counting all below it."""
        below = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            below += count
            yield f'{name}_bucket{{le="{bound}"}} {below}'
        yield f"{name}_sum {self.total}"
        yield f"{name}_count {below}"


class Metrics:
    """What the service has done so far. Labels come from the routes alone, so their number is bounded."""

    def __init__(self, gauges: Mapping[str, tuple[str, Callable[[], float]]]) -> None:
        self.gauges = gauges
        """Name -> help, and a function that reads it now."""
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds = Histogram(SECONDS)
        self.batches = Histogram(REQUESTS)
        self.tokens = 0

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self.requests[path, status] += 1
        self.seconds.add(seconds)

    def batch(self, requests: int, tokens: int) -> None:
        """Count one pass through the model."""
        self.batches.add(requests)
        self.tokens += tokens

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        parts = [
            _block("requests_total", "counter", "Requests by route and status.", self._requests),
            _block("request_seconds", "histogram", "From a request's arrival to its answer.", self.seconds.lines),
            _block("batch_requests", "histogram", "Requests in one pass through the model.", self.batches.lines),
            _block("tokens_total", "counter", "Tokens through the model.", lambda name: [f"{name} {self.tokens}"]),
        ]
        parts += [_block(name, "gauge", what, _reading(read)) for name, (what, read) in self.gauges.items()]
        return "".join(parts)

    def _requests(self, name: str) -> Iterable[str]:
        for (path, status), count in sorted(self.requests.items()):
            yield f'{name}{{path="{path}",status="{status}"}} {count}'


def _reading(read: Callable[[], float]) -> Callable[[str], Iterable[str]]:
    return lambda name: [f"{name} {read()}"]


def _block(name: str, kind: str, what: str, lines: Callable[[str], Iterable[str]]) -> str:
    full = f"maskedcrf_{name}"
    return "".join(f"{line}\n" for line in (f"# HELP {full} {what}", f"# TYPE {full} {kind}", *lines(full)))
