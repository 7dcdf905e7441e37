"""Several processes that train and fit as one. Nothing else in oddone imports `torch.distributed`.

`torchrun`, or `oddone train --processes 2`, starts the processes, here or on several machines.
`joined` makes them a group: gloo on CPUs, NCCL on GPUs. A process on its own is a group of one, in
which every function here returns what it is given and exchanges nothing.

Every process computes the same loss of all rows, which `gather_rows` collects. So it knows the
gradient of that loss for its own rows, and nothing has to be sent back. That gradient is made
`count()` times as large, so that the mean over processes (`average`) is right for all weights: for
those of the encoder, of which each process sees its own rows, and for those of a classifier on the
gathered rows, of which each sees all.
"""

import functools
import itertools
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, ParamSpec, cast

import torch
import torch.distributed as dist  # noqa: TID251  (here, and nowhere else)
from jaxtyping import Shaped
from torch import Tensor
from torch.distributed.rendezvous import rendezvous  # noqa: TID251

from oddone.errors import OddOneError, ProcessError, SettingsError

JOIN_SECONDS = 300.0
"""How long processes wait for each other at the start."""
EXCHANGE_SECONDS = 1800.0
"""How long an exchange may take before the others are given up."""
TURN_SECONDS = 24 * 3600.0
"""How long the first process may be alone at work, such as at a million photographs."""
WATCH_SECONDS = 1.0
MEET_SECONDS = 0.05
LEAVE_SECONDS = 5.0
EXIT_ERROR = 2  # the exit code of a process that has said in a line what is wrong

P = ParamSpec("P")
_turns = itertools.count()


# --- Who is who -------------------------------------------------------------------------------


def rank() -> int:
    """Return the number of this process, counted from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def count() -> int:
    """Return how many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def is_first() -> bool:
    """Return whether this is the process that writes and speaks."""
    return rank() == 0


