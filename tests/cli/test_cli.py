import subprocess
import sys
from collections.abc import Callable

import pytest

from oddone import __version__

Run = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("words", ["--help", "data --help", "data fix --help", "", "data", "dat"])
def test_help_and_typos_are_answered_without_torch_and_numpy(words: str) -> None:
    script = """if True:
        import atexit, sys
        from oddone.cli import main
        heavy = ("torch", "numpy", "PIL", "scipy", "pooch", "requests")
        atexit.register(lambda: print("LOADED", [name for name in heavy if name in sys.modules]))
        main()
        """
    command = [sys.executable, "-c", script, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert "LOADED []" in done.stdout
    assert done.returncode == (2 if words == "dat" else 0)


def test_help_says_what_the_commands_do(run_oddone: Run) -> None:
    code, printed, _ = run_oddone("--help")
    assert code == 0
    for text in ("data", "List, describe, download", "train", "Train a detector", "--debug"):
        assert text in printed


@pytest.mark.parametrize("command", ["list", "info", "get", "fix", "clean"])
def test_every_data_command_has_an_example_in_its_help(run_oddone: Run, command: str) -> None:
    code, printed, _ = run_oddone("data", command, "--help")
    assert code == 0
    assert f"Example: oddone data {command}" in printed


@pytest.mark.parametrize("command", ["train", "score", "explain", "evaluate", "calibrate", "demo"])
def test_every_command_has_an_example_in_its_help(run_oddone: Run, command: str) -> None:
    code, printed, _ = run_oddone(command, "--help")
    assert code == 0
    assert f"Example: oddone {command}" in printed


@pytest.mark.parametrize("words", ["--version", "dat"])
def test_python_runs_the_package_as_the_command(run_oddone: Run, words: str) -> None:
    command = [sys.executable, "-m", "oddone", words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout, done.stderr) == run_oddone(words)


def test_the_version_is_told(run_oddone: Run) -> None:
    assert run_oddone("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("dat", "unknown command 'dat'; did you mean 'data'?"),
        ("frobnicate", "unknown command 'frobnicate'; the commands are data, fit"),
        ("data lst", 'Did you mean "list"?'),
        ("data fix a b --cont 3", "Unknown option: --cont. Did you mean --count?"),
        ("data fix a b --count three", 'unable to convert "three" into int'),
        ("data info", "SOURCE requires an argument"),
        ("data get svnh", 'Did you mean "svhn"?'),
        ("--debug=maybe data list", 'unable to convert "maybe" into bool'),
    ],
)
def test_a_mistyped_command_line_is_one_line_with_the_nearest_choice_and_exit_code_2(
    run_oddone: Run, words: str, message: str
) -> None:
    code, printed, complained = run_oddone(*words.split())
    assert (code, printed) == (2, "")
    assert complained.startswith("oddone: ")
    assert message in complained
    assert complained.count("\n") == 1


def test_an_error_is_one_line_and_exit_code_2(run_oddone: Run) -> None:
    code, printed, complained = run_oddone("data", "info", "nowhere/at [red]all[/]")
    assert (code, printed) == (2, "")
    assert complained.startswith("oddone: 'nowhere/at [red]all[/]' does not exist")
    assert complained.count("\n") == 1


@pytest.mark.parametrize("words", ["--debug data info nowhere", "data info nowhere --debug"])
def test_debug_shows_the_traceback_of_an_error(run_oddone: Run, words: str) -> None:
    code, _, complained = run_oddone(*words.split())
    assert code == 2
    assert "Traceback (most recent call last)" in complained
    assert "DataError: 'nowhere' does not exist" in complained


@pytest.mark.parametrize("command", ["demo", "explain", "report"])
def test_help_without_matplotlib_is_help_or_one_line_that_names_the_extra(command: str) -> None:
    script = """if True:
        import sys
        sys.modules["matplotlib"] = None
        from oddone.cli import main
        main()
        """
    line = [sys.executable, "-c", script, command, "--help"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    assert "Traceback" not in done.stderr
    assert f"Example: oddone {command}" in done.stdout or "oddone[report]" in done.stderr


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["score", ""], "DETECTOR"),
        (["score", "run", ""], "SOURCES"),
        (["score", "run", "photos", "--out", ""], "--out"),
        (["score", "run", "photos", "--out="], "--out"),
        (["score", "run", "photos", "--copy-anomalous", ""], "--copy-anomalous"),
        (["train", ""], "--source"),
        (["train", "photos", "--lr", ""], "--optimiser.learning-rate"),
        (["data", "fix", "", "out"], "FOLDER"),
    ],
)
def test_an_empty_value_is_not_taken_for_this_folder(
    run_oddone: Run, words: list[str], name: str
) -> None:
    code, _, error = run_oddone(*words)
    assert code == 2
    assert error.startswith(f"oddone: {name} is empty; give it a value, or leave it out")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        "train fashion --out run --batch.images 2.5",
        "bench paper-sei --out out --seeds 2.5",
        "data info fashion --size 2.5",
    ],
)
def test_a_broken_number_is_not_rounded_where_a_whole_one_is_wanted(
    run_oddone: Run, words: str
) -> None:
    code, _, error = run_oddone(*words.split())
    assert code == 2
    assert f"{words.split()[-2]} 2.5: choose a whole number, such as 2" in error
