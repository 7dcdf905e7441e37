"""Files of detectors that are pinned to a SHA-256."""

import asyncio
import hashlib
from pathlib import Path
from unittest.mock import Mock

import pytest

pytest.importorskip("fastapi", reason="oddone[service] is not installed")

from oddone.errors import ArtifactError, SettingsError
from oddone.service.served import ServedDetectors
from oddone.service.service import Service
from oddone.service.settings import ServiceSettings
from small_detector import fitted


def test_a_pinned_detector_is_never_replaced_by_another_file(
    tiny_detector: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.oddone"
    content = tiny_detector.read_bytes()
    path.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    detectors = ServedDetectors({"tiny": path}, ServiceSettings(), {"tiny": digest.upper()})
    served = detectors.by_name["tiny"]
    before = served.loaded
    fitted(classes=4).save(path)
    for only_changed in (True, False):  # as the watch and SIGHUP do it
        asyncio.run(detectors.reload(only_changed=only_changed))
        assert served.loaded is before
    assert served.reloads == {"refused": 2}
    assert f"not {digest}; do not use it" in caplog.text
    path.write_bytes(content)
    asyncio.run(detectors.reload(only_changed=True))
    assert served.refused is None
    detectors.close()


def test_a_file_of_another_digest_is_not_served_at_all(tiny_detector: Path) -> None:
    for digest, error in (("0" * 64, ArtifactError), ("short", SettingsError)):
        with pytest.raises(error, match="sha256=|has the SHA-256"):
            ServedDetectors({"tiny": tiny_detector}, ServiceSettings(), {"tiny": digest})


def test_a_reload_ends_well_whatever_a_new_file_raises(
    tiny_detector: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.oddone"
    path.write_bytes(tiny_detector.read_bytes())
    detectors = ServedDetectors({"tiny": path}, ServiceSettings(), {})
    served = detectors.by_name["tiny"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(detectors, "_load", Mock(side_effect=RuntimeError("no memory left")))
        asyncio.run(detectors.reload())
    assert served.refused is not None
    fitted(classes=4).save(path)
    asyncio.run(detectors.reload(only_changed=True))
    assert served.refused is None
    assert len(served.loaded.detector.classes) == 4
    assert "the old one stays: no memory left" in caplog.text
    assert "Traceback" in caplog.text
    detectors.close()


def test_what_is_open_is_closed_where_something_before_it_fails(
    tiny_detector: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = ServiceSettings(decoders=1)
    service = Service({"tiny": tiny_detector}, settings, feedback=tmp_path / "feedback.sqlite")
    assert service.feedback is not None
    closed = Mock(side_effect=service.feedback.close)
    monkeypatch.setattr(service.feedback, "close", closed)
    close_decoders = service.decoders.close

    def fail() -> None:
        close_decoders()
        raise OSError("decoders")

    async def stop() -> None:
        async def failing() -> None:
            raise RuntimeError("reload")

        service._reloads.add(asyncio.create_task(failing()))
        await service.stop()

    monkeypatch.setattr(service.decoders, "close", fail)
    with pytest.raises(OSError, match="decoders"):
        asyncio.run(stop())
    assert closed.called
    assert not service.detectors.by_name
