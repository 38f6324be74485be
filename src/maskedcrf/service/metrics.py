"""What the service counts, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """What one application has done so far. Labels come from its routes alone, so their number is bounded."""

    def __init__(self) -> None:
        # A registry of its own: two applications in one process do not share their counts.
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "maskedcrf_requests", "Requests by route and status.", ("path", "status"), registry=registry
        )
        self._seconds = Histogram(
            "maskedcrf_request_seconds", "From a request's arrival to its answer.", buckets=SECONDS, registry=registry
        )
        self._batches = Histogram(
            "maskedcrf_batch_requests", "Requests in one pass through the model.", buckets=REQUESTS, registry=registry
        )
        self._tokens = Counter("maskedcrf_tokens", "Tokens through the model.", registry=registry)

    def add_gauge(self, name: str, description: str, read: Callable[[], float]) -> None:
        """Show a value that is read when it is asked for."""
        Gauge(f"maskedcrf_{name}", description, registry=self._registry).set_function(read)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.observe(seconds)

    def count_batch(self, requests: int, tokens: int) -> None:
        """Count one pass through the model."""
        self._batches.observe(requests)
        self._tokens.inc(tokens)

    def text(self) -> bytes:
        """All of it in the text format."""
        return generate_latest(self._registry)