def own_part(number: int) -> slice:
    """Return which of so many things this process takes: neighbours, in the order of processes."""
    return slice(number * rank() // count(), number * (rank() + 1) // count())


def by_first(function: Callable[P, None]) -> Callable[P, None]:
    """Let the first process alone do something, such as write a file."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        if is_first():
            function(*args, **kwargs)

    return call


def when_several(function: Callable[P, None]) -> Callable[P, None]:
    """Let several processes do something that one on its own has no need of."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        if count() > 1:
            function(*args, **kwargs)

    return call


# --- Joining ----------------------------------------------------------------------------------


def was_started() -> bool:
    """Return whether something like `torchrun` has started this process as one of several."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def restart_of() -> str | None:
    """Return the name of the launch that has started these processes anew after a failure.

    `torchrun --max-restarts` does that; None in its first attempt, and without it. On each machine
    it counts only what failed there, so one that has counted a failure speaks for all.
    """
    (restarts,) = largest(float(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")))
    return launch_name() if restarts > 0 else None


def launch_name() -> str | None:
    """Return what all attempts of one launch have in common; None where nothing has started us."""
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    return f"{socket.gethostname()}-{os.getppid()}" if name == "none" else name


def describe() -> dict[str, Any]:
    """Return what a run says of the processes that train it; nothing for one alone."""
    facts = {"processes": count() if count() > 1 else None, "launch": launch_name()}
    return {name: value for name, value in facts.items() if value is not None}


@when_several
def check_device(device: torch.device) -> None:
    """Raise a SettingsError where processes cannot exchange what is on a device."""
    if device.type not in {"cpu", "cuda"}:
        raise SettingsError(
            f"device={device.type!r} is for one process alone; set device='cpu', or start one"
        )


@contextmanager
def joined(join_seconds: float = JOIN_SECONDS) -> Iterator[None]:
    """Make the processes that `torchrun` has started a group; alone, do nothing.

    An error that ends one of them ends the others too, and is raised once: a process that fails
    because another one did exits without a word.
    """
    if not was_started():
        yield
        return
    store = _join(join_seconds)
    try:
        yield
    except BaseException as error:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from here on, it ends by itself
        is_first_to_fail, keeps_store, size = _is_first_to_fail(), is_first(), count()
        with suppress(RuntimeError):  # the process that kept the store is gone
            store.add("failures", 1)
        dist.destroy_process_group()  # which the others notice
        if keeps_store:
            _wait_for_failures(store, size)
        if not is_first_to_fail and isinstance(error, OddOneError | OSError):
            raise SystemExit(EXIT_ERROR) from error
        raise
    dist.destroy_process_group()


def _join(seconds: float) -> Any:
    """Return the store of a new group, in which processes leave each other notes."""
    cuda, place = torch.cuda.is_available(), int(os.environ.get("LOCAL_RANK", "0"))
    if cuda:
        if place >= torch.cuda.device_count():
            raise SettingsError(
                f"{place + 1} processes on a machine with {torch.cuda.device_count()} GPUs; start "
                f"at most one for each, or hide the GPUs with CUDA_VISIBLE_DEVICES="
            )
        torch.cuda.set_device(place)
    try:
        shared, number, size = next(rendezvous("env://", timeout=timedelta(seconds=seconds)))
        attempt = _meet(shared, number, size, seconds)
        store = dist.distributed_c10d.PrefixStore(attempt, shared)
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if cuda else "gloo",
            store=store,
            rank=number,
            world_size=size,
            timeout=timedelta(seconds=EXCHANGE_SECONDS),
        )
    except (RuntimeError, ValueError, OSError) as error:
        where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise ProcessError(
            f"process {os.environ['RANK']} of {os.environ['WORLD_SIZE']} could not join the others "
            f"at {where} ({_first_line(error)}); start them all, at an address that all can reach"
        ) from error
    if "TORCHELASTIC_RUN_ID" in os.environ:
        threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    return store


def _meet(store: Any, number: int, size: int, seconds: float) -> str:
    """Return a name for the notes of this attempt, which no earlier attempt of the launch has had.

    `torchrun` keeps the store for all attempts, and nothing that it tells a process is the same on
    all machines in one attempt and another in the next. So the first process makes up a name, and
    the others answer to the name that they find until it has been told to them themselves: what an
    earlier attempt has left tells nothing to a process that was not there.
    """
    own = uuid.uuid4().hex
    if number == 0:
        store.set("attempt", own)
        for other in range(1, size):
            store.set(f"{own} told to {store.get(f'{own} heard by {other}').decode()}", "")
        return own
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = store.get("attempt").decode()
        store.set(f"{found} heard by {number}", own)
        if store.check([f"{found} told to {own}"]):
            return str(found)
        time.sleep(MEET_SECONDS)
    raise RuntimeError(f"process 0 has not answered for {seconds:g} s")


def _end_with_parent(parent: int) -> None:
    """Ask this process to end once the one that started it is gone, which cannot do so itself."""
    while os.getppid() == parent:
        time.sleep(WATCH_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _is_first_to_fail() -> bool:
    """Return whether no other process failed before this one, and note that it fails.

    Whoever tells others of a failure asks this before, or one of them could be first, and say that
    another one has failed instead of why.
    """
    store, own = dist.distributed_c10d._get_default_store(), f"process {rank()}"  # noqa: SLF001
    try:
        return bool(store.compare_set("first to fail", "", own).decode() == own)
    except RuntimeError:  # the process that kept the store is gone
        return True


def _wait_for_failures(store: Any, size: int) -> None:
    """Keep the store until all have noted that they failed, or else some would think it first."""
    deadline = time.monotonic() + LEAVE_SECONDS
    with suppress(RuntimeError):  # `torchrun` keeps the store itself, and may be gone
        while store.add("failures", 0) < size and time.monotonic() < deadline:
            time.sleep(MEET_SECONDS)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


@contextmanager
def _exchange() -> Iterator[None]:
    """Turn what torch says of a lost connection into an error that says what to do."""
    try:
        yield
    except RuntimeError as error:
        raise ProcessError(
            f"process {rank()} of {count()} lost the others: one has ended, or cannot be reached; "
            f"what is saved stays, so go on with oddone train --resume (oddone fit begins anew)"
        ) from error


# --- Exchanging -------------------------------------------------------------------------------


def gather_rows(own: Shaped[Tensor, "own ..."]) -> Shaped[Tensor, "all ..."]:
    """Return the rows of all processes, in their order; gradients flow back to this one's own.

    The processes may have different numbers of rows.
    """
    if count() == 1:
        return own
    gather = cast("Callable[[Tensor], Tensor]", _GatherRows.apply)
    return gather(own)


class _GatherRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        parts = _gather(own)
        start = sum(map(len, parts[: rank()]))
        ctx.rows = slice(start, start + len(own))
        return torch.cat(parts)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        return upstream[ctx.rows] * count()  # see the top of this file


def _gather(own: Tensor) -> list[Tensor]:
    """Return the rows of each process. All are sent as many as the most, as torch wants it."""
    with _exchange():
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(count())]
        dist.all_gather(lengths, torch.tensor([len(own)]))
        rows = [int(length) for length in lengths]
        padded = own.new_zeros(max(rows), *own.shape[1:])
        padded[: len(own)] = own.detach()
        parts = [torch.empty_like(padded) for _ in rows]
        dist.all_gather(parts, padded)
    return [part[:length] for part, length in zip(parts, rows, strict=True)]


@when_several
@torch.no_grad()
def average(tensors: Sequence[Tensor], weight: float = 1.0) -> None:
    """Put the mean over all processes into the tensors; each process counts by its weight."""
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        same = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = torch.cat([tensor.reshape(-1) for tensor in same]) * weight
        total = sum_of_all(torch.cat([flat, flat.new_full((1,), weight)]))
        mean = total[:-1] / total[-1]
        for tensor, part in zip(same, mean.split([each.numel() for each in same]), strict=True):
            tensor.copy_(part.view_as(tensor))


def sum_of_all(own: Tensor) -> Tensor:
    """Return the sum over all processes; no gradient flows through."""
    if count() == 1:
        return own
    total = own.detach().clone()
    with _exchange():
        dist.all_reduce(total)
    return total


def largest(*own: float) -> tuple[float, ...]:
    """Return of each number the largest that any process has."""
    if count() == 1:
        return own
    numbers = torch.tensor(own, dtype=torch.float64)
    with _exchange():
        dist.all_reduce(numbers, dist.ReduceOp.MAX)
    return tuple(numbers.tolist())


def from_first(make: Callable[[], Any]) -> Any:
    """Return what the first process makes, something that JSON can hold; others wait for it."""
    if count() == 1:
        return make()
    return _gather_json(make() if is_first() else None)[0]


@when_several
def check_same(facts: Mapping[str, Any]) -> None:
    """Raise a SettingsError unless all processes state the same facts, such as versions."""
    first, *others = _gather_json({"machine": socket.gethostname(), "facts": dict(facts)})
    for number, other in enumerate(others, start=1):
        for name in first["facts"] | other["facts"]:
            here, there = (each["facts"].get(name) for each in (first, other))
            if here != there:
                raise SettingsError(
                    f"{name} is {there} in process {number} on {other['machine']} and {here} in "
                    f"process 0 on {first['machine']}; start all with the same"
                )


def _gather_json(own: Any) -> list[Any]:
    text = torch.frombuffer(bytearray(json.dumps(own).encode()), dtype=torch.uint8)
    return [json.loads(bytes(part.tolist())) for part in _gather(text)]


@contextmanager
def in_turn(*, on_each_machine: bool = False) -> Iterator[None]:
    """Let the first process, of all or on each machine, do something before all others do it.

    So that one decodes a folder, or creates one, and the others find it.
    """
    if count() == 1:
        yield
        return
    local = int(os.environ.get("LOCAL_RANK", rank()))
    goes_first = local == 0 if on_each_machine else is_first()
    key = f"turn {next(_turns)} {socket.gethostname() if on_each_machine else ''}"
    store = dist.distributed_c10d._get_default_store()  # noqa: SLF001
    if not goes_first:
        with _exchange():
            store.wait([key], timedelta(seconds=TURN_SECONDS))
            if store.get(key) != b"done":
                raise ProcessError("the first process has failed; see what it says")
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        if goes_first:
            if outcome == "failed":
                _is_first_to_fail()
            store.set(key, outcome)


# --- Starting ---------------------------------------------------------------------------------


def start(number: int, words: Sequence[str]) -> int:
    """Run `oddone` with these words in so many processes on this machine; return the exit code.

    It is `torchrun`, but for what it says: the processes say themselves what is wrong. Ctrl-C and
    SIGTERM are passed on to all of them.
    """
    if number < 1:
        raise SettingsError(f"--processes {number}: choose 1 or more")
    if was_started():
        raise SettingsError(
            f"--processes {number} in a process that torchrun has started; leave one of them out"
        )
    # Imported here, as every other command would wait for it.
    from torch.distributed.elastic.multiprocessing import (  # noqa: PLC0415, TID251
        SignalException,
        errors,
    )
    from torch.distributed.launcher import api  # noqa: PLC0415, TID251

    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, torch.get_num_threads() // number)))
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    group = api.LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=number,
        run_id=f"oddone-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        max_restarts=0,
    )
    try:
        api.elastic_launch(group, sys.executable)("-m", "oddone", *words)
    except SignalException as ended:
        return 128 + int(signal.SIGINT if ended.sigval == signal.SIGTERM else ended.sigval)
    except errors.ChildFailedError as failed:
        return _code_of({place: each.exitcode for place, each in failed.failures.items()})
    return 0


def _code_of(codes: Mapping[int, int]) -> int:
    """Return the exit code of processes that failed; raise an error if none has said why."""
    said = [code for code in codes.values() if code > 0]
    if said:
        return EXIT_ERROR if EXIT_ERROR in said else said[0]
    number, code = next(iter(codes.items()))
    raise ProcessError(
        f"process {number} of the run was ended by {signal.Signals(-code).name}; what is saved "
        f"stays, so go on with oddone train --resume"
    )
