"""The file of `--out`: checked before the long work, and written whole or not at all."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from oddone.errors import SettingsError
from oddone.files import file_beside, remove_leftovers, sync_folder, write_atomic


def check_out_file(out: Path, endings: Sequence[str] = ()) -> None:
    """Raise a SettingsError if the file cannot be written there, or does not end as it should."""
    if endings and out.suffix.lower() not in endings:
        *others, last = endings
        wanted = f"{', '.join(others)} or {last}" if others else last
        raise SettingsError(f"--out {out}: let the name end in {wanted}")
    with os_errors_explained(out):
        names_a_file = not out.is_dir() and out.parent.is_dir()
    if not names_a_file:
        raise SettingsError(f"--out {out}: name a file in a folder that exists")
    if not os.access(out.parent, os.W_OK):
        raise SettingsError(f"--out {out}: you may not write to {out.parent}; choose another place")
    with os_errors_explained(out), file_beside(out):
        pass  # who may write does not tell whether the file system takes files


def write_out_file(out: Path, content: bytes) -> None:
    """Write the whole file; a full disk, for example, is a SettingsError."""
    with os_errors_explained(out):
        remove_leftovers(out.parent)
        write_atomic(out, content)


@contextmanager
def out_file_in_parts(out: Path) -> Iterator[Path]:
    """Yield the path of a temporary file to write to; once it is complete, it becomes `out`.

    What goes wrong meanwhile need not be about the file, so who writes it does so inside
    `os_errors_explained`.
    """
    with os_errors_explained(out):
        remove_leftovers(out.parent)
    with written_whole(out) as part:
        yield part


@contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """Yield the same, and leave what killed commands have left in the folder."""
    with ExitStack() as stack:
        with os_errors_explained(out):
            part = stack.enter_context(file_beside(out))
        yield part
        with os_errors_explained(out), part.open("rb+") as file:
            os.fsync(file.fileno())
        with os_errors_explained(out):
            part.replace(out)
            sync_folder(out.parent)


@contextmanager
def os_errors_explained(out: Path) -> Iterator[None]:
    """Turn an OSError while `out` is written into a SettingsError that names it."""
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"{out} cannot be written: {error.strerror or error}; choose another place with --out"
        ) from error
