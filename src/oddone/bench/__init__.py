"""The paper's tables, filled again: `oddone bench`."""

from oddone.bench.recipes import Scale, cpu_scale, paper_scale
from oddone.bench.record import Record, read_record, write_record
from oddone.bench.rendering import as_csv, as_markdown, for_terminal
from oddone.bench.runner import Bench, Stopped
from oddone.bench.sets import Sample, Sets, find_sets, sample
from oddone.bench.tables import TABLES, Table

__all__ = [
    "TABLES",
    "Bench",
    "Record",
    "Sample",
    "Scale",
    "Sets",
    "Stopped",
    "Table",
    "as_csv",
    "as_markdown",
    "cpu_scale",
    "find_sets",
    "for_terminal",
    "paper_scale",
    "read_record",
    "sample",
    "write_record",
]
