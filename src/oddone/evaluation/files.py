"""An evaluation as files: JSON, the CSV of OpenOOD, and a CSV with a row for each class."""

import csv
import io
from typing import Any

from oddone.evaluation.results import AverageResult, Evaluation, OODResult

OPENOOD_NAMES = {"tiny_imagenet": "tin", "textures": "texture"}
"""What OpenOOD calls OOD sets that have another name here."""

CLASS_COLUMNS = (
    "kind", "set", "class", "images", "recall", "precision", "anomalous", "AUROC", "taken_for",
    "taken_for_share",
)  # fmt: skip


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the evaluation as what JSON knows."""
    return {
        "images": evaluation.images,
        "accuracy": evaluation.accuracy,
        "false_alarms": evaluation.false_alarms,
        "classes": {name: result._asdict() for name, result in evaluation.classes.items()},
        "oods": {
            name: {
                "images": ood.images,
                "detected": ood.detected,
                **ood.metrics._asdict(),
                "taken_for": dict(ood.taken_for),
                "classes": {each: result._asdict() for each, result in ood.classes.items()},
            }
            for name, ood in evaluation.oods.items()
        },
        "averages": {
            name: {
                "members": list(average.members),
                "detected": average.detected,
                **average.metrics._asdict(),
            }
            for name, average in evaluation.averages.items()
        },
    }


def as_openood_csv(evaluation: Evaluation) -> str:
    """Return the evaluation as OpenOOD writes its ood.csv, in percent.

    An average follows its members as a row: near as `nearood`, far as `farood`. FPR@95 and AUPR
    are OpenOOD's, and so are the names of the sets.
    """
    rest: dict[str, OODResult | AverageResult] = dict(evaluation.oods)
    rows: list[tuple[str, OODResult | AverageResult]] = []
    for name, average in evaluation.averages.items():
        rows.extend((member, rest.pop(member)) for member in average.members if member in rest)
        rows.append((f"{name}ood", average))
    rows.extend(rest.items())
    file = io.StringIO()
    table = csv.writer(file)
    table.writerow(("dataset", "FPR@95", "AUROC", "AUPR_IN", "AUPR_OUT", "ACC"))
    for name, result in rows:
        measured, theirs = result.metrics, result.openood
        shares = (measured.fpr_at_95_ood, measured.auroc, *theirs, evaluation.accuracy)
        table.writerow((OPENOOD_NAMES.get(name, name), *map(_percent, shares)))
    return file.getvalue()


def as_class_csv(evaluation: Evaluation) -> str:
    """Return a row for each class of the test images and of the OOD sets, shares in percent.

    A row without a class is about all images of its set. `anomalous` is the share that is called
    so: false alarms among test images, detected ones among OOD images.
    """
    file = io.StringIO()
    table = csv.writer(file)
    table.writerow(CLASS_COLUMNS)
    known = (evaluation.accuracy, None, evaluation.false_alarms)
    table.writerow(("ind", "test images", "", evaluation.images, *map(_percent, known), "", "", ""))
    for name, (images, *shares) in evaluation.classes.items():
        table.writerow(("ind", "test images", name, images, *map(_percent, shares), "", "", ""))
    for name, ood in evaluation.oods.items():
        for each, result in {"": ood.whole, **ood.classes}.items():
            percents = map(_percent, (result.detected, result.auroc))
            like, share = result.most_like or ("", None)
            row = ("ood", name, each, result.images, "", "", *percents, like, _percent(share))
            table.writerow(row)
    return file.getvalue()


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"
