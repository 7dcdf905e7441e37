"""Numbers that other records have already, of another machine, another day or another table.

A network is named by a hash of all that decides what it learns (`Bench.key`), so numbers are taken
over only where the same network, to the step, would score the same images in the same way.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oddone.bench.recipes import Plan
from oddone.bench.record import (
    DataRecord,
    EarlierRecord,
    NetworkRecord,
    Record,
    ResultRecord,
    read_record,
)
from oddone.bench.sets import BenchImages
from oddone.bench.step_costs import StepCost, without_length
from oddone.bench.tables import TABLES, Row, Table
from oddone.errors import DataError, SettingsError
from oddone.training.settings_file import to_dict


@dataclass(frozen=True)
class EarlierRecords:
    """Records whose numbers need not be measured again."""

    records: tuple[Record, ...] = ()

    @staticmethod
    def read(paths: Iterable[Path], table: Table, sets: BenchImages) -> "EarlierRecords":
        """Return the records in some files, if this table can have their numbers."""
        records = {path: read_record(path) for path in paths}
        for path, record in records.items():
            if TABLES[record.table].averages != table.averages:
                raise SettingsError(
                    f"--earlier {path}: the table {record.table} has not the same averages over "
                    f"OOD sets as {table.name}; name a record of {table.name}"
                )
            if not any(row.keys for row in record.rows):
                raise DataError(
                    f"--earlier {path}: it is of an older oddone, and does not say which networks "
                    f"its numbers are of; leave it out"
                )
            _check_images(path, record.data, DataRecord.of(sets))
        return EarlierRecords(tuple(records.values()))

    def result(self, row: Row, key: str) -> ResultRecord | None:
        """Return what a row's scoring by a network gave, if a record says it."""
        return next((result for _, result in self._results(row, key)), None)

    def _results(self, row: Row, key: str) -> Iterator[tuple[Record, ResultRecord]]:
        """Yield what a row's scoring by a network gave, by each record that says it."""
        for record in self.records:
            for found in record.rows:
                if found.scoring == row.scoring.description and key in found.keys:
                    yield record, found.results[found.keys.index(key)]

    def networks(self, keys: Iterable[str]) -> list[NetworkRecord]:
        """Return what is said of some networks, each after that which it was started from."""
        told = {network.key: network for record in self.records for network in record.models}
        networks: dict[str, NetworkRecord] = {}
        for network in (told[key] for key in keys if key in told):
            if network.start in told:
                networks.setdefault(network.start, told[network.start])
            networks.setdefault(network.key, network)
        return list(networks.values())

    def step_cost(self, wanted: Plan) -> StepCost | None:
        """Return what a step of a plan cost where a record was made, if it says so."""
        settings = _as_text(to_dict(wanted.settings))
        costs = {
            network.step_seconds: StepCost(
                wanted.name, network.step_seconds, record.machine.processor, record.date
            )
            for record in self.records
            for network in record.models
            if network.step_seconds is not None
            and network.name == wanted.name
            and _as_text(network.settings) == settings
        }
        if len(costs) > 1:
            told = " and ".join(f"{seconds:.3g}" for seconds in costs)
            raise SettingsError(
                f"the earlier records measured {told} seconds for a step of {wanted.name}, so that "
                f"their minutes are not the same; leave one of them out"
            )
        return next(iter(costs.values()), None)

    def origins(self, taken_over: Iterable[tuple[Row, str]]) -> tuple[EarlierRecord, ...]:
        """Return where the results of some rows by some networks come from.

        These are the records that say them, and those that these have taken numbers over from.
        """
        origins: dict[EarlierRecord, None] = {}
        for row, key in taken_over:
            record, _ = next(self._results(row, key))
            own = EarlierRecord(record.date, record.command, record.machine)
            origins |= dict.fromkeys((*record.earlier, own))
        return tuple(origins)


NONE_EARLIER = EarlierRecords()


def _as_text(settings: Mapping[str, Any]) -> str:
    """Return what decides the cost of a step, the same for settings that were read from a file."""
    return json.dumps(without_length(settings), sort_keys=True)


def _check_images(path: Path, theirs: DataRecord, ours: DataRecord) -> None:
    """Raise a DataError where a record was measured on other images."""
    pairs = {
        "training images": (theirs.training, ours.training),
        "test images": (theirs.test, ours.test),
    } | {
        name: (theirs.oods.get(name), ours.oods.get(name))
        for name in dict.fromkeys((*theirs.oods, *ours.oods))
    }
    different = [name for name, (one, other) in pairs.items() if one != other]
    if different:
        raise DataError(
            f"--earlier {path}: it was measured on other images ({', '.join(different)}); give the "
            f"same --ind, --test, --ood and --limit, or leave it out"
        )
