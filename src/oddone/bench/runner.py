"""Fill a table: train each network it needs once, then let every row score the same images."""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from oddone.bench.earlier import NONE_EARLIER, EarlierRecords
from oddone.bench.recipes import Plan, Scale, plan
from oddone.bench.record import Filled, NetworkRecord, ResultRecord, RowRecord
from oddone.bench.scoring import AsTrained, ScoringRule, VerdictsBySet, score_sets
from oddone.bench.sets import TEST, BenchImages
from oddone.bench.step_costs import Measure, StepCosts, in_steps, measure_step
from oddone.bench.tables import EVERY_SET, OOD_NAMES, OPENOOD, Row, Table
from oddone.device import choose_device
from oddone.encoders import load_network
from oddone.errors import DataError, InUseError, SettingsError
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
    measure: Measure = measure_step
    """How the cost of a step is found, where budgets are in minutes."""
    earlier: EarlierRecords = NONE_EARLIER
    """Records whose numbers are taken over, so that their networks need not be trained here."""

    def fill(self, table: Table, seeds: int = 1, *, train_missing: bool = True) -> Filled:
        """Return the numbers of a table; networks in the folder are not trained again.

        Rows whose network is not there are left out: where none is to be trained, or while another
        process trains it.
        """
        rows, left_out = self._possible(table)
        plans = self._plans(rows, seeds, train_missing=train_missing)
        results = self._taken_over(plans)
        taken_over = [(row, self.key(plans[row, seed])) for row, seed in results]
        missing = {key: wanted for key, wanted in plans.items() if key not in results}
        if train_missing:
            self._train_missing(missing.values())
        there = {key: wanted for key, wanted in missing.items() if self._is_trained(wanted)}
        if not there and not results:
            raise DataError(
                f"none of the networks of {table.name} is trained yet; let them be trained, or "
                f"wait for the process that trains them"
            )
        for seed in range(seeds):
            of_seed = {row: there[row, seed] for row in rows if (row, seed) in there}
            for row, verdicts in self._scored(of_seed).items():
                evaluation = self._evaluated(table, verdicts)
                results[row, seed] = ResultRecord.of(evaluation)
                if table.name == OPENOOD.name:
                    self._write_openood(table, row, seed, evaluation)
        networks = (
            *self.earlier.networks(key for _, key in taken_over),
            *self._networks(there.values()),
        )
        return Filled(
            tuple({network.key: network for network in networks}.values()),
            tuple(self._with_numbers(rows, plans, results)),
            left_out + tuple(_untrained(rows, seeds, results)),
            self.earlier.origins(taken_over),
        )

    def _with_numbers(
        self,
        rows: Iterable[Row],
        plans: Mapping[tuple[Row, int], Plan],
        results: Mapping[tuple[Row, int], ResultRecord],
    ) -> Iterator[RowRecord]:
        """Yield each row that has numbers, with those of all seeds that have."""
        for row in rows:
            measured = sorted((each for each in results if each[0] == row), key=itemgetter(1))
            if measured:
                yield RowRecord(
                    row.names,
                    row.recipe.name,
                    row.scoring.description,
                    tuple(results[each] for each in measured),
                    row.minutes,
                    tuple(self.key(plans[each]) for each in measured),
                )

    def planned(self, row: Row, seed: int) -> Plan:
        """Return the network of a row; its length may be in minutes."""
        wanted = plan(row.recipe, self.scale, seed)
        if row.minutes is None:
            return wanted
        settings = replace(wanted.settings, minutes=row.minutes, steps=None, epochs=None)
        return wanted._replace(settings=settings)

    def in_steps(self, wanted: Plan) -> Plan | None:
        """Return a plan whose length is no longer in minutes; None if its cost is not known."""
        start = None if wanted.start is None else self.in_steps(wanted.start)
        if wanted.start is not None and start is None:
            return None
        if wanted.settings.minutes is None:
            return wanted._replace(start=start)
        cost = self._costs.known(wanted)
        if cost is None:
            return None
        return wanted._replace(settings=in_steps(wanted.settings, cost), start=start)

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
        if members == EVERY_SET:
            return tuple(self.sets.oods)
        return tuple(name for name in members if name in self.sets.oods)

    @property
    def _costs(self) -> StepCosts:
        sets = self.sets
        return StepCosts(self.folder / "step_costs", sets.training, sets.outliers, self.measure)

    def _plans(
        self, rows: list[Row], seeds: int, *, train_missing: bool
    ) -> dict[tuple[Row, int], Plan]:
        """Return the network of each row and seed, in steps; without those of unknown cost.

        The shortest come first, so that there is soon something to see.
        """
        by_length = sorted(rows, key=lambda row: row.minutes or 0)
        wanted = {
            (row, seed): self.planned(row, seed) for seed in range(seeds) for row in by_length
        }
        by_minutes = [
            each for each in _in_order(wanted.values()) if each.settings.minutes is not None
        ]
        for each in by_minutes:
            cost = self.earlier.step_cost(each)
            if cost is not None:
                self._costs.adopt(each, cost)
        if train_missing:
            self._costs.find(by_minutes, self.announce)
        in_steps = {key: self.in_steps(each) for key, each in wanted.items()}
        return {key: each for key, each in in_steps.items() if each is not None}

    def _taken_over(
        self, plans: Mapping[tuple[Row, int], Plan]
    ) -> dict[tuple[Row, int], ResultRecord]:
        """Return the numbers that earlier records have, by row and seed."""
        found = {key: self.earlier.result(key[0], self.key(plans[key])) for key in plans}
        results = {key: result for key, result in found.items() if result is not None}
        if self.earlier.records:
            told = f"{len(results)} of {len(plans)} results"
            self.announce(f"taken over from earlier records: {told}")
        return results

    def _train_missing(self, plans: Iterable[Plan]) -> None:
        """Train what has not been trained yet, but for what another process trains now."""
        by_key = {self.key(each): each for each in _in_order(plans)}
        for number, wanted in enumerate(by_key.values(), start=1):
            run = self.run_of(wanted)
            if self._is_trained(wanted) or not self._is_trained(wanted.start):
                continue
            where = f"network {number} of {len(by_key)}"
            self.announce(f"{where}: {wanted.name}, seed {wanted.settings.seed}, in {run.path}")
            try:
                self._train(wanted, run)
            except InUseError:
                self.announce(f"{where}: another process trains it, so it is left out for now")

    def _is_trained(self, wanted: Plan | None) -> bool:
        """Return whether a network is there; what nothing is started from always is."""
        return wanted is None or self.run_of(wanted).encoder_path.is_file()

    def _networks(self, plans: Iterable[Plan]) -> tuple[NetworkRecord, ...]:
        """Return what there is to know of some networks, and of those they were started from."""
        by_key = {self.key(each): each for each in _in_order(plans)}
        return tuple(self._described(key, each) for key, each in by_key.items())

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
        processor_seconds, cost = last.get("processor_seconds"), self._costs.known(wanted)
        return NetworkRecord(
            key,
            wanted.name,
            None if wanted.start is None else self.key(wanted.start),
            to_dict(wanted.settings),
            last["step"],
            round(last["seconds"] / 60, 2),
            None if processor_seconds is None else round(processor_seconds / 60, 2),
            None if cost is None else cost.processor_seconds,
        )

    def _scored(self, plans: Mapping[Row, Plan]) -> dict[Row, VerdictsBySet]:
        """Return the verdicts of each row on the images; each network sees them once."""
        sets = {TEST: self.sets.test.images} | {
            name: sample.images for name, sample in self.sets.oods.items()
        }
        verdicts: dict[Row, VerdictsBySet] = {}
        for key in dict.fromkeys(map(self.key, plans.values())):
            own = [row for row in plans if self.key(plans[row]) == key]
            wanted = plans[own[0]]
            run = self.run_of(wanted)
            trained = load_network(run.encoder_path).to(choose_device(wanted.settings.device))
            self.announce(f"scoring by {wanted.name}, seed {wanted.settings.seed}")
            rules: dict[ScoringRule | AsTrained, ScoringRule] = {
                rule: rule.of(run) if isinstance(rule, AsTrained) else rule
                for rule in (row.scoring for row in own)
            }
            by_rule = score_sets(
                trained, self.sets.training, sets, list(rules.values()), self.progress
            )
            verdicts |= {row: by_rule[rules[row.scoring]] for row in own}
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


def _in_order(plans: Iterable[Plan]) -> Iterator[Plan]:
    """Yield each plan after that of the network it starts from."""
    for wanted in plans:
        if wanted.start is not None:
            yield wanted.start
        yield wanted


def _untrained(rows: list[Row], seeds: int, there: Collection[tuple[Row, int]]) -> Iterator[str]:
    """Yield for each row which of its networks are not there."""
    for row in rows:
        missing = [str(seed) for seed in range(seeds) if (row, seed) not in there]
        if missing:
            which = f"seed{'s' * (len(missing) > 1)} {', '.join(missing)}"
            yield f"{' '.join(row.names)}: {which} not trained yet"
