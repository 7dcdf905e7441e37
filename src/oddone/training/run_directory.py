"""The directory of a run, which explains itself.

- settings.toml: every setting, as resolved
- provenance.json: the command, versions, machine, seed and data
- history.jsonl: one line per step
- checkpoints/: the last two, to go on from
- encoder.safetensors: the finished encoder with its settings
- detector.oddone: the calibrated detector, all that is needed to score images

Of several processes that train as one, only the first writes; all must see the directory.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import msgspec
from torch import nn

from oddone import distributed
from oddone.errors import DataError, SettingsError
from oddone.files import (
    DETECTOR_NAME,
    ENCODER_NAME,
    LOCK_NAME,
    file_beside,
    is_leftover,
    lock_folder,
    os_errors_named,
    read_regular,
    remove_leftovers,
    sync_folder,
    write_atomic,
    write_json,
)
from oddone.provenance import machine, now, versions
from oddone.training.checkpoint import newest_checkpoint, read_progress
from oddone.training.settings import LENGTHS, TrainSettings
from oddone.training.settings_file import as_toml, read_settings, to_dict

SETTINGS_NAME = "settings.toml"
INCOMPLETE = ".incomplete"
"""A file in a directory that is being made or removed: what is there is no run."""
MOST_PROVENANCE_BYTES = 2**27
"""It lists the files that could not be read."""
UNFINISHED = "unfinished"
"""In the provenance of a run that was extended and has not come to its new length yet."""


class HistoryLine(TypedDict):
    """What each line of the history has, beside what else a step reports."""

    step: int
    loss: float
    seconds: NotRequired[float]
    processor_seconds: NotRequired[float]
    """Of all cores of this process since the first step: a busy machine does not lengthen it."""


class StatedImages(TypedDict):
    """What a provenance says of images, so that they can be loaded again."""

    images: int
    fingerprint: str
    source: NotRequired[str]
    """Not known of a run that was begun in Python."""
    size: NotRequired[int | None]
    strict: NotRequired[bool]


class StatedStart(TypedDict):
    """The network that a run was started from."""

    encoder: str


class StatedExtension(TypedDict):
    """When a run got another length."""

    step: int


StatedLeftOut = TypedDict("StatedLeftOut", {"class": str})


class StatedProvenance(TypedDict):
    """What of a provenance is needed to go on with its run; there is more in it."""

    data: NotRequired[StatedImages]
    outliers: NotRequired[StatedImages]
    start: NotRequired[StatedStart]
    left_out: NotRequired[StatedLeftOut]
    extended: NotRequired[list[StatedExtension]]
    unfinished: NotRequired[bool]
    own_encoder: NotRequired[str]
    """The class of the encoder, where that is a module of the user's own."""


