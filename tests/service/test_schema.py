"""The OpenAPI schema is true: generated requests, sent over a socket, never meet an undeclared answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import requests
from hypothesis import HealthCheck, given, settings
from service_helpers import build_tagger, listening, serving

from maskedcrf.service.app import create_app
from maskedcrf.service.schemas import REASONS

SCHEMA = create_app(build_tagger()).openapi()
OPERATIONS = [(path, method) for path, methods in SCHEMA["paths"].items() for method in methods]
POSTED = [(path, method) for path, method in OPERATIONS if method == "post"]
FEW, MANY = 20, 1700
"""Requests for each operation and mode: by default, and in the slow test, where they are 10,200 together."""

# Not positive_data_acceptance: whether a fixed tag exists depends on the model, which the schema does not know.
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
]
MODES = ["positive", "negative"]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with listening() as (host, port):
        yield f"http://{host}:{port}"


def bombard(address: str, path: str, method: str, mode: str, examples: int) -> Counter[int]:
    """How often each status came back from this many generated requests; raises where the schema was not kept."""
    # Imported here: it takes every process that collects the tests a second and more.
    from schemathesis import GenerationMode, checks, openapi

    statuses: Counter[int] = Counter()
    chosen = [getattr(checks, name) for name in CHECKS]
    operation = openapi.from_dict(SCHEMA)[path][method.upper()]

    with requests.Session() as session:

        @settings(max_examples=examples, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(generation_mode=GenerationMode(mode)))
        def send(case: object) -> None:
            answer = case.call_and_validate(base_url=address, session=session, checks=chosen, timeout=300)
            statuses[answer.status_code] += 1
            assert mode == "positive" or 400 <= answer.status_code < 500

        send()
    return statuses


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("path", "method"), POSTED)
def test_generated_requests_meet_declared_answers_only(address: str, path: str, method: str, mode: str) -> None:
    statuses = bombard(address, path, method, mode, FEW)
    assert max(statuses) < 500
    assert mode == "negative" or 200 in statuses


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_generated_requests_meet_declared_answers_only_and_leave_no_memory_behind(tmp_path: Path) -> None:
    statuses: Counter[int] = Counter()
    memory = list[float]()
    with serving(build_tagger().save(tmp_path / "model")) as (process, port):
        for path, method in POSTED:
            for mode in MODES:
                statuses += bombard(f"http://127.0.0.1:{port}", path, method, mode, MANY)
                memory.append(psutil.Process(process.pid).memory_info().rss / 2**20)
    print(dict(statuses), [round(size) for size in memory])  # noqa: T201 the figures for the records
    assert statuses.total() >= 10_000
    assert max(statuses) < 500
    # The first requests of each address fill caches; a leak of 4 KiB a request would add 7 MiB each time.
    assert memory[-1] - memory[-2] < 7


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_refusal_is_declared_with_the_error_model(path: str, method: str) -> None:
    declared = SCHEMA["paths"][path][method]["responses"]
    expected = {"200", "400"} | ({"408", "413", "415", "422", "500", "503", "504"} if method == "post" else set())
    assert expected <= declared.keys()
    for status, answer in declared.items():
        if status != "200":
            assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}
            assert int(status) in REASONS
    assert "headers" in declared.get("503", {"headers": {}})


def test_the_schema_says_what_a_request_may_hold() -> None:
    parts = SCHEMA["components"]["schemas"]
    assert parts["TagRequest"]["additionalProperties"] is False
    assert parts["TagRequest"]["oneOf"] == [{"required": ["text"]}, {"required": ["tokens"]}]
    assert parts["TagRequest"]["properties"]["text"]["maxLength"] == 20_000
    assert parts["BatchRequest"]["properties"]["sentences"]["maxItems"] == 256
