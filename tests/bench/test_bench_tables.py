"""The tables have the paper's rows, columns and numbers."""

import json
from pathlib import Path

import pytest

from oddone.bench.tables import TABLES, Column, Row, Table

PRINTED: dict[str, list[list[float | None]]] = json.loads(
    Path(__file__).with_name("paper_tables.json").read_text()
)
"""The numbers of the paper's tables, row by row, as they are printed."""
KNOWN_MISPRINT = {"paper-mcl": {(94.35, 89.49): (94.35, 90.49)}}


@pytest.mark.parametrize("name", PRINTED)
def test_all_numbers_are_those_of_the_paper_row_by_row(name: str) -> None:
    misprints = KNOWN_MISPRINT.get(name, {})
    printed = [misprints.get(tuple(row), tuple(row)) for row in PRINTED[name]]
    ours = [row.paper for row in TABLES[name].rows if row.paper]
    assert sorted(ours, key=repr) == sorted(printed, key=repr)


def test_every_table_of_the_paper_is_compared() -> None:
    assert PRINTED.keys() == {name for name in TABLES if name.startswith("paper-")}


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_rows_have_a_name_for_each_heading_and_a_number_for_each_column_or_none(
    table: Table,
) -> None:
    for row in table.rows:
        assert len(row.names) == len(table.headings)
        assert len(row.paper) in {0, len(table.columns)}
    assert len({row.names for row in table.rows}) == len(table.rows)


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_no_two_rows_of_a_table_ask_the_same(table: Table) -> None:
    asked = [(row.recipe, row.scoring, row.minutes) for row in table.rows]
    assert len(set(asked)) == len(asked)


def test_numbers_of_the_same_row_in_several_tables_agree() -> None:
    """But for one that the paper prints as 87.89 and as 87.98."""
    numbers: dict[tuple[object, Column], set[float]] = {}
    for name, table in TABLES.items():
        if table.decimals == 2:
            for row in table.rows:
                collect(numbers, table, row, name)
    differing = {found for found in map(frozenset, numbers.values()) if len(found) > 1}
    assert differing == {frozenset({87.89, 87.98})}


def collect(
    numbers: dict[tuple[object, Column], set[float]], table: Table, row: Row, _: str
) -> None:
    for column in table.columns:
        paper = table.paper_number(row.names, column)
        if paper is not None:
            numbers.setdefault(((row.recipe, row.scoring), column), set()).add(paper)


def test_a_place_that_the_paper_leaves_empty_has_no_number() -> None:
    table = TABLES["paper-main"]
    assert table.paper_number(("Outlier Exposure",), Column("accuracy")) is None
    assert table.paper_number(("Energy",), Column("accuracy")) is None
    assert table.paper_number(("MCL + SEI",), Column("auroc", "textures")) is None
    assert table.paper_number(("MCL + SEI",), Column("auroc", "cifar100")) == 94.0
