"""The paper's tables, filled again: `oddone bench`."""

from oddone.bench.recipes import Scale, cpu_scale, paper_scale, scaling_scale
from oddone.bench.record import Record, read_record, write_record
from oddone.bench.rendering import as_csv, as_markdown, for_terminal
from oddone.bench.runner import Bench, Interrupted
from oddone.bench.sets import BenchImages, ImageSample, find_sets, sample
from oddone.bench.tables import TABLES, Table

__all__ = [
    "TABLES",
    "Bench",
    "BenchImages",
    "ImageSample",
    "Interrupted",
    "Record",
    "Scale",
    "Table",
    "as_csv",
    "as_markdown",
    "cpu_scale",
    "find_sets",
    "for_terminal",
    "paper_scale",
    "read_record",
    "sample",
    "scaling_scale",
    "write_record",
]
