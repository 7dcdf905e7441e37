"""Try what each file of a folder does to its reader, in a process of its own, and write it down.

Called as `case_runner.py READER FOLDER JOURNAL [FAULT]`: a function such as
`picture_readers.picture`, a folder with an entry for each case, and a function of
`planted_faults.py` to call before. The journal has a
line when a case begins and one when it has ended, so that whoever reads it knows which case ended
the process. Cases that are in the journal already are left out.
"""

import faulthandler
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import planted_faults

from oddone.data.decode import BrokenImageError
from oddone.errors import OddOneError

GIVEN_UP = {"folder": 1200.0}
"""Seconds of processor time after which a case of this reader is given up; of others, 20."""
HANGS = {"folder": 1500.0}
"""Seconds by the clock after which one is that waits for something; of others, MOST_WAIT."""
MOST_WAIT = 120.0
MOST_ADDRESSES = 12 * 2**30  # bytes, so that no case takes all memory of the machine
RUNS_CODE = {
    *("os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen"),
    *("pickle.find_class", "socket.connect"),
}
"""What Python tells an audit hook when a file is about to do more than be read."""


def main() -> None:
    """Try all cases that have not been tried yet."""
    module, _, name = sys.argv[1].partition(".")
    read = getattr(importlib.import_module(module), name)
    folder, journal = Path(sys.argv[2]), Path(sys.argv[3])
    for fault in sys.argv[4:]:
        getattr(planted_faults, fault)()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESSES, MOST_ADDRESSES))
    faulthandler.enable()  # a crash says where it was
    faulthandler.register(signal.SIGPROF, chain=True)  # and so does a case that is given up
    events: list[str] = []
    sys.addaudithook(lambda event, _: events.append(event) if event in RUNS_CODE else None)
    tried = {json.loads(line)["name"] for line in journal.read_text().splitlines()}
    with journal.open("a", buffering=1) as file:
        for path in sorted(folder.iterdir()):
            if path.name in tried:
                continue
            file.write(json.dumps({"name": path.name}) + "\n")
            events.clear()
            outcome = _tried(read, path)
            file.write(json.dumps({"name": path.name, **outcome, "ran": events}) + "\n")


def _tried(read: Callable[[Path], Any], path: Path) -> dict[str, Any]:
    """Return what became of a case, how much processor time it took, and how much more memory."""
    faulthandler.dump_traceback_later(HANGS.get(read.__name__, MOST_WAIT), exit=True)
    signal.setitimer(signal.ITIMER_PROF, GIVEN_UP.get(read.__name__, 20.0))
    before, began = _forget_peak(), time.process_time()
    try:
        outcome = {"read": read(path)}
    except (OddOneError, BrokenImageError) as error:
        outcome = {"refused": str(error)}
    except BaseException:  # noqa: BLE001  (all others are what is looked for)
        outcome = {"raised": traceback.format_exc()}
    seconds = time.process_time() - began
    signal.setitimer(signal.ITIMER_PROF, 0)
    faulthandler.cancel_dump_traceback_later()
    return {**outcome, "seconds": seconds, "bytes": _status("VmHWM") - before}


def _forget_peak() -> int:
    """Let Linux measure the peak of memory anew, and return how much is taken now."""
    if os.path.exists("/proc/self/clear_refs"):  # noqa: PTH110
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(name: str) -> int:
    """Return a number of bytes from what Linux says of this process; elsewhere 0."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)


main()
