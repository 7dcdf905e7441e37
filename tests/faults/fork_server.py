"""Run the command line many times, each time in a process of its own, and import it only once.

Torch takes seconds to import. This process does it, and for each line of JSON on its standard input
(`Launcher.run` writes it) forks a child that has not yet started a thread, and is in all else a new
process of `oddone`. It answers each with a line: the child's exit code, or minus the number of the
signal that ended it.
"""

import ctypes
import gc
import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import changes
import matplotlib.font_manager  # noqa: F401
import pyarrow.parquet  # noqa: F401
import sklearn.linear_model
import sklearn.manifold  # noqa: F401
import torch._dynamo  # noqa: F401

import oddone.cli.bench
import oddone.cli.calibrate
import oddone.cli.explain
import oddone.cli.fit
import oddone.cli.report
import oddone.cli.score
import oddone.cli.train


def main() -> None:
    """Serve until the input ends."""
    gc.freeze()  # or a child's collector would copy all pages that it shares with this process
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(_run_oddone(request))  # to take down a large interpreter takes a second
        if request["kill_after"] is not None:
            time.sleep(request["kill_after"])
            os.kill(
                child, signal.SIGKILL
            )  # one that has ended waits for waitpid, so this is no error
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def _run_oddone(request: dict[str, Any]) -> int:
    """Run one command, with what it prints in files, and return its exit code."""
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(request[name], os.O_CREAT | os.O_WRONLY | os.O_TRUNC), descriptor)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(request["environment"])
    sys.argv = ["oddone", *request["words"]]
    for change in request["changes"]:
        getattr(changes, change)()
    log = os.open(request["log"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND)
    folder = os.fsencode(Path(request["folder"]))
    ctypes.CDLL(None).arm(
        folder, request["fault"].encode(), ctypes.c_long(request["number"]), ctypes.c_int(log)
    )
    try:
        oddone.cli.main()
    except SystemExit as exit_:
        return int(exit_.code or 0)
    except BaseException:  # noqa: BLE001  (what the interpreter would do)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 1


main()
