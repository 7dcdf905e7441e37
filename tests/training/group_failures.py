"""A member of a group in which the first process fails at once, and the others a moment later."""

import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from oddone import distributed
from oddone.errors import DataError


def fail_after(seconds: float) -> NoReturn:
    """Raise an error that a user can fix."""
    time.sleep(seconds)
    raise DataError("too few images")


def main(folder: Path) -> None:
    """Fail, and write what is left to say of it."""
    rank = os.environ["RANK"]
    try:
        with distributed.joined():
            fail_after(0 if rank == "0" else 1)
    except DataError as error:
        (folder / rank).write_text(str(error))
    except SystemExit:
        (folder / rank).write_text("")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
