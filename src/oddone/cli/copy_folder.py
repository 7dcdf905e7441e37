"""A folder that files are copied into, and in which nothing is ever overwritten."""

import filecmp
import os
import shutil
from collections import Counter
from itertools import count
from pathlib import Path
from typing import BinaryIO

from oddone.errors import SettingsError, os_error_fix
from oddone.files import file_beside, move_to_free_name, remove_leftovers


class CopyFolder:
    """The folder of `--copy-anomalous`; it is made if it is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.copied = 0
        self.not_copied = 0
        """Images of a data set, which have no file, and files that are gone."""
        self._used: Counter[str] = Counter()  # the last number that each name was given
        if path.exists() and not path.is_dir():
            raise SettingsError(f"--copy-anomalous {path}: that is a file; name a folder")
        try:
            path.mkdir(parents=True, exist_ok=True)
            remove_leftovers(path)
        except OSError as error:
            raise self._error(error) from error

    def add(self, path: str) -> None:
        """Copy a file; if its name is taken, the copy of a.png is called a-2.png.

        A copy that an earlier command has made, perhaps one that was killed, is not made twice.
        """
        if not os.path.isfile(path):  # noqa: PTH113, Path.is_file fails in a locked folder
            self.not_copied += 1
            return
        try:
            original = Path(path).open("rb")  # noqa: SIM115
        except OSError:
            self.not_copied += 1
            return
        with original:
            try:
                self._write(original, Path(path).name)
            except OSError as error:
                raise self._error(error) from error
        self.copied += 1

    def describe(self) -> str:
        """Return how many files were copied, and how many were not."""
        copied = f"{self.copied:,} copied to {self.path}"
        if not self.not_copied:
            return copied
        return f"{copied}, {self.not_copied:,} not, as they have no file that can be copied"

    def _write(self, original: BinaryIO, name: str) -> None:
        with file_beside(self.path / name) as part:
            with part.open("wb") as copy:
                shutil.copyfileobj(original, copy)
                copy.flush()
                os.fsync(copy.fileno())
            self._give_name(part, name)

    def _give_name(self, part: Path, name: str) -> None:
        """Give a complete file its name, or that with a number if anything is there already."""
        stem, ending = os.path.splitext(name)  # noqa: PTH122, as a name may begin with a dot
        for number in count(self._used[name] + 1):
            free = self.path / (f"{stem}-{number}{ending}" if number > 1 else name)
            try:
                move_to_free_name(part, free)
            except FileExistsError:
                if not (free.is_file() and filecmp.cmp(part, free, shallow=False)):
                    continue
            self._used[name] = number
            return

    def _error(self, error: OSError) -> SettingsError:
        return SettingsError(
            f"--copy-anomalous {self.path}: {error.strerror or error}; {os_error_fix(error)}"
        )
