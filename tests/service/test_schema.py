"""Whatever fits the OpenAPI description, or just does not, is answered as the description says."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from running_server import served_in_thread

from oddone.service.service import Service
from oddone.service.settings import ServiceSettings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
CALLS = int(os.environ.get("ODDONE_SCHEMA_CALLS", "8"))
"""Calls of each operation with what fits the description, and as many with what does not."""


@pytest.fixture(scope="module")
def description(tiny_detector: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the description of a service that runs."""
    feedback = tmp_path_factory.mktemp("schema") / "feedback.sqlite"
    service = Service({"tiny": tiny_detector}, ServiceSettings(decoders=1), feedback=feedback)
    with served_in_thread(service) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_every_answer_is_as_described_and_none_is_a_fault_of_the_service(
    description: Any, mode: str, record_property: Callable[[str, object], None]
) -> None:
    checks, calls = schemathesis.checks, 0
    for found in description.get_all_operations():
        operation = found.ok()
        cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode])
        if mode == "NEGATIVE" and not (operation.body or operation.query):
            continue  # there is nothing that could be wrong

        @settings(
            max_examples=CALLS,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            deadline=None,
            database=None,
        )
        @given(case=cases)
        def call(case: Any) -> None:
            nonlocal calls
            calls += 1
            case.call_and_validate(
                checks=[
                    checks.not_a_server_error,
                    checks.status_code_conformance,
                    checks.content_type_conformance,
                    checks.response_schema_conformance,
                ],
                timeout=120,
            )

        call()
    record_property("calls", calls)
    assert calls >= 3 * CALLS
