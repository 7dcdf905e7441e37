"""What oddone raises and warns about when the input, not the program, is wrong.

    OddOneError (ValueError)
    ├── SettingsError    the settings contradict each other or the call
    │   └── InUseError   another process is at work in that folder
    ├── DataError        the data cannot support what was asked
    ├── ArtifactError    a file is no detector that can be trusted
    ├── DivergedError    training has left the numbers; earlier checkpoints are good
    └── ProcessError     another process of the run has ended, or cannot be reached

    SettingsWarning (UserWarning)    legal settings that the paper advises against, or costly ones
    DataWarning (UserWarning)        data that support what was asked, but barely

Every message names the thing, the number and the fix. For a mistyped word, `did_you_mean` is the
fix.
"""

import dataclasses
import difflib
import errno
import math
from collections.abc import Iterable
from typing import Any


class OddOneError(ValueError):
    """Something the caller can fix; the message says how.

    Examples
    --------
    >>> import oddone
    >>> oddone.MCLSettings(alpha=3.0)
    Traceback (most recent call last):
    oddone.errors.SettingsError: alpha=3.0: choose it above 0 and at most beta=2.5

    """


class SettingsError(OddOneError):
    """The settings contradict each other or the call; the message says which to change."""


class InUseError(SettingsError):
    """Another process is at work in a folder; the message says which one."""


class DataError(OddOneError):
    """The data cannot support what was asked; the message says what to add or drop."""


class ArtifactError(OddOneError):
    """The file is no detector, or not a whole, unaltered one; the message says which."""


class DivergedError(OddOneError):
    """The loss is no longer a number; the message says at which step and what to change."""


class ProcessError(OddOneError):
    """Another process of a run has ended or cannot be reached; the message says how to go on."""


class SettingsWarning(UserWarning):
    """The settings are legal, but outside what the paper's analysis covers, or of high cost."""


class DataWarning(UserWarning):
    """The data support what was asked, but barely; the message says how much more would do."""


def check_numbers(settings: Any, prefix: str = "") -> None:
    """Raise a SettingsError if a number among the fields of a dataclass is NaN.

    NaN is neither too small nor too large, so a check of a range may let it pass.
    """
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        parts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(part, float) and math.isnan(part) for part in parts):
            raise SettingsError(f"{prefix}{field.name}={value}: choose a number")


_FIXES = {
    errno.ENOSPC: "make room there, or choose another place",
    errno.EDQUOT: "make room there, or choose another place",
    errno.EIO: "the disk may be failing; choose another place",
    errno.EROFS: "choose a place that can be written to",
    errno.EACCES: "choose a place that you may use",
    errno.EPERM: "choose a place that you may use",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "let this process open more files (ulimit -n)",
    errno.EFBIG: "let this process write larger files (ulimit -f)",
}


def describe_os_error(error: OSError) -> str:
    """Return in a line what the system refuses, of which file, and what to do about it.

    >>> describe_os_error(OSError(errno.ENOSPC, "No space left on device", "run/history.jsonl"))
    'run/history.jsonl: No space left on device; make room there, or choose another place'
    """
    what = error.strerror or str(error) or type(error).__name__
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{what}; {os_error_fix(error)}"


def os_error_fix(error: OSError) -> str:
    """Return what to do about what the system refuses, which depends on why it does.

    >>> os_error_fix(OSError(errno.EROFS, "Read-only file system"))
    'choose a place that can be written to'
    """
    return _FIXES.get(error.errno or 0, "choose another file or folder")


def closest_match(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is spelled most like the word, or None if none is similar.

    Upper and lower case count as the same letter.
    """
    by_lower_case = {choice.lower(): choice for choice in choices}
    closest = difflib.get_close_matches(word.lower(), by_lower_case, n=1)
    return by_lower_case[closest[0]] if closest else None


def did_you_mean(word: str, choices: Iterable[str], *, otherwise: str) -> str:
    """Return the last part of a message about an unknown word: a choice, or else `otherwise`.

    >>> did_you_mean("cifra10", ["cifar10", "svhn"], otherwise="write cifar10 or svhn")
    "did you mean 'cifar10'?"
    """
    closest = closest_match(word, choices)
    return otherwise if closest is None else f"did you mean {closest!r}?"
