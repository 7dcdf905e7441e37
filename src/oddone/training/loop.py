"""The training loop: survives interruption, and goes on as if nothing had happened."""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from oddone import distributed
from oddone.data import ImageSet
from oddone.device import choose_device, with_gradients
from oddone.encoders import Encoded, Network, TrainedNetwork, save_network
from oddone.encoders.network_file import impossible_numbers, own_name
from oddone.errors import DivergedError, SettingsWarning
from oddone.progress import Progress
from oddone.rng import drawing_from, stream
from oddone.training.batches import (
    Batches,
    ExposedBatches,
    PlannedViews,
    TrainBatch,
    check_outliers,
    check_source,
    colour_views,
)
from oddone.training.checkpoint import (
    TrainProgress,
    load_newest_checkpoint,
    newest_checkpoint,
    save_checkpoint,
)
from oddone.training.chunks import NetworkInChunks
from oddone.training.feature_batches import FeatureBatch, FeatureBatches
from oddone.training.initialise import initial_network, untrained_network
from oddone.training.objective import Loss, Rows, gather_encoded, loss_of, unpaired_share
from oddone.training.optim import build_optimiser, learning_rate, set_learning_rate
from oddone.training.parts import NetworkInParts
from oddone.training.run_directory import RunDirectory
from oddone.training.settings import TrainSettings
from oddone.training.shared_batch_norm import share_batch_norm
from oddone.training.shares import check_shares, count_parts, own_share
from oddone.transforms import CroppedViews

LARGEST_WEIGHT = 10_000.0
"""Weights that learn something are thousands of times smaller."""


class StepReport(NamedTuple):
    """What a person may want to see after a step."""

    step: int
    share: float
    """How much of the run is done."""
    loss: float
    terms: dict[str, float]
    learning_rate: float
    unpaired: float
    """The share of rows that have no positive in some term of the loss."""
    rows: int
    seconds: float
    """How long the run has trained, interruptions left out."""


class Outcome(NamedTuple):
    """How a run ended."""

    finished: bool
    """Whether the run has its full length."""
    stopped: bool
    """Whether `stop()` was true, be it after the last step."""
    step: int
    seconds: float


