"""The command line: one file for each command. Torch is imported only when a command needs it."""

# libgomp's threads spin while they wait for each other. When another program takes one of their
# cores away, the spinning thread keeps the delayed one from running (docs/decisions/0004). This
# must be set before torch is imported.
import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import sys
import traceback
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError
from rich.console import Console
from rich.text import Text

from oddone import __version__
from oddone.cli import data
from oddone.cli.options import check_values
from oddone.cli.terminal import printable
from oddone.errors import OddOneError, describe_os_error, did_you_mean

app = App(
    name="oddone",
    version=__version__,
    help="Train an image classifier that knows when it is looking at something it has never seen.",
    help_format="markdown",
    result_action="return_value",
    exit_on_error=False,
    print_error=False,
    config=check_values,
)
app.meta.config = ()  # it takes all words as they are; the commands look at them
app.command(data.app)

# These files import torch, so each is imported only when its command is given. What `oddone --help`
# says of the commands is therefore written here.
for name, purpose, example in (
    (
        "fit",
        "Make a detector for labelled images in a minute, without training.",
        "oddone fit photos/ --out birds.oddone",
    ),
    (
        "train",
        "Train a detector on labelled images, or go on with a run that was stopped.",
        "oddone train photos/ --out run --minutes 30",
    ),
    (
        "score",
        "Name the class of images, and say which are none of the classes.",
        "oddone score run new-photos/ --out scores.csv",
    ),
    (
        "explain",
        "Draw a picture of why an image got its verdict.",
        "oddone explain run photo.jpg --out why.png",
    ),
    (
        "evaluate",
        "Measure a detector: accuracy, and AUROC against images of no known class.",
        "oddone evaluate run test-photos/ --ood weeds=weeds/ --out result.json",
    ),
    (
        "report",
        "Show all about a detector, or a record of oddone bench, on one HTML page.",
        "oddone report run --test test-photos/ --ood weeds=weeds/ --out report.html",
    ),
    (
        "calibrate",
        "Set a detector's threshold with normal images that it was not trained on.",
        "oddone calibrate run normal-photos/ --false-alarms 0.01",
    ),
    (
        "export",
        "Write a detector as one ONNX graph, for programs without oddone.",
        "oddone export run --out detector.onnx",
    ),
    (
        "serve",
        "Serve detectors over HTTP, with a page to drop pictures on.",
        "oddone serve run --port 8000 --feedback feedback.sqlite",
    ),
    (
        "bench",
        "Reproduce the paper's tables, method by method, or show them.",
        "oddone bench paper-sei --data datasets --out bench",
    ),
    (
        "demo",
        "Train, calibrate, evaluate and explain on the images inside oddone.",
        "oddone demo",
    ),
):
    help_text = f"{purpose}\n\nExample: `{example}`"
    app.command(f"oddone.cli.{name}:app", name=name, help=help_text)


@app.meta.default
def launch(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
    debug: Annotated[bool, Parameter(negative=(), help="Show the traceback of an error.")] = False,
) -> int:
    """Run one command and return its exit code, which is 2 for an error that the user can fix."""
    try:
        return app(tokens) or 0
    except (OddOneError, OSError, MemoryError) as error:
        if not debug:
            return _print_error(error)
        traceback.print_exc()
        return 2


def main() -> None:
    """Run the command line and exit."""
    _open_closed_streams()
    try:
        code = app.meta(sys.argv[1:])
    # An unknown command or option, or a command whose extra is missing: a traceback would not help.
    except (CycloptsError, OddOneError, OSError, MemoryError) as error:
        code = _print_error(error)
    sys.exit(code or 0)


def _open_closed_streams() -> None:
    """Let a stream that was closed, as by >&-, come from nowhere or lead there."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, nowhere)


def _print_error(error: OddOneError | OSError | MemoryError | CycloptsError) -> int:
    """Print an error in one line, and return the exit code."""
    if isinstance(error, UnknownCommandError) and error.app is app and error.unused_tokens:
        message = _unknown_command(error.unused_tokens[0])
    elif isinstance(error, OSError):
        message = describe_os_error(error)
    elif isinstance(error, MemoryError):
        what = f" ({error})" if str(error) else ""
        message = f"there is not enough memory{what}; use smaller images, or fewer at a time"
    else:
        message = str(error)
    line = Text.assemble(("oddone: ", "bold red"), printable(message))
    Console(stderr=True).print(line, highlight=False, soft_wrap=True)
    return 2


def _unknown_command(word: str) -> str:
    """Return the message; cyclopts' own would import all commands, and torch with them."""
    commands = [name for name in app if not name.startswith("-")]
    hint = did_you_mean(word, commands, otherwise=f"the commands are {', '.join(commands)}")
    return f"unknown command {word!r}; {hint}"
