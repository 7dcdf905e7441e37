"""Records of benches without a bench: the rows of a table, with numbers that are made up."""

from oddone.bench import TABLES, Record
from oddone.bench.record import ModelRecord, RowRecord
from oddone.data.cifar import CIFAR10
from oddone.evaluation import Evaluation, OODMetrics, OODResult, as_json


def made_up_record(table: str = "paper-sei", *oods: str, seeds: int = 1) -> Record:
    """Return a record in which each row is better than the one before, and so is each seed."""
    names = oods or ("cifar100", "textures")
    rows = tuple(
        RowRecord(
            row.names,
            row.model.name,
            row.how.words,
            tuple(
                as_json(_evaluation(0.5 + 0.01 * place + 0.05 * seed, names))
                for seed in range(seeds)
            ),
        )
        for place, row in enumerate(TABLES[table].rows)
    )
    about = {"images": 1_000, "of": 10_000, "fingerprint": "made-up"}
    return Record(
        table=table,
        scale="cpu",
        scale_words="a small network",
        seeds=seeds,
        date="2026-11-16T01:02:03+00:00",
        command=f"oddone bench {table}",
        minutes=2.5,
        machine={"system": "Linux", "processor": "Abacus", "threads": 2, "gpu": None},
        versions={"oddone": "0.1.0", "torch": "2.13.0"},
        data={
            "training": {**about, "images": 50_000, "classes": list(CIFAR10.classes)},
            "test": about,
            "oods": dict.fromkeys(names, about),
            "outliers": None,
        },
        models=(
            ModelRecord("key-of-simclr", "SimCLR", None, {}, 1_200, 1.0),
            ModelRecord("key-of-tuned", "SimCLR, fine-tuned", "key-of-simclr", {}, 700, 1.5),
        ),
        rows=rows,
        left_out=("SVHN: no such images were given",),
    )


def _evaluation(share: float, oods: tuple[str, ...]) -> Evaluation:
    metrics = OODMetrics(share, 1 - share, 1 - share, share, share)
    return Evaluation(
        1_000, share + 0.1, None, {name: OODResult(1_000, None, metrics) for name in oods}, {}
    )
