import platform
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch

from oddone import __version__
from oddone.provenance import machine, now, stated_estimate, versions


def test_now_is_the_time_in_utc_to_the_second() -> None:
    said = datetime.fromisoformat(now())
    assert said.utcoffset() == timedelta(0)
    assert said.microsecond == 0
    assert abs(datetime.now(UTC) - said) < timedelta(minutes=1)


def test_versions_are_those_of_python_and_of_the_packages_in_order() -> None:
    said = versions("numpy", "torch")
    assert list(said) == ["python", "oddone", "torch", "numpy"]
    assert said["python"] == platform.python_version()
    assert (said["oddone"], said["torch"]) == (__version__, torch.__version__)


def test_a_machine_has_the_threads_that_torch_computes_with() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert machine().threads == 1
    finally:
        torch.set_num_threads(before)
    assert machine().system == platform.system()
    assert (machine().gpu is None) == (not torch.cuda.is_available())


def test_a_machine_without_proc_names_its_processor_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(platform, "processor", lambda: "Abacus")
    assert machine().processor == "Abacus"


def test_a_processor_without_a_name_is_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda _: "processor : 0\nCPU part : 0xd0c\n")
    assert machine().processor == ""


def test_an_estimate_is_read_where_it_has_the_shape_of_one() -> None:
    estimate = {
        "auroc": 0.97, "accuracy": 0.9, "false_alarms": 0.05, "classes": {"a": 0.9, "b": 1.0},
        "images": 100, "method": "left out", "of a later version": [1],
    }  # fmt: skip
    stated = stated_estimate({"estimate": estimate})
    assert stated is not None
    assert stated["classes"] == {"a": 0.9, "b": 1.0}
    assert stated_estimate({"estimate": {"auroc": 1, "classes": {"a": 1}}}) is not None


@pytest.mark.parametrize(
    "estimate",
    [
        None,
        "good",
        {},
        {"auroc": 0.9},
        {"auroc": 0.9, "classes": {}},
        {"auroc": 0.9, "classes": ["a"]},
        {"auroc": 90.0, "classes": {"a": 0.9}},
        {"auroc": float("nan"), "classes": {"a": 0.9}},
        {"auroc": 0.9, "classes": {"a": None}},
        {"auroc": 0.9, "classes": {"a": 0.9}, "images": "many"},
    ],
)
def test_an_odd_estimate_is_none(estimate: object) -> None:
    assert stated_estimate({"estimate": estimate}) is None
    assert stated_estimate({}) is None