@with_gradients
def train_network(  # noqa: PLR0913  (all but three are choices with a default)
    source: ImageSet,
    settings: TrainSettings,
    run: RunDirectory,
    *,
    encoder: nn.Module | None = None,
    start: TrainedNetwork | None = None,
    outliers: ImageSet | None = None,
    watch: Callable[[StepReport], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
) -> Outcome:
    """Train until the run's length is reached or `stop()` is true; resume at the last checkpoint.

    A finished run leaves `encoder.safetensors` in its directory. While it trains, nobody else can
    in the same directory. Inside `oddone.distributed.joined` several processes that call this alike
    train as one: each takes its share of every batch, and the first one writes.

    Parameters
    ----------
    source
        The labelled images to train on.
    settings
        How to train; `oddone.presets` has complete ones.
    run
        The directory of the run, new or begun before.
    encoder
        A module of your own, from images to features, instead of the one that the settings name. A
        copy of it is trained; the module stays as it is.
    start
        A trained network to fine-tune. To resume, it is not needed again.
    outliers
        Images of no class, for outlier exposure. To resume, give them again.
    watch
        Called after every step.
    stop
        Asked after every step.
    progress
        Called with how many images are encoded, where that is done once, before the first step.

    """
    check_source(source, settings)
    if outliers is not None:
        check_outliers(outliers, source, settings)
    with run.locked():
        run.check_encoder(encoder)
        if newest_checkpoint(run.checkpoints) is None:
            run.state_encoder(encoder)
            network = initial_network(source, settings, encoder=encoder, start=start)
        else:
            network = untrained_network(source, settings, encoder=encoder)
        batches = (
            Batches(source, settings)
            if outliers is None
            else ExposedBatches.build(source, outliers, settings)
        )
        check_shares(batches.images_per_step, batches.rows_per_step, settings.batch)
        trainer = _Trainer.resume(network, batches, settings, run)
        trained = TrainedNetwork(
            network,
            settings.model,
            settings.rotations,
            source.classes,
            source.images.shape[-1],
            source.fingerprint,
        )
        if trainer.share < 1:
            name = settings.model.encoder_name if encoder is None else own_name(encoder)
            model = replace(settings.model, encoder_name=name)
            trainer.encode_beforehand(replace(trained, model=model), progress)
        if start is not None and trainer.step == 0:
            trainer.save()  # to resume from, without `start`
        stopped = trainer.run_steps(watch, stop)
        finished = trainer.share >= 1
        if finished:
            _warn_of_large_weights(network, settings.optimiser.learning_rate)
            with distributed.in_turn():  # so that all find it
                _save_finished(run, trained)
    return Outcome(finished, stopped, trainer.step, trainer.seconds)


@distributed.by_first
def _save_finished(run: RunDirectory, trained: TrainedNetwork) -> None:
    save_network(run.encoder_path, trained)
    run.mark_finished()


@dataclass
class _Trainer:
    """The moving parts of a run."""

    settings: TrainSettings
    run: RunDirectory
    batches: Batches | ExposedBatches | FeatureBatches
    network: Network
    optimiser: torch.optim.Optimizer
    device: torch.device
    scaler: torch.amp.GradScaler
    step: int
    seconds: float

    @staticmethod
    def resume(
        network: Network,
        batches: Batches | ExposedBatches,
        settings: TrainSettings,
        run: RunDirectory,
    ) -> "_Trainer":
        """Return a trainer at the run's last checkpoint, or at its beginning."""
        device = choose_device(settings.device)
        distributed.check_device(device)
        network.freeze_all_but(settings.model.trained_part)
        network.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        optimiser = build_optimiser(network, settings.optimiser)
        scaler = torch.amp.GradScaler(device.type, enabled=_autocast(settings, device) == "float16")
        resumed = newest_checkpoint(run.checkpoints) is not None
        with distributed.in_turn():  # the first puts a damaged one aside
            progress = load_newest_checkpoint(run.checkpoints, network, optimiser)
        run.forget_history_after(progress.step)
        if scaler.is_enabled() and resumed:
            scaler.load_state_dict({**scaler.state_dict(), "scale": progress.loss_scale})
        if count_parts(batches.rows_per_step, settings.batch) == 1:
            share_batch_norm(network)
        if settings.compile:
            network.compile()
        return _Trainer(
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

    def encode_beforehand(self, trained: TrainedNetwork, progress: Progress | None) -> None:
        """Encode all views once, if only the head is trained and their features can be kept."""
        batches = self.batches
        if (
            self.settings.model.trained_part == "head"
            and isinstance(batches, Batches)
            and FeatureBatches.fit_into_memory(batches, self.network.feature_dim)
        ):
            self.batches = FeatureBatches.encode(batches, trained, progress)

    def run_steps(self, watch: Callable[[StepReport], None], stop: Callable[[], bool]) -> bool:
        """Train to the end, or until told to stop; return whether it was told to."""
        before, began = self.seconds, time.monotonic()
        processor_began = time.process_time() - self.run.processor_seconds
        saved_at, stopped = began, False
        self.network.train()
        with self._worker_threads() as workers:
            steps = _StepRunner(self, workers)
            while self.share < 1 and not stopped:
                report = steps.next()
                passed = before + time.monotonic() - began
                self.run.append_history(
                    {
                        **report._asdict(),
                        "seconds": round(passed, 3),
                        "processor_seconds": round(time.process_time() - processor_began, 3),
                    }
                )
                watch(report)
                # One clock and one decision for all: who is told to stop takes the others along.
                self.seconds, told_to = distributed.largest(passed, float(stop()))
                stopped = told_to > 0
                if time.monotonic() - saved_at >= self.settings.checkpoint_seconds:
                    self.save()
                    saved_at = time.monotonic()
        self.save()
        return stopped

    @contextmanager
    def _worker_threads(self) -> Iterator[ThreadPoolExecutor]:
        """Yield threads that make batches and, if rows go in parts, take a part of them each.

        Torch's own threads are shared out among them meanwhile.
        """
        threads, n_parts = torch.get_num_threads(), self.own_parts
        # A GPU does one thing after the other: several threads would be in its way.
        n_workers = min(n_parts, threads) if self.device.type == "cpu" else 1
        threads_each = threads // n_workers if n_parts > 1 else 1
        with ThreadPoolExecutor(
            n_workers, initializer=torch.set_num_threads, initargs=(threads_each,)
        ) as workers:
            torch.set_num_threads(threads_each if n_parts > 1 else threads)
            try:
                yield workers
            finally:
                torch.set_num_threads(threads)

    @property
    def own_parts(self) -> int:
        """How many parts of a batch this process takes side by side."""
        if self.settings.batch.parts == 1:
            return 1  # be it in chunks, which are one after the other
        return len(own_share(self.batches.rows_per_step, self.settings.batch).sizes)

    @property
    def share(self) -> float:
        """How much of the run is done."""
        return self.settings.share_done(self.step, self.seconds, self.batches.steps_per_epoch)

    def encode(self, network: Network, views: CroppedViews | PlannedViews | Tensor) -> Encoded:
        """Return what the network, or its twin, makes of the views, or of their features."""
        if isinstance(views, Tensor):
            assert network.head is not None  # noqa: S101  (`TrainSettings` see to that)
            return Encoded(views, network.head(views))
        images = colour_views(views)
        with self._autocast():
            encoded: Encoded = network(images)
        return encoded

    def loss(self, encoded: Encoded, rows: Rows) -> Loss:
        """Return the loss of all rows, of which this process has encoded its own."""
        generator = stream(self.settings.seed, "partners", self.step)
        gathered = gather_encoded(encoded, self.settings)
        return loss_of(self.network, gathered, rows, self.settings, generator=generator)

    def learn(self, loss: Loss, rows: Rows) -> StepReport:
        """Take one step against the gradient of the loss."""
        rate = learning_rate(self.settings.optimiser, self.share)
        set_learning_rate(self.optimiser, rate)
        self.check_finite(total := loss.total.item(), rate)
        self.optimiser.zero_grad()
        self.scaler.scale(loss.total).backward()
        self._average_over_processes(len(rows.labels))
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.step += 1
        terms = {name: term.item() for name, term in loss.terms.items()}
        unpaired = unpaired_share(rows, self.settings)
        return StepReport(
            self.step, self.share, total, terms, rate, unpaired, len(rows.labels), self.seconds
        )

    def _average_over_processes(self, n_rows: int) -> None:
        """Give all processes the same gradients, and the same running statistics."""
        weights = self.network.parameters()
        distributed.average([weight.grad for weight in weights if weight.grad is not None])
        if count_parts(n_rows, self.settings.batch) > 1:  # or they have seen the same rows
            trained = [module for module in self.network.modules() if module.training]
            buffers = (each for module in trained for each in module.buffers(recurse=False))
            own = len(own_share(n_rows, self.settings.batch).sizes)
            distributed.average([each for each in buffers if each.is_floating_point()], float(own))

    def save(self) -> None:
        """Write a checkpoint, unless the weights are no numbers."""
        if any(impossible_numbers(self.network, self.network.state_dict())):
            rate = learning_rate(self.settings.optimiser, self.share)
            raise self.diverged("the weights are not finite", self.step, rate)
        progress = TrainProgress(self.step, self.seconds, self.scaler.get_scale())
        if distributed.is_first():
            save_checkpoint(self.run.checkpoints, self.network, self.optimiser, progress)

    def check_finite(self, loss: float, rate: float) -> None:
        """Stop at a loss that is no number, before it spoils the weights."""
        if math.isfinite(loss):
            return
        raise self.diverged(f"the loss is {loss}", self.step + 1, rate)

    def diverged(self, what: str, step: int, rate: float) -> DivergedError:
        """Return the error that says where it happened, and what to go on with."""
        newest = newest_checkpoint(self.run.checkpoints)
        kept = f"{newest} is good" if newest else "there is no checkpoint yet"
        return DivergedError(
            f"{what} at step {step}, learning rate {rate:.3g}; {kept}. Lower "
            f"optimiser.learning_rate, or raise batch.images or loss.temperature"
        )

    def _autocast(self) -> AbstractContextManager[object]:
        name = _autocast(self.settings, self.device)
        if name is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, name))


