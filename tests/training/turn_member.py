"""One of two processes, the first of which fails in its turn and takes a second to leave.

Its arguments are a folder and a port.
"""

import os
import sys
import time
from pathlib import Path

from oddone import distributed
from oddone.errors import DataError, OddOneError


def main() -> None:
    """Fail, and write who says what of it."""
    folder, rank = Path(sys.argv[1]), os.environ["RANK"]
    os.environ["MASTER_PORT"] = sys.argv[2]
    try:
        with distributed.joined(join_seconds=120):
            fail_in_turn()
    except OddOneError as error:
        (folder / f"failed {rank}.txt").write_text(str(error))
    except SystemExit as ended:
        (folder / f"silent {rank}.txt").write_text(str(ended.code))


def fail_in_turn() -> None:
    try:
        with distributed.in_turn():
            raise DataError("the disk is full; free some of it")
    finally:
        if distributed.is_first():
            time.sleep(1)


if __name__ == "__main__":
    main()
