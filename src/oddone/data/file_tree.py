"""What lies in a folder: class folders, picture files at any depth, and what is left out."""

import errno
import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from oddone.data.formats import ENDINGS, START, format_of
from oddone.data.image_set import BrokenFile
from oddone.errors import DataError

NAMES_SHOWN = 5  # in an error message
NO_ENDING = "without ending"
_OF_WINDOWS = ("thumbs.db", "desktop.ini")  # hidden there


@dataclass
class FolderContents:
    """The files below a folder. Hidden ones are not there."""

    pictures: list[str] = field(default_factory=list)
    """Their paths relative to the root, in fixed order."""
    left_out: Counter[str] = field(default_factory=Counter)
    """How many files are no pictures, by their endings."""
    locked: list[BrokenFile] = field(default_factory=list)
    """Folders that cannot be opened."""

    def add_file(self, entry: os.DirEntry[str], name: str) -> None:
        """Add a file, by its name relative to the root, where it belongs."""
        if _is_picture(entry):
            self.pictures.append(name)
        else:
            self.left_out[ending_of(name) or NO_ENDING] += 1


def look_below(root: Path, start: str = "") -> FolderContents:
    """Return what lies below a folder of the root.

    Links to folders are followed, but no folder is entered twice, so a loop of links ends. Only
    for the root itself it is an error that it cannot be opened.
    """
    contents = FolderContents()
    folders, entered = [start], set()
    while folders:
        folder = folders.pop()
        try:
            identity = (root / folder).stat()  # of the target, if it is a link
            if (identity.st_dev, identity.st_ino) in entered:
                continue
            entries = _visible(root / folder) if not folder else _enter(root / folder)
        except OSError as error:
            reason = f"folder cannot be opened: {(error.strerror or str(error)).lower()}"
            contents.locked.append(BrokenFile(str(root / folder), reason))
            continue
        entered.add((identity.st_dev, identity.st_ino))
        below = []
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if _is_folder(entry):
                below.append(name)
            else:
                contents.add_file(entry, name)
        folders += reversed(below)
    return contents


def class_folders(root: Path) -> tuple[str, ...]:
    """Return the names of the folders in the root that are not hidden, sorted."""
    return tuple(entry.name for entry in _visible(root) if _is_folder(entry))


def look_beside_classes(root: Path) -> FolderContents:
    """Return what lies directly in the root."""
    contents = FolderContents()
    for entry in _visible(root):
        if not _is_folder(entry):
            contents.add_file(entry, entry.name)
    return contents


def has_loose_pictures(root: Path) -> bool:
    """Return whether there are picture files directly in the root."""
    return any(_is_picture(entry) for entry in _visible(root) if not _is_folder(entry))


def stat_or_reason(path: Path | str) -> os.stat_result | str:
    """Return size and times of a file, or the reason why it cannot be opened."""
    try:
        status = os.stat(path)  # noqa: PTH116, a Path for each of 200,000 files is slow
    except OSError as error:  # a broken link, or a folder that we may not enter
        return (error.strerror or str(error)).lower()
    except ValueError:  # a null byte, which no name can have
        return "no name of a file"
    if stat.S_ISDIR(status.st_mode):
        return "is a directory"
    if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
        return "not a regular file"
    return status


def describe_contents(folder: Path) -> str:
    """Return the names of the first few files and folders in it, for an error message."""
    names = [entry.name + "/" * _is_folder(entry) for entry in _visible(folder)]
    if not names:
        return "nothing"
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


def _visible(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return _scan(folder)
    except OSError as error:
        raise DataError(
            f"cannot look into {folder}: {error.strerror}; make it a folder you may read"
        ) from error


def _enter(folder: Path) -> list[os.DirEntry[str]]:
    if not os.access(folder, os.X_OK):  # then its names can be read, but none of its files
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return _scan(folder)


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in the folder and not hidden, sorted by name."""
    with os.scandir(folder) as entries:
        visible = [entry for entry in entries if not is_hidden(entry.name)]
    return sorted(visible, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether it is a folder or a link to one.

    DirEntry.is_dir fails for a looping link, and Path.is_dir for a link into a locked folder.
    """
    return os.path.isdir(entry.path) if entry.is_symlink() else entry.is_dir()  # noqa: PTH112


def _is_picture(entry: os.DirEntry[str]) -> bool:
    """Return whether a file ends like a picture, or, without an ending, begins like one.

    Of a folder of 200,000 files, only those without an ending are opened.
    """
    ending = ending_of(entry.name)
    return ending in ENDINGS if ending else _begins_like_a_picture(Path(entry.path))


def is_hidden(name: str) -> bool:
    """Return whether a file or folder of that name is not shown to people."""
    return name.startswith(".") or name.lower() in _OF_WINDOWS


def ending_of(name: str) -> str:
    """Return the ending of a name, such as .jpg, in lower case."""
    return os.path.splitext(name)[1].lower()  # noqa: PTH122, a Path for each file is slow


def _begins_like_a_picture(path: Path) -> bool:
    if isinstance(stat_or_reason(path), str):
        return False
    try:
        with path.open("rb", buffering=0) as file:
            return format_of(file.read(START)) is not None
    except OSError:  # nobody knows that it would be a picture
        return False
