"""The training loop: survives interruption, and goes on as if nothing had happened."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from oddone.data import ImageSet
from oddone.device import choose_device
from oddone.encoders import Encoded, build_encoder
from oddone.errors import DivergedError
from oddone.losses import count_unpaired
from oddone.rng import stream
from oddone.training.batches import Batches, coloured
from oddone.training.checkpoint import (
    Progress,
    load_checkpoint,
    newest_checkpoint,
    save_checkpoint,
)
from oddone.training.encoder_file import TrainedNetwork, save_network
from oddone.training.fine_tuning import start_from
from oddone.training.objective import Network, Rows, loss_of
from oddone.training.outliers import ExposedBatches
from oddone.training.run_directory import RunDirectory
from oddone.training.schedule import learning_rate
from oddone.training.settings import TrainSettings
from oddone.training.trainable import check_outliers, check_source
from oddone.training.two_threads import TwoThreadNetwork
from oddone.transforms import CroppedViews


class Report(NamedTuple):
    """What a person may want to see after a step."""

    step: int
    share: float
    """How much of the run is done."""
    loss: float
    terms: dict[str, float]
    learning_rate: float
    unpaired: float
    """The share of rows that have nobody to attract in some term."""
    rows: int
    seconds: float
    """How long the run has trained, interruptions left out."""


class Outcome(NamedTuple):
    """How a run ended."""

    finished: bool
    step: int
    seconds: float


def train(  # noqa: PLR0913  (all but three are choices with a default)
    source: ImageSet,
    settings: TrainSettings,
    run: RunDirectory,
    *,
    body: nn.Module | None = None,
    start: TrainedNetwork | None = None,
    outliers: ImageSet | None = None,
    watch: Callable[[Report], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train until the run's length is reached or `stop()` says so; go on from its last checkpoint.

    After every step `watch` gets a `Report`. A finished run leaves `encoder.safetensors`. A `body`
    of your own, from images to features, takes the place of the encoder that the settings name.

    A new run begins with the encoder of `start`; to go on, it needs that no more. `outliers` are
    images of no class that a classifier learns to be undecided about; to go on, give them again.
    """
    check_source(source, settings)
    if outliers is not None:
        check_outliers(outliers, source, settings)
    trainer = _Trainer.start(source, settings, run, body, start=start, outliers=outliers)
    finished = trainer.run_steps(watch, stop)
    if finished:
        save_network(run.encoder, trainer.network, settings, source)
    return Outcome(finished, trainer.step, trainer.seconds)


