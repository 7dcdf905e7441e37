"""Records of benches without a bench: the rows of a table, with numbers that are made up."""

from dataclasses import replace

from oddone.bench import TABLES, Record
from oddone.bench.record import (
    DataRecord,
    ImagesRecord,
    NetworkRecord,
    ResultRecord,
    RowRecord,
    TrainingImagesRecord,
)
from oddone.bench.tables import EVERY_SET
from oddone.data.cifar import CIFAR10
from oddone.evaluation import (
    AverageResult,
    Averages,
    Evaluation,
    OODMetrics,
    OODResult,
    OpenOODAupr,
)
from oddone.provenance import Machine


def made_up_record(table: str = "paper-sei", *oods: str, seeds: int = 1) -> Record:
    """Return a record in which each row is better than the one before, and so is each seed."""
    names = oods or ("cifar100", "textures")
    rows = tuple(
        RowRecord(
            row.names,
            row.recipe.name,
            row.scoring.description,
            tuple(
                ResultRecord.of(
                    _evaluation(0.5 + 0.01 * place + 0.05 * seed, names, TABLES[table].averages)
                )
                for seed in range(seeds)
            ),
            row.minutes,
        )
        for place, row in enumerate(TABLES[table].rows)
    )
    images = ImagesRecord(1_000, 10_000, "made-up")
    return Record(
        table=table,
        scale="cpu",
        scale_words="a small network",
        seeds=seeds,
        date="2026-11-16T01:02:03+00:00",
        command=f"oddone bench {table}",
        minutes=2.5,
        machine=Machine("Linux", "Abacus", threads=2, gpu=None),
        versions={"oddone": "0.1.0", "torch": "2.13.0"},
        data=DataRecord(
            TrainingImagesRecord(50_000, 50_000, "made-up", CIFAR10.classes),
            test=images,
            oods=dict.fromkeys(names, images),
            outliers=None,
        ),
        models=(
            NetworkRecord("key-of-simclr", "SimCLR", None, {}, 1_200, 1.0),
            NetworkRecord("key-of-tuned", "SimCLR, fine-tuned", "key-of-simclr", {}, 700, 1.5),
        ),
        rows=rows,
        left_out=("SVHN: no such images were given",),
    )


def with_classes(record: Record, *classes: str) -> Record:
    """Return a record of a bench that was trained on these classes."""
    training = replace(record.data.training, classes=classes)
    return replace(record, data=replace(record.data, training=training))


def _evaluation(share: float, oods: tuple[str, ...], averages: Averages | None) -> Evaluation:
    metrics = OODMetrics(share, 1 - share, 1 - share, share, share)
    aupr = OpenOODAupr(share, share)
    result = OODResult(1_000, None, metrics, aupr)
    means = {
        name: AverageResult(oods, None, metrics, aupr)
        for name, members in (averages or {}).items()
        if members == EVERY_SET
    }
    return Evaluation(1_000, share + 0.1, None, dict.fromkeys(oods, result), means)
