"""Write the newest records of results/ as the tables of README.md and of pages of docs/."""

from functools import partial
from pathlib import Path

from engines_table import costs_table, engines_table, first_verdict_table
from pages import (
    PERFORMANCE,
    README,
    RELIABILITY,
    SCALE,
    SERVICE,
    all_records,
    by_date,
    link_from,
    newest,
)
from parity_table import parity_table
from quality_tables import (
    demo_table,
    estimates_table,
    many_photographs_table,
    photographs_table,
    quality_table,
    rotations_table,
    rules_table,
    trained_parts_table,
    unseen_classes_table,
)
from reliability_tables import faults_table, soak_table
from scale_tables import chunks_table, loss_of_many_table, two_processes_table
from speed_tables import adaptive_table, export_table, load_table, speed_table

NO_RECORD = "There is no record of `make {}` yet.\n"


def main() -> None:
    """Put the tables into their pages."""
    for page, tables in tables_by_page().items():
        text = page.read_text()
        for name, table in tables.items():
            before, rest = text.split(start_mark(name))
            after = rest.split(end_mark(name))[1]
            text = before + start_mark(name) + table + end_mark(name) + after
        page.write_text(text)


def tables_by_page() -> dict[Path, dict[str, str]]:
    """Return the tables of each page by name, as Markdown."""
    return {
        README: {"photographs": photographs_table(), "demo": demo_table()},
        PERFORMANCE: {
            "rules": rules_table(),
            "unseen classes": unseen_classes_table(),
            "trained parts": trained_parts_table(),
            "rotations": rotations_table(),
            "many photographs": many_photographs_table(),
            "estimates": estimates_table(),
            "quality": quality_table(),
            "adaptive": adaptive_table(),
            "export": export_table(),
            "parity": parity_table(by_date("parity", "quality"), partial(link_from, PERFORMANCE)),
            "speed": speed_table(),
        },
        SCALE: {
            "loss of many processes": loss_of_many_table(),
            "two processes": two_processes_table(),
            "chunks": chunks_table(),
            "engines": engines_table(newest("engines"), partial(link_from, SCALE)),
            "first_verdict": first_verdict_table(
                newest("first_verdict"), partial(link_from, SCALE)
            ),
            "costs": costs_table(
                newest("engines"),
                newest("scoring"),
                newest("decoding"),
                partial(link_from, SCALE),
            ),
        },
        SERVICE: {"load": load_table()},
        RELIABILITY: {
            name: content() if all_records(record, "reliability") else NO_RECORD.format(record)
            for name, record, content in (
                ("faults", "torture", faults_table),
                ("soak", "soak", soak_table),
            )
        },
    }


def start_mark(name: str) -> str:
    """Return the line before a table."""
    return f"<!-- {name}: written by `python benchmarks/table.py`, checked by the tests -->\n"


def end_mark(name: str) -> str:
    """Return the line after a table."""
    return f"<!-- /{name} -->"


if __name__ == "__main__":
    main()