@dataclass
class _Trainer:
    """The moving parts of a run."""

    settings: TrainSettings
    run: RunDirectory
    batches: Batches | ExposedBatches
    network: Network
    optimiser: torch.optim.SGD
    device: torch.device
    scaler: torch.amp.GradScaler
    step: int
    seconds: float

    @staticmethod
    def start(
        source: ImageSet,
        settings: TrainSettings,
        run: RunDirectory,
        body: nn.Module | None = None,
        *,
        start: TrainedNetwork | None = None,
        outliers: ImageSet | None = None,
    ) -> "_Trainer":
        """Return a trainer at the run's last checkpoint, or at its beginning."""
        device = choose_device(settings.device)
        network = build_network(source, settings, body, start=start).to(device)
        network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        wish = settings.optimiser
        optimiser = torch.optim.SGD(
            network.parameters(),
            lr=wish.learning_rate,
            momentum=wish.momentum,
            nesterov=wish.nesterov,
            weight_decay=wish.weight_decay,
            fused=True,  # one pass over the weights instead of one for every operation
        )
        scaler = torch.amp.GradScaler(device.type, enabled=_autocast(settings, device) == "float16")
        newest = newest_checkpoint(run.checkpoints)
        progress = Progress() if newest is None else load_checkpoint(newest, network, optimiser)
        run.forget_history_after(progress.step)
        if scaler.is_enabled() and newest is not None:
            scaler.load_state_dict({**scaler.state_dict(), "scale": progress.loss_scale})
        if settings.compile:
            network.compile()
        batches = (
            Batches(source, settings)
            if outliers is None
            else ExposedBatches.of(source, outliers, settings)
        )
        trainer = _Trainer(
            settings,
            run,
            batches,
            network,
            optimiser,
            device,
            scaler,
            progress.step,
            progress.seconds,
        )
        if start is not None and newest is None:
            trainer.save()  # to go on from, without `start`
        return trainer

    def run_steps(self, watch: Callable[[Report], None], stop: Callable[[], bool]) -> bool:
        """Train to the end, or until told to stop; say whether the end was reached."""
        before, began = self.seconds, time.monotonic()
        saved_at = began
        with self.stepping() as one_step:
            while self.share < 1:
                report = one_step()
                self.seconds = before + time.monotonic() - began
                self.run.append_history({**report._asdict(), "seconds": round(self.seconds, 3)})
                watch(report)
                if stop():
                    break
                if time.monotonic() - saved_at >= self.settings.checkpoint_seconds:
                    self.save()
                    saved_at = time.monotonic()
        self.save()
        return self.share >= 1

    @contextmanager
    def stepping(self) -> Iterator[Callable[[], Report]]:
        """Yield what trains for one step when it is called."""
        self.network.train()
        halves, threads = self.settings.batch.halves, torch.get_num_threads()
        # One core, or a GPU, does one thing after the other: two threads would be in its way.
        n_workers = min(2, threads) if halves and self.device.type == "cpu" else 1
        each = threads // n_workers if halves else 1
        with ThreadPoolExecutor(
            n_workers, initializer=torch.set_num_threads, initargs=(each,)
        ) as workers:
            torch.set_num_threads(each if halves else threads)
            in_halves = TwoThreadNetwork(self.network, self.encode, workers) if halves else None
            coming = workers.submit(self.batches.make, self.step, self.device)

            def one_step() -> Report:
                nonlocal coming
                views, rows = coming.result()
                encoded = (
                    in_halves(*views.halves()) if in_halves else self.encode(self.network, views)
                )
                # Made by a worker while the loss is found.
                coming = workers.submit(self.batches.make, self.step + 1, self.device)
                return self.learn(encoded, rows)

            try:
                yield one_step
            finally:
                torch.set_num_threads(threads)

    @property
    def share(self) -> float:
        """How much of the run is done."""
        if self.settings.minutes is not None:
            return self.seconds / (60 * self.settings.minutes)
        if self.settings.steps is not None:
            return self.step / self.settings.steps
        assert self.settings.epochs is not None  # noqa: S101  (one of the three is always set)
        return self.step / math.ceil(self.settings.epochs * self.batches.steps_per_epoch)

    def encode(self, network: Network, views: CroppedViews) -> Encoded:
        """Return what the network, or its twin, makes of the views."""
        images = coloured(views)
        with self._autocast():
            encoded: Encoded = network(images)
        return encoded

    def learn(self, encoded: Encoded, rows: Rows) -> Report:
        """Take one step against the gradient of the loss."""
        rate = learning_rate(self.settings.optimiser, self.share)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        generator = stream(self.settings.seed, "partners", self.step)
        loss = loss_of(self.network, encoded, rows, self.settings, generator=generator)
        self.check_finite(total := loss.total.item(), rate)
        self.optimiser.zero_grad()
        self.scaler.scale(loss.total).backward()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.step += 1
        terms = {name: term.item() for name, term in loss.terms.items()}
        unpaired = _unpaired_share(rows, self.settings)
        return Report(
            self.step, self.share, total, terms, rate, unpaired, len(rows.labels), self.seconds
        )

    def save(self) -> None:
        """Write a checkpoint."""
        progress = Progress(self.step, self.seconds, self.scaler.get_scale())
        save_checkpoint(self.run.checkpoints, self.network, self.optimiser, progress)

    def check_finite(self, loss: float, rate: float) -> None:
        """Stop at a loss that is no number, before it spoils the weights."""
        if math.isfinite(loss):
            return
        newest = newest_checkpoint(self.run.checkpoints)
        kept = f"{newest} is good" if newest else "there is no checkpoint yet"
        raise DivergedError(
            f"the loss is {loss} at step {self.step + 1}, learning rate {rate:.3g}; {kept}. Lower "
            f"optimiser.learning_rate, or raise batch.images or loss.temperature"
        )

    def _autocast(self) -> AbstractContextManager[object]:
        name = _autocast(self.settings, self.device)
        if name is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, name))


def build_network(
    source: ImageSet,
    settings: TrainSettings,
    body: nn.Module | None = None,
    *,
    start: TrainedNetwork | None = None,
) -> Network:
    """Return a new network with weights that follow from the seed (a given body keeps its own).

    With `start`, its encoder has the weights of that one's.
    """
    model, image_size = settings.model, source.images.shape[-1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream(settings.seed, "weights").initial_seed())
        encoder = build_encoder(
            model.encoder if body is None else body,
            image_size=image_size,
            head_hidden=model.head_hidden,
            head_dim=model.head_dim,
        )
        network = Network(encoder, max(1, len(source.classes)), settings)
    if start is not None:
        start_from(start, network, model=model, image_size=image_size)
    return network


def _autocast(settings: TrainSettings, device: torch.device) -> str | None:
    """Return the half precision to compute in, if any. On CPUs it is slower than float32."""
    if settings.precision == "float32" or device.type != "cuda":
        return None
    if settings.precision == "auto":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
    return settings.precision


def _unpaired_share(rows: Rows, settings: TrainSettings) -> float:
    """Return the share of rows without a positive: without a sibling, or without a partner."""
    if settings.objective == "cross-entropy":
        return 0.0
    poses = rows.poses if settings.rotations == "task" else None
    counts = count_unpaired(rows.labels, poses, rows.parents)
    partners_only = settings.objective == "supclr" and not settings.supclr_siblings
    needs_partners = settings.objective == "mcl" or partners_only
    unpaired = max(counts) if needs_partners else counts.ccm
    return unpaired / len(rows.labels)