class RunDirectory:
    """Where a run keeps what it needs to be understood and to go on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.encoder_path = path / ENCODER_NAME
        self.detector_path = path / DETECTOR_NAME
        self._history = path / "history.jsonl"
        self._locked = False

    @staticmethod
    def create(
        path: Path,
        settings: TrainSettings,
        provenance: Mapping[str, Any],
        *,
        overwrite: bool = False,
    ) -> "RunDirectory":
        """Return a new run's directory; one that exists is refused unless it may be replaced."""
        with distributed.in_turn():
            if distributed.is_first():
                RunDirectory._create(path, settings, provenance, overwrite=overwrite)
            return RunDirectory.open(path)

    @staticmethod
    def _create(
        path: Path, settings: TrainSettings, provenance: Mapping[str, Any], *, overwrite: bool
    ) -> None:
        toml = as_toml(settings)
        RunDirectory.check_free(path, overwrite=overwrite)
        run = RunDirectory(path)
        with _os_errors_explained(path), _emptied_on_os_error(path):
            path.mkdir(parents=True, exist_ok=True)
            with run.locked():
                RunDirectory.check_free(path, overwrite=overwrite)  # now that nobody else can come
                run._fill(toml, provenance)

    def _fill(self, toml: bytes, provenance: Mapping[str, Any]) -> None:
        """Put what a new run begins with in the place of all that is in the directory."""
        self._clear()
        try:
            self.checkpoints.mkdir()
            self.rewrite_provenance(provenance)
            write_atomic(self.path / SETTINGS_NAME, toml)
        except OSError:
            with suppress(OSError):  # or it stays, marked as incomplete
                self.remove()
            raise
        (self.path / INCOMPLETE).unlink()
        sync_folder(self.path)

    @staticmethod
    def exists(path: Path) -> bool:
        """Return whether this is the directory of a run, and a whole one."""
        return (path / SETTINGS_NAME).is_file() and not (path / INCOMPLETE).exists()

    @staticmethod
    @distributed.by_first
    def check_free(path: Path, *, overwrite: bool = False) -> None:
        """Raise a SettingsError unless a new run can be written there. Nothing is changed."""
        with _os_errors_explained(path):
            _try_to_write(path)
            names = {file.name for file in path.iterdir()} if path.exists() else set()
        names = {name for name in names if name != LOCK_NAME and not is_leftover(name)}
        if not names or INCOMPLETE in names:
            return
        if not overwrite:
            raise SettingsError(
                f"{path} exists; go on with it (--resume {path}), replace it (--overwrite) or "
                f"choose another --out"
            )
        if not RunDirectory.exists(path):
            raise SettingsError(
                f"{path} is not a run of oddone, so --overwrite leaves it alone; "
                f"choose another --out"
            )

    @staticmethod
    def open(path: Path) -> "RunDirectory":
        """Return the directory of a run that was begun before."""
        if (path / INCOMPLETE).exists():
            raise SettingsError(
                f"{path} was stopped while it was made, and holds no run; train anew with --out "
                f"{path}"
            )
        if not RunDirectory.exists(path):
            raise SettingsError(
                f"{path} is not the directory of a run: it has no settings.toml; name one that is, "
                f"or train with --out {path}"
            )
        return RunDirectory(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out of the directory, and remove what killed ones have left there.

        Where one of them is at work, raise a SettingsError. Who holds the lock may take it again.
        Of several processes of one run, the first holds it for all.
        """
        if self._locked or not distributed.is_first():
            yield
            return
        with lock_folder(self.path):
            self._locked = True
            try:
                for folder in (self.path, self.checkpoints):
                    remove_leftovers(folder)
                yield
            finally:
                self._locked = False

    @contextmanager
    def removed_unless_begun(self) -> Iterator[None]:
        """Remove the directory if an error comes before the first step is kept.

        Meanwhile it is locked.
        """
        with self.locked():
            try:
                yield
            except Exception:
                if newest_checkpoint(self.checkpoints) is None and not any(self.history()):
                    self.remove()
                raise

    @distributed.by_first
    def remove(self) -> None:
        """Remove the directory. Until all of it is gone, it is marked as no run."""
        with self.locked():
            self._clear()
            (self.path / INCOMPLETE).unlink()
            (self.path / LOCK_NAME).unlink(missing_ok=True)
            with suppress(OSError):  # a folder that something is mounted at stays, and is empty
                self.path.rmdir()

    def _clear(self) -> None:
        """Remove all that is in the directory, and mark it: until the mark goes, it is no run."""
        (self.path / INCOMPLETE).touch()
        sync_folder(self.path)
        for entry in self.path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            elif entry.name not in {INCOMPLETE, LOCK_NAME}:
                entry.unlink()

    @property
    def settings(self) -> TrainSettings:
        return read_settings(self.path / SETTINGS_NAME)

    @property
    def provenance(self) -> dict[str, Any]:
        path = self.path / "provenance.json"
        try:
            content: dict[str, Any] = json.loads(read_regular(path, MOST_PROVENANCE_BYTES))
            msgspec.convert(content, StatedProvenance)
        except (OSError, ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            reason = error.strerror if isinstance(error, OSError) else error
            raise DataError(
                f"{path} is damaged ({reason}); begin the run anew, with --overwrite"
            ) from error
        return content

    def check_encoder(self, encoder: nn.Module | None) -> None:
        """Raise a SettingsError if the run's encoder is the user's own and none is given."""
        name = self.provenance.get("own_encoder")
        if name is not None and encoder is None:
            raise SettingsError(
                f"{self.path} trains an encoder of your own, {name}, whose code is in no file; go "
                f"on from Python: oddone.train(source, out={str(self.path)!r}, encoder=...)"
            )

    def state_encoder(self, encoder: nn.Module | None) -> None:
        """Note in the provenance that the encoder is the user's own, if one is given."""
        provenance = self.provenance
        stated = {**provenance, **_stated_encoder(encoder)}
        if stated != provenance:
            self.rewrite_provenance(stated)

    @property
    def finished(self) -> bool:
        """Whether the encoder is there, trained for as long as the settings say."""
        return self.encoder_path.is_file() and not self.provenance.get(UNFINISHED, False)

    @distributed.by_first
    def extend(self, settings: TrainSettings) -> None:
        """Give a run another length; the next training goes on with it from the last checkpoint.

        The encoder and the detector of the length before stay until there are new ones. The
        provenance says when, after which step, and from which length to which it was extended.
        """
        provenance, before = self.provenance, self.settings
        progress = read_progress(self.checkpoints)
        extension = {
            "date": now(),
            "step": progress.step,
            "seconds": round(progress.seconds, 3),
            "from": _length(before),
            "to": _length(settings),
        }
        # One that came to nothing, because it was stopped before a step, is forgotten.
        earlier = [each for each in provenance.get("extended", []) if each["step"] < progress.step]
        self.rewrite_provenance(
            {
                **provenance,
                "settings": to_dict(settings),
                "extended": [*earlier, extension],
                UNFINISHED: True,
            }
        )
        # The settings last: who is stopped before finds the run of the old length.
        write_atomic(self.path / SETTINGS_NAME, as_toml(settings))

    @distributed.by_first
    def mark_finished(self) -> None:
        """Note that a run that was extended has come to its new length."""
        provenance = self.provenance
        if provenance.pop(UNFINISHED, False):
            self.rewrite_provenance(provenance)

    @distributed.by_first
    def rewrite_provenance(self, provenance: Mapping[str, Any]) -> None:
        """Replace the provenance, as a whole."""
        write_json(self.path / "provenance.json", provenance)

    @distributed.by_first
    def append_history(self, line: Mapping[str, Any]) -> None:
        """Add one line to the history."""
        with os_errors_named(self._history), self._history.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def history(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the history; one that a sudden end cut short, or damage, is left out.

        Nothing but what people are shown follows from it.
        """
        if not self._history.exists():
            return
        for text in self._history.read_text(errors="replace").splitlines():
            try:
                line: dict[str, Any] = json.loads(text)
                msgspec.convert(line, HistoryLine)
            except (ValueError, RecursionError):
                continue
            yield line

    @property
    def processor_seconds(self) -> float:
        """How much processor time the steps in the history took; 0 where it does not say."""
        last: dict[str, Any] = next(reversed(list(self.history())), {})
        seconds: float = last.get("processor_seconds", 0.0)
        return seconds

    @distributed.by_first
    def forget_history_after(self, step: int) -> None:
        """Drop the lines after a step, to go on from there as if they had never been."""
        kept = [line for line in self.history() if line["step"] <= step]
        write_atomic(self._history, "".join(json.dumps(line) + "\n" for line in kept).encode())


@contextmanager
def _os_errors_explained(path: Path) -> Iterator[None]:
    """Turn an OSError while a run's directory is made into a SettingsError that names it."""
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"{path} cannot be written: {error.strerror or error}; choose another --out"
        ) from error


def _try_to_write(path: Path) -> None:
    """Make a directory if there is none, write a file there, and remove what was made."""
    missing = _missing_folders(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with file_beside(path / SETTINGS_NAME):
            pass
    finally:
        _remove_empty(missing)


@contextmanager
def _emptied_on_os_error(path: Path) -> Iterator[None]:
    """Remove the folders that are made here if an OSError leaves them empty, as on a full disk."""
    missing = _missing_folders(path)
    try:
        yield
    except OSError:
        _remove_empty(missing)
        raise


def _missing_folders(path: Path) -> list[Path]:
    """Return the folder and those above it that are not there yet, the innermost first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):  # it could not be made, or is not empty
            folder.rmdir()


def _length(settings: TrainSettings) -> dict[str, int | float]:
    """Return the length of a run: its steps, epochs or minutes."""
    return {name: value for name, value in to_dict(settings).items() if name in LENGTHS}


def run_provenance(settings: TrainSettings, encoder: nn.Module | None = None) -> dict[str, Any]:
    """Return what every run says of itself: when, with what, where and how it is trained.

    An encoder that is given is the user's own.
    """
    return {
        "date": now(),
        "seed": settings.seed,
        "versions": versions("numpy", "pillow", "safetensors"),
        "machine": asdict(machine()),
        "settings": to_dict(settings),
        **_stated_encoder(encoder),
    }


def _stated_encoder(encoder: nn.Module | None) -> dict[str, str]:
    return {} if encoder is None else {"own_encoder": type(encoder).__name__}
