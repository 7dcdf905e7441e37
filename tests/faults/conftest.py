"""The harness of faults: what people, disks and files do to oddone, many times over.

Every test here makes many trials: few in `make test`, many in `make torture`. Two variables of the
environment say which, and `benchmarks/torture.py` sets both:

- ODDONE_TORTURE: the share of the long form, 1 for all of it; unset, it is the short form.
- ODDONE_TORTURE_FIGURES: a file that each test adds its figures to, as lines of JSON.

A test says how many trials it makes by `rounds(short, long)`, and makes each of them inside
`with trials.trial("kill: train", details)`. That counts it, and keeps its failure until the test
ends, so that all trials are made. A name is the part of the harness and what is tried; the record
of `make torture` has the sums of each name.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Stage
from launcher import launcher, reason_to_skip
from trials import Rounds, Trials


@pytest.fixture(scope="session")
def rounds() -> Rounds:
    """Return a function from the numbers of the short and the long form to that of this one."""
    share = os.environ.get("ODDONE_TORTURE")
    return lambda short, long: short if share is None else max(short, round(float(share) * long))


@pytest.fixture
def trials() -> Iterator[Trials]:
    """Count trials; at the end of the test, tell their figures, and fail if one of them did."""
    made = Trials()
    yield made
    figures = os.environ.get("ODDONE_TORTURE_FIGURES")
    if figures is not None:
        made.append_figures(Path(figures))
    made.check()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Return where commands are run and disturbed."""
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("faults")
    with launcher(folder, ODDONE_CACHE=str(folder / "work" / "cache")) as started:
        yield Stage(folder, started)
