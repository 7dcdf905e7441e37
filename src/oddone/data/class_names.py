"""Names of classes, which people are shown: in tables, on pages and in terminals."""

import re
import reprlib
from collections import Counter
from collections.abc import Iterator, Sequence

from oddone.errors import DataError

LONGEST_CLASS_NAME = 4096
"""As long as a path can be: a class may have the name of a folder."""
# Control characters, ends of lines, and what turns the direction of the letters around it. Names
# that are no UTF-8, and letters that only join others, are somebody's folders and harmless.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def class_name_faults(classes: Sequence[str]) -> Iterator[str]:
    """Yield why classes have no names of their own that people can be shown."""
    for name, classes_of_name in Counter(classes).items():
        if classes_of_name > 1:
            yield f"the class {reprlib.repr(name)} is there twice"
        if len(name) > LONGEST_CLASS_NAME:
            yield f"a class has a name of {len(name):,} characters"
        if not name.strip():
            yield f"a class has the empty name {reprlib.repr(name)}"
        elif _CONTROLS.search(name):
            yield f"the name of the class {reprlib.repr(name)} has control characters"


def check_class_names(classes: Sequence[str]) -> None:
    """Raise a DataError where a detector of these classes could not be read again."""
    for fault in class_name_faults(classes):
        raise DataError(f"{fault}; rename its folder or its label")
