"""Records: written whole, read back, and doubted."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from benches import Toys

from oddone.bench import TABLES, read_record, write_record
from oddone.bench.record import ImagesRecord, ResultRecord
from oddone.bench.tables import Column
from oddone.data.cifar import CIFAR10
from oddone.errors import ArtifactError
from oddone.evaluation import as_json, evaluate_scores
from records import made_up_record, with_classes


@pytest.mark.parametrize("table", TABLES)
def test_a_record_comes_back_as_it_was_written(toys: Toys, table: str, tmp_path: Path) -> None:
    record = toys.records[table]
    path = write_record(tmp_path, record)
    assert read_record(path) == record
    assert path.name.endswith(f"-bench-{table}-toy.json")


def test_a_record_says_how_it_came_about(toys: Toys) -> None:
    record = toys.records["paper-mcl"]
    assert record.command == "oddone bench"
    assert record.data.training.images == 60
    assert record.data.oods["svhn"] == ImagesRecord(12, 12, "tiny2")
    assert record.machine.threads >= 1
    assert set(record.versions) == {"python", "oddone", "torch", "numpy", "scikit-learn"}
    by_key = {model.key: model for model in record.models}
    fine_tuned = next(model for model in record.models if model.name == "SimCLR, fine-tuned")
    assert by_key[fine_tuned.start or ""].name == "SimCLR"
    assert {model.steps for model in record.models} == {2}
    assert record.minutes == pytest.approx(sum(model.minutes for model in record.models))


def test_a_result_holds_all_that_an_evaluation_says_but_of_classes() -> None:
    half = torch.arange(8.0)
    evaluation = evaluate_scores(
        half, {"svhn": half + 3}, accuracy=0.5, threshold=5.0, averages={"far": ["svhn"]}
    )
    result = asdict(ResultRecord.of(evaluation))
    expected = as_json(evaluation)
    assert expected.pop("classes") == expected["oods"]["svhn"].pop("classes") == {}
    assert expected["oods"]["svhn"].pop("taken_for") == {}
    assert json.loads(json.dumps(result)) == expected


def test_the_paper_is_compared_with_only_where_cifar10_was_learned() -> None:
    record = made_up_record("paper-mcl")
    row, column = record.rows[0], Column("accuracy")
    assert record.paper_number(row, column) == 93.61
    others = with_classes(record, "garment", *CIFAR10.classes[1:])
    assert others.paper_number(row, column) is None


def without_rows(content: dict[str, Any]) -> None:
    content["rows"] = []


def other_table(content: dict[str, Any]) -> None:
    content["table"] = "paper-9"


def more_seeds(content: dict[str, Any]) -> None:
    content["seeds"] = 2


def no_seeds(content: dict[str, Any]) -> None:
    content["seeds"] = 0
    for row in content["rows"]:
        row["results"] = []


def other_averages(content: dict[str, Any]) -> None:
    metrics = dict(content["rows"][0]["results"][0]["oods"]["svhn"])
    del metrics["images"]
    content["rows"][0]["results"][0]["averages"]["near"] = {"members": ["svhn"], **metrics}


def above_one(content: dict[str, Any]) -> None:
    content["rows"][0]["results"][0]["oods"]["svhn"]["auroc"] = 1.5


def not_a_number(content: dict[str, Any]) -> None:
    content["rows"][0]["results"][0]["accuracy"] = float("nan")


def infinite(content: dict[str, Any]) -> None:
    content["minutes"] = float("inf")


def a_bool(content: dict[str, Any]) -> None:
    content["seeds"] = True


def steering(content: dict[str, Any]) -> None:
    content["rows"][0]["names"] = ["\x1b[2J"]


def steering_by_a_key(content: dict[str, Any]) -> None:
    content["versions"]["\x1b[2J"] = "1"


def steering_in_settings(content: dict[str, Any]) -> None:
    content["models"][0]["settings"] = {"loss": {"beta": ["\u202e"]}}


def one_name_more(content: dict[str, Any]) -> None:
    content["rows"][0]["names"].append("twice")


def missing_set(content: dict[str, Any]) -> None:
    del content["rows"][0]["results"][0]["oods"]["svhn"]


def missing_entry(content: dict[str, Any]) -> None:
    del content["machine"]


def unknown_entry(content: dict[str, Any]) -> None:
    content["machine"]["owner"] = "somebody"


def unknown_metric(content: dict[str, Any]) -> None:
    content["rows"][0]["results"][0]["oods"]["svhn"]["caught"] = None


def nested(content: dict[str, Any]) -> None:
    settings = content["models"][0]["settings"]
    for _ in range(500):
        settings["more"] = settings = {}


def other_kind(content: dict[str, Any]) -> None:
    content["kind"] = "recipe"


def later_format(content: dict[str, Any]) -> None:
    content["format"] = 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_rows, "it has no rows"),
        (other_table, "there is no table 'paper-9', only paper-main"),
        (more_seeds, "has 1 results for 2 seeds"),
        (no_seeds, "it has 0 seeds"),
        (other_averages, "has other averages of OOD sets than the first row"),
        (above_one, r"Expected `float` <= 1.0 - at `$.rows[0].results[0].oods[...].auroc`"),
        (not_a_number, "is no JSON"),
        (infinite, "is no JSON"),
        (a_bool, "Expected `int`, got `bool` - at `$.seeds`"),
        (steering, r"rows.0.names.0 holds '\x1b[2J', which is not printable"),
        (steering_by_a_key, r"versions holds '\x1b[2J', which is not printable"),
        (steering_in_settings, r"settings.loss.beta.0 holds '\u202e', which is not printable"),
        (one_name_more, "has 2 names, not 1"),
        (missing_set, "has not been measured on cifar100, svhn"),
        (missing_entry, "Object missing required field `machine`"),
        (unknown_entry, "machine.owner is no part of a record"),
        (unknown_metric, "rows.0.results.0.oods.svhn.caught is no part of a record"),
        (nested, "is nested deeper than any record of oddone bench"),
        (other_kind, "is no record of oddone bench"),
        (later_format, "has format 3, and this oddone reads 2"),
    ],
)
def test_a_record_that_is_not_right_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    path = write_record(tmp_path, made_up_record("paper-mcl", "svhn", "cifar100"))
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match=re.escape(message)):
        read_record(path)


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    with pytest.raises(ArtifactError, match="cannot be read: No such file"):
        read_record(path)
    for content, message in (
        (b"\xff", "is no JSON"),
        (b"{", "is no JSON"),
        (b'"\xff"', "is no JSON"),
        (b"[" * 100_000, "is nested deeper than any record"),
        (b"[]", "is no record of oddone bench"),
    ):
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match=message):
            read_record(path)


def test_a_file_larger_than_any_record_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddone.bench.record.LARGEST", 3)
    path = tmp_path / "record.json"
    path.write_text("{   }")
    with pytest.raises(ArtifactError, match="has 5 bytes, more than any record"):
        read_record(path)
