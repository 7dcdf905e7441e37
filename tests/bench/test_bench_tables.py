"""The tables have the paper's rows, columns and numbers."""

import re
from pathlib import Path

import pytest

from oddone.bench.tables import TABLES, Column, Row, Table

TEX = Path(__file__).parents[3] / "shared" / "paper" / "masked-contrastive-learning.tex"
LABELS = {
    "paper-main": "result-main",
    "paper-supclr": "result-main-cifar100",
    "paper-mcl": "result-ablation-overall",
    "paper-sei": "result-ablation-sei",
    "paper-aux": "appendix-result-ablation-sei",
    "paper-sei-metrics": "appendix-result-ablation-sei2",
    "paper-mcl-metrics": "appendix-result-ablation-overall",
}
KNOWN_MISPRINT = {"paper-mcl": {(94.35, 89.49): (94.35, 90.49)}}


def printed_rows(label: str) -> list[tuple[float | None, ...]]:
    """Return the numbers of a table as the paper prints them, row by row."""
    tables = re.findall(r"\\begin\{table.*?\\end\{table", TEX.read_text(), flags=re.DOTALL)
    table = next(text for text in tables if f"\\label{{tab:{label}}}" in text)
    bare = re.sub(r"\\textbf\{([^{}]*)\}", r"\1", table)
    lines = [re.split(r"&", line) for line in bare.split(r"\\")]
    found = []
    for cells in lines:
        numbers = [
            float(cell) if re.fullmatch(r"[\d.]+", cell.strip()) else None
            for cell in cells
            if re.fullmatch(r"[\d.]+|-", cell.strip())
        ]
        if sum(number is not None for number in numbers) >= 2:
            found.append(tuple(numbers))
    return found


@pytest.mark.skipif(not TEX.is_file(), reason="the paper is not here")
@pytest.mark.parametrize("name", LABELS)
def test_all_numbers_are_those_of_the_paper_row_by_row(name: str) -> None:
    table = TABLES[name]
    misprints = KNOWN_MISPRINT.get(name, {})
    width = len(table.columns)
    printed = [misprints.get(row[-width:], row[-width:]) for row in printed_rows(LABELS[name])]
    ours = [row.paper for row in table.rows if row.paper]
    assert sorted(ours, key=repr) == sorted(printed, key=repr)


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
    asked = [(row.recipe, row.scoring) for row in table.rows]
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
