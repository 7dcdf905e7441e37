"""`--sha256`: a detector's file is compared with a digest that came by another way."""

import hashlib
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]

WRONG = "0" * 64


@pytest.mark.parametrize(
    "words",
    [
        "score FILE PICTURES",
        "explain FILE PICTURES --number 0 --out why.png",
        "evaluate FILE PICTURES",
        "calibrate FILE PICTURES --out other.oddone",
        "report FILE --test PICTURES --out report.html",
        "serve FILE --port PORT",
        "export FILE --out d.onnx",
    ],
)
def test_a_file_with_another_digest_is_not_used(
    run_oddone: Run,
    detector_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        values = {"FILE": detector_file, "PICTURES": "digits", "PORT": free.getsockname()[1]}
    command = [str(values.get(word, word)) for word in words.split()]
    code, printed, complained = run_oddone(*command, "--sha256", WRONG)
    assert (code, printed) == (2, "")
    digest = hashlib.sha256(detector_file.read_bytes()).hexdigest()
    assert complained == (
        f"oddone: {detector_file} has the SHA-256 {digest}, not {WRONG}; do not use it, and get it "
        f"again\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_a_file_with_the_right_digest_is_used(run_oddone: Run, detector_file: Path) -> None:
    digest = hashlib.sha256(detector_file.read_bytes()).hexdigest()
    code, printed, _ = run_oddone("score", str(detector_file), "digits", "--sha256", digest)
    assert code == 0
    assert len(printed.splitlines()) > 1000


def test_a_service_of_two_detectors_takes_two_digests(run_oddone: Run) -> None:
    code, _, complained = run_oddone("serve", "a.oddone", "b.oddone", "--sha256", WRONG)
    assert code == 2
    assert "--sha256 is given 1 times for 2 detectors; give one for each" in complained


def test_a_report_on_two_detectors_takes_two_digests(
    run_oddone: Run, detector_file: Path, uncalibrated_file: Path, tmp_path: Path
) -> None:
    digest = hashlib.sha256(detector_file.read_bytes()).hexdigest()
    words = ["report", str(detector_file), str(uncalibrated_file), "--test", "digits", "--out"]
    words += [str(tmp_path / "report.html"), "--sha256", digest]
    code, _, complained = run_oddone(*words)
    assert code == 2
    assert "--sha256 is given 1 times for 2 detectors; give one for each" in complained
    code, _, complained = run_oddone(*words, "--sha256", digest)
    assert code == 2
    assert f"{uncalibrated_file} has the SHA-256" in complained
