"""Files of detectors that are pinned to a SHA-256."""

import asyncio
import hashlib
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="oddone[service] is not installed")

from oddone.errors import ArtifactError, SettingsError
from oddone.service.served import ServedDetectors
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
