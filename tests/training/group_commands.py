"""Commands of oddone that the processes of a group run, for `test_group_commands.py`."""

import itertools
import json
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from torch import nn

import oddone.cli
import oddone.cli.fit
import oddone.cli.train
import oddone.encoders.frozen
from oddone import distributed, features
from oddone.provenance import versions
from runs import tiny_source

SIZE = 3
"""How many processes run them."""
TRAIN = ("train", "--out", "{folder}/run", "--preset", "smoke", "--steps", "2")
IMAGES = "arrays:{folder}/0.npz"
OTHER_IMAGES = "arrays:{folder}/{rank}.npz"
COMMANDS = {
    "fit": ("fit", IMAGES, "--size", "16", "--out", "{folder}/all.oddone"),
    "fit on other images": ("fit", OTHER_IMAGES, "--size", "16", "--out", "{folder}/none.oddone"),
    "train on other images": (*TRAIN, OTHER_IMAGES),
    "train by another torch": (*TRAIN, IMAGES),
    "train on too few images": (*TRAIN, IMAGES, "--batch.images", "2"),
}


def write_images(folder: Path, number: int) -> None:
    """Write a file of so many images for each process, no two of which are alike."""
    for rank in range(SIZE):
        source = tiny_source(images=number, seed=rank)
        pixels = source.images.transpose(0, 2, 3, 1)
        np.savez(folder / f"{rank}.npz", images=pixels, labels=source.labels)


def run_commands(folder: Path, ports: Sequence[str]) -> None:
    """Run all commands, each at a port of its own, and write what came of them."""
    rank = os.environ["RANK"]
    for (name, words), port in zip(COMMANDS.items(), ports, strict=True):
        os.environ["MASTER_PORT"] = port
        distributed._turns = itertools.count()  # as in new processes
        sys.argv = ["oddone", *(word.format(folder=folder, rank=rank) for word in words)]
        is_odd = name == "train by another torch" and rank == "2"
        found = _run({"torch": "1.0"} if is_odd else {})
        (folder / f"{name} {rank}.json").write_text(json.dumps(found))


def fast_encoder() -> nn.Module:
    """Return an encoder that takes no time: mean colours of nine fields."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(3), nn.Flatten())


def _run(claimed: dict[str, str]) -> dict[str, Any]:
    """Run a command as `oddone` does, with that encoder, and perhaps with a false version."""
    printed, complained, code = StringIO(), StringIO(), None
    with (
        patch("oddone.cli.fit.check_installed"),
        patch("oddone.encoders.frozen.pretrained_encoder", return_value=fast_encoder()),
        patch("oddone.cli.train.versions", return_value=versions("numpy") | claimed),
        patch.object(features, "process_batches", wraps=features.process_batches) as embed,
        redirect_stdout(printed),
        redirect_stderr(complained),
    ):
        try:
            oddone.cli.main()
        except SystemExit as ended:
            code = ended.code
    return {
        "code": code,
        "printed": printed.getvalue(),
        "complained": complained.getvalue(),
        "embedded": sum(len(call.kwargs["indices"]) for call in embed.call_args_list),
    }