class _StepRunner:
    """The steps of a trainer. A worker makes the next batch while the loss is computed."""

    def __init__(self, trainer: _Trainer, workers: ThreadPoolExecutor) -> None:
        self.trainer = trainer
        self.workers = workers
        self.batch = trainer.settings.batch
        self.in_parts = (
            NetworkInParts(trainer.network, trainer.encode, workers, trainer.own_parts)
            if trainer.own_parts > 1
            else None
        )
        self.in_chunks = NetworkInChunks(trainer.network, trainer.encode)
        self.draws: bool | None = None
        """Whether the network draws random numbers, as dropout does; the first pass tells."""
        self.next_batch = self._make_batch(trainer.step)

    def next(self) -> StepReport:
        """Train for one step."""
        views, rows = self.next_batch.result()  # or their features
        encoded = self._encode(views, len(rows.labels))
        self.next_batch = self._make_batch(self.trainer.step + 1)
        loss = self.trainer.loss(encoded, rows)
        # Of many rows in chunks it is large, and the loss keeps what its gradient needs.
        del encoded
        return self.trainer.learn(loss, rows)

    def _encode(self, views: CroppedViews | PlannedViews | Tensor, n_rows: int) -> Encoded:
        """Return what the network makes of this process's rows: at once, in parts or in chunks."""
        own = own_share(n_rows, self.batch)
        if self.draws is False:
            return self._pass(views, own.sizes)
        trainer = self.trainer
        dropout = stream(trainer.settings.seed, "dropout", trainer.step, own.rows.start)
        with drawing_from(dropout, trainer.device) as has_drawn:
            encoded = self._pass(views, own.sizes, in_turn=True)
            self.draws = self.draws or has_drawn()
        return encoded

    def _pass(
        self,
        views: CroppedViews | PlannedViews | Tensor,
        sizes: Sequence[int],
        *,
        in_turn: bool = False,
    ) -> Encoded:
        if isinstance(views, PlannedViews):
            return self.in_chunks(views.split(sizes))
        if self.in_parts is not None and not isinstance(views, Tensor):
            return self.in_parts(views.split(sizes), in_turn=in_turn)
        return self.trainer.encode(self.trainer.network, views)

    def _make_batch(self, step: int) -> Future[TrainBatch | FeatureBatch]:
        return self.workers.submit(self.trainer.batches.make, step, self.trainer.device)


def _autocast(settings: TrainSettings, device: torch.device) -> str | None:
    """Return the half precision to compute in, if any. On CPUs it is slower than float32."""
    if settings.precision == "float32" or device.type != "cuda":
        return None
    if settings.precision == "auto":
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
    return settings.precision


def _warn_of_large_weights(network: Network, rate: float) -> None:
    """Warn where the steps were so large that the weights cannot have learned anything."""
    largest = max(weight.abs().max().item() for weight in network.parameters())
    if largest > LARGEST_WEIGHT:
        warnings.warn(
            f"training ended with weights as large as {largest:.2g}, so the encoder has learned "
            f"nothing; optimiser.learning_rate={rate:g} is too high",
            SettingsWarning,
            stacklevel=3,
        )
