"""Whatever fits the OpenAPI description, or just does not, is answered as the description says."""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from trials import Rounds, Trials

from small_detector import fitted

pytest.importorskip("fastapi", reason="oddone[service] is not installed")
sys.path.append(str(Path(__file__).parent.parent / "service"))

from running_server import served_in_thread

from oddone.service.service import Service
from oddone.service.settings import ServiceSettings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
CALLS = (8, 1_700)
"""Calls of each operation, in the short and the long form; those that take nothing need few."""


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return the description of a service that runs."""
    folder = tmp_path_factory.mktemp("schema")
    fitted().save(folder / "tiny.oddone")
    service = Service(
        {"tiny": folder / "tiny.oddone"},
        ServiceSettings(decoders=1),
        feedback=folder / "feedback.sqlite",
    )
    with served_in_thread(service) as address:
        yield schemathesis.openapi.from_url(f"{address}/openapi.json")


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_every_answer_is_as_described_and_none_is_a_fault_of_the_service(
    description: Any, mode: str, trials: Trials, rounds: Rounds
) -> None:
    for found in description.get_all_operations():
        operation = found.ok()
        if mode == "NEGATIVE" and not (operation.body or operation.query):
            continue  # there is nothing that could be wrong
        fits = "fits" if mode == "POSITIVE" else "does not"
        cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode])
        trial = partial(trials.trial, f"schema: {operation.label} that {fits}")
        call_often(cases, rounds(*CALLS), trial)
    assert trials.tried.total() >= 3 * rounds(*CALLS)


def call_often(
    cases: Any, number: int, trial: Callable[[object], AbstractContextManager[None]]
) -> None:
    """Make so many calls, each of which is a trial."""
    checks = schemathesis.checks

    @settings(
        max_examples=number,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
    )
    @given(case=cases)
    def call(case: Any) -> None:
        with trial(repr(case)):
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
