"""Fill a table: train each network it needs once, then let every row score the same images."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oddone.bench.recipes import Plan, Scale, plan
from oddone.bench.record import Filled, NetworkRecord, ResultRecord, RowRecord
from oddone.bench.scoring import ScoringRule, VerdictsBySet, score_sets
from oddone.bench.sets import TEST, BenchImages
from oddone.bench.tables import OOD_NAMES, Row, Table
from oddone.device import choose_device
from oddone.encoders import load_network
from oddone.errors import DataError, SettingsError
from oddone.evaluation import (
    Evaluation,
    ScoredSet,
    as_openood_csv,
    evaluate_verdicts,
)
from oddone.files import write_atomic
from oddone.progress import Progress, silent
from oddone.training import (
    Outcome,
    RunDirectory,
    TrainSettings,
    train_network,
)
from oddone.training.settings_file import to_dict


class Interrupted(Exception):  # noqa: N818  (not an error: the user wants it)
    """The user pressed Ctrl-C while a network was trained; its run keeps what it has learned."""


Train = Callable[..., Outcome]
"""How a network is trained: `oddone.training.train_network`, or that with a progress bar."""


@dataclass(frozen=True, eq=False)
class Bench:
    """Where tables are filled, with what, and who is told of it."""

    folder: Path
    sets: BenchImages
    scale: Scale
    train: Train = train_network
    provenance: Callable[[TrainSettings], Mapping[str, Any]] = lambda _: {}
    """What to write beside a network, for who finds it."""
    announce: Callable[[str], None] = lambda _: None
    progress: Progress = silent

    def fill(self, table: Table, seeds: int = 1) -> Filled:
        """Return the numbers of a table; networks in the folder are not trained again."""
        rows, left_out = self._possible(table)
        plans = {
            (row.recipe, seed): plan(row.recipe, self.scale, seed)
            for seed in range(seeds)
            for row in rows
        }
        trained = self._trained(plans.values())
        results: dict[tuple[str, ...], list[ResultRecord]] = {row.names: [] for row in rows}
        for seed in range(seeds):
            verdicts = self._scored(rows, {row: plans[row.recipe, seed] for row in rows})
            for row in rows:
                evaluation = self._evaluated(table, verdicts[row])
                results[row.names].append(ResultRecord.of(evaluation))
                if table.averages:
                    self._write_openood(table, row, seed, evaluation)
        return Filled(
            tuple(trained.values()),
            tuple(
                RowRecord(
                    row.names, row.recipe.name, row.scoring.description, tuple(results[row.names])
                )
                for row in rows
            ),
            left_out,
        )

    def key(self, wanted: Plan) -> str:
        """Return the name of a network, which follows from all that decides what it learns."""
        outliers = self.sets.outliers if wanted.outliers else None
        decisive = {
            "settings": to_dict(wanted.settings),
            "data": self.sets.training.fingerprint,
            "start": None if wanted.start is None else self.key(wanted.start),
            "outliers": None if outliers is None else outliers.fingerprint,
        }
        text = json.dumps(decisive, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def run_of(self, wanted: Plan) -> RunDirectory:
        """Return the directory of a network, in which it may not be finished yet."""
        return RunDirectory(self.folder / "models" / self.key(wanted))

    def _possible(self, table: Table) -> tuple[list[Row], tuple[str, ...]]:
        """Return the rows that can be filled, and what is left out."""
        if not self.sets.oods:
            raise DataError("there are 0 OOD sets to measure with; add one with --ood NAME=SOURCE")
        for average in table.averages or {}:
            if average in self.sets.oods:
                raise SettingsError(
                    f"--ood {average}=...: that is an average over sets; choose another name"
                )
        exposed = self.sets.outliers is not None
        rows = [row for row in table.rows if exposed or not row.recipe.outliers]
        missing = dict.fromkeys(
            column.of
            for column in table.columns
            if column.of is not None
            and column.of not in self.sets.oods
            and not self._members(table, column.of)
        )
        reasons = [f"{OOD_NAMES.get(name, name)}: no such images were given" for name in missing]
        reasons += [
            f"{' '.join(row.names)}: no outliers to train on were given"
            for row in table.rows
            if row not in rows
        ]
        return rows, tuple(reasons)

    def _members(self, table: Table, average: str) -> tuple[str, ...]:
        """Return which OOD sets of an average there are."""
        members = (table.averages or {}).get(average, ())
        return tuple(name for name in members if name in self.sets.oods)

    def _trained(self, plans: Iterable[Plan]) -> dict[str, NetworkRecord]:
        """Train what has not been trained yet; return what there is then to know of each."""
        in_order: dict[str, Plan] = {}
        for wanted in plans:
            for each in (wanted.start, wanted):
                if each is not None:
                    in_order.setdefault(self.key(each), each)
        for number, wanted in enumerate(in_order.values(), start=1):
            run = self.run_of(wanted)
            if not run.encoder_path.is_file():
                where = f"network {number} of {len(in_order)}"
                seed = wanted.settings.seed
                self.announce(f"{where}: {wanted.name}, seed {seed}, in {run.path}")
                self._train(wanted, run)
        return {key: self._described(key, wanted) for key, wanted in in_order.items()}

    def _train(self, wanted: Plan, run: RunDirectory) -> None:
        if not RunDirectory.exists(run.path):
            if run.path.exists():  # it ended before it began
                run.remove()
            RunDirectory.create(run.path, wanted.settings, self.provenance(wanted.settings))
        start = (
            None if wanted.start is None else load_network(self.run_of(wanted.start).encoder_path)
        )
        outliers = self.sets.outliers if wanted.outliers else None
        outcome = self.train(
            self.sets.training, wanted.settings, run, start=start, outliers=outliers
        )
        if outcome.stopped or not outcome.finished:
            raise Interrupted

    def _described(self, key: str, wanted: Plan) -> NetworkRecord:
        run = self.run_of(wanted)
        last: dict[str, Any] = next(reversed(list(run.history())), {})
        if "seconds" not in last:
            raise DataError(
                f"the history of {run.path} is damaged; remove that folder, to train anew"
            )
        return NetworkRecord(
            key,
            wanted.name,
            None if wanted.start is None else self.key(wanted.start),
            to_dict(wanted.settings),
            last["step"],
            round(last["seconds"] / 60, 2),
        )

    def _scored(self, rows: list[Row], plans: Mapping[Row, Plan]) -> dict[Row, VerdictsBySet]:
        """Return the verdicts of each row on the images; each network sees them once."""
        sets = {TEST: self.sets.test.images} | {
            name: sample.images for name, sample in self.sets.oods.items()
        }
        verdicts: dict[Row, VerdictsBySet] = {}
        for key in dict.fromkeys(map(self.key, plans.values())):
            own = [row for row in rows if self.key(plans[row]) == key]
            trained = load_network(self.run_of(plans[own[0]]).encoder_path)
            wanted = plans[own[0]]
            trained = trained.to(choose_device(wanted.settings.device))
            self.announce(f"scoring by {wanted.name}, seed {wanted.settings.seed}")
            rules: list[ScoringRule] = list(dict.fromkeys(row.scoring for row in own))
            by_rule = score_sets(trained, self.sets.training, sets, rules, self.progress)
            verdicts |= {row: by_rule[row.scoring] for row in own}
        return verdicts

    def _evaluated(self, table: Table, verdicts: VerdictsBySet) -> Evaluation:
        members = {name: self._members(table, name) for name in table.averages or {}}
        return evaluate_verdicts(
            ScoredSet(self.sets.test.images, verdicts[TEST]),
            {
                name: ScoredSet(sample.images, verdicts[name])
                for name, sample in self.sets.oods.items()
            },
            classes=self.sets.training.classes,
            averages={name: sets for name, sets in members.items() if sets},
        )

    def _write_openood(self, table: Table, row: Row, seed: int, evaluation: Evaluation) -> None:
        """Write the row's own file, as OpenOOD does."""
        folder = self.folder / table.name
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"\W+", "-", " ".join(row.names).lower())
        write_atomic(folder / f"{name}-seed{seed}.csv", as_openood_csv(evaluation).encode())
