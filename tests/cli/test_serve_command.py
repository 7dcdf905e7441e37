import builtins
import socket
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from oddone.cli.serve import detectors_by_name, read_token
from oddone.errors import SettingsError

Run = Callable[..., tuple[int, str, str]]


def test_detectors_have_the_names_they_are_given_or_those_of_their_files() -> None:
    found = detectors_by_name(["runs/birds.oddone", "weeds=other.oddone"])
    assert found == {"birds": Path("runs/birds.oddone"), "weeds": Path("other.oddone")}
    for words in (["a=x", "a=y"], ["=x"], ["a\n=x"]):
        with pytest.raises(SettingsError, match="NAME=FILE"):
            detectors_by_name(words)


def test_a_path_with_an_equals_sign_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("rate=0.1/birds.oddone")
    path.parent.mkdir()
    assert detectors_by_name([str(path)]) == {"rate": Path("0.1/birds.oddone")}
    path.touch()
    assert detectors_by_name([str(path)]) == {"birds": path}
    assert detectors_by_name(["gone/rate=0.1.oddone"]) == {"rate=0.1": Path("gone/rate=0.1.oddone")}
    assert detectors_by_name([f"here={path}"]) == {"here": path}


def test_a_token_comes_from_a_file_or_the_environment_and_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ODDONE_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("ODDONE_TOKEN", "from the environment")
    assert read_token(None) == "from the environment"
    (tmp_path / "token").write_text("0123456789abcdef\n")
    assert read_token(tmp_path / "token") == "0123456789abcdef"
    (tmp_path / "token").write_text("short")
    with pytest.raises(SettingsError, match="token has 5 characters"):
        read_token(tmp_path / "token")
    (tmp_path / "token").write_bytes(bytes(range(100, 200)))
    with pytest.raises(SettingsError, match="token has 100 characters; .* printable ASCII"):
        read_token(tmp_path / "token")


def test_a_file_that_is_no_detector_is_one_line(run_oddone: Run, tmp_path: Path) -> None:
    (tmp_path / "text.oddone").write_text("nothing")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = ["--port", str(free.getsockname()[1])]
    code, _, complained = run_oddone("serve", str(tmp_path / "text.oddone"), *port)
    assert code == 2
    assert complained.startswith("oddone: ")
    assert "text.oddone" in complained
    code, _, complained = run_oddone("serve", str(tmp_path / "gone.oddone"), *port)
    assert (code, len(complained.splitlines())) == (2, 1)


def test_a_port_that_is_taken_is_told_before_anything_is_loaded(
    run_oddone: Run, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = [str(tmp_path / "gone.oddone"), "--port", port]
        code, _, complained = run_oddone("serve", *words)
    assert code == 2
    assert f"port {port} of 127.0.0.1 cannot be used" in complained
    code, _, complained = run_oddone("serve", "gone.oddone", "--port", "70000")
    assert (code, "choose one from 1 to 65535" in complained) == (2, True)


@pytest.mark.parametrize("host", ["192.0.2.1", "a..b"])
def test_a_host_that_is_not_this_machine_is_one_line(run_oddone: Run, host: str) -> None:
    code, _, complained = run_oddone("serve", "gone.oddone", "--host", host, "--port", "8123")
    assert (code, complained.count("\n")) == (2, 1)
    assert f"--host '{host}' is no address of this machine; choose one, such as" in complained


def test_a_host_may_be_in_brackets_as_in_a_url(
    run_oddone: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = Mock(side_effect=SettingsError("this is enough"))
    monkeypatch.setattr("oddone.service.server.listen", listen)
    for host in ("::1", "[::1]"):
        code, _, complained = run_oddone("serve", "gone.oddone", "--host", host)
        assert (code, complained) == (2, "oddone: this is enough\n")
    assert listen.call_args_list == [call("::1", 8000)] * 2


def test_limits_are_checked_before_anything_is_loaded(run_oddone: Run, tmp_path: Path) -> None:
    code, _, complained = run_oddone("serve", str(tmp_path / "gone.oddone"), "--files", "0")
    assert code == 2
    assert "choose a number above 0" in complained


def test_without_the_extra_the_install_command_is_told(
    run_oddone: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import_module = builtins.__import__

    def refuse(name: str, *rest: object, **more: object) -> object:
        if name in ("oddone.service.server", "oddone.service.service"):
            raise ImportError(name="uvicorn")
        return import_module(name, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    code, _, complained = run_oddone("serve", str(tmp_path / "gone.oddone"))
    assert code == 2
    assert "pip install 'oddone[service]'" in complained


def test_calibrate_takes_a_source_or_feedback_but_not_both(
    run_oddone: Run, detector_file: Path, tmp_path: Path
) -> None:
    code, _, complained = run_oddone("calibrate", str(detector_file))
    assert (code, "--from-service FILE" in complained) == (2, True)
    words = ["--from-service", str(tmp_path / "feedback.sqlite")]
    code, _, complained = run_oddone("calibrate", str(detector_file), "photos", *words)
    assert (code, "neither a source nor --adaptive" in complained) == (2, True)
    code, _, complained = run_oddone("calibrate", str(detector_file), *words)
    assert (code, "is no file" in complained) == (2, True)
