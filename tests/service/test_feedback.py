"""What users say is stored with the verdict that the service gave, and sets a new threshold."""

import hashlib
import shutil
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from oddone.detector import Detector
from oddone.errors import ArtifactError, DataError, SettingsError
from oddone.service.feedback import (
    Feedback,
    FeedbackStore,
    read_confirmed,
    use_write_ahead_log,
)
from oddone.service.recalibration import calibrate_by_feedback
from small_detector import fitted

Start = Callable[..., TestClient]


def said(image: str = "0" * 64, **changes: object) -> Feedback:
    feedback = Feedback(
        detector="tiny",
        detector_sha256="a" * 64,
        scoring_digest="digest",
        image_sha256=image,
        score=1.5,
        p_value=0.5,
        label=1,
        class_name="class 1",
        anomalous=False,
        said="normal",
    )
    return replace(feedback, **changes)  # type: ignore[arg-type]


def test_services_that_begin_at_once_share_a_new_file(tmp_path: Path) -> None:
    for number in range(10):
        path, together = tmp_path / f"{number}.sqlite", threading.Barrier(4)

        def begin(path: Path = path, together: threading.Barrier = together) -> int:
            together.wait()
            store = FeedbackStore(path)
            try:
                return store.add(said())
            finally:
                store.close()

        with ThreadPoolExecutor(4) as services:
            added = [services.submit(begin) for _ in range(4)]
        assert sorted(each.result() for each in added) == [1, 2, 3, 4]
        assert read_confirmed(path, "digest").last == 4


class BusyFile(sqlite3.Connection):
    """A connection whose first statements fail."""

    def __init__(self, failures: int, code: int) -> None:
        super().__init__(":memory:")
        self.failures, self.code = failures, code

    def execute(self, statement: str, *values: object) -> sqlite3.Cursor:  # type: ignore[override]
        self.failures -= 1
        if self.failures >= 0:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = self.code
            raise error
        return super().execute(statement, *values)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_BUSY_RECOVERY])
def test_a_file_that_others_switch_is_waited_for_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    busy = BusyFile(3, code)
    use_write_ahead_log(busy)
    assert busy.failures == -1
    monkeypatch.setattr("oddone.service.feedback.SECONDS_TO_WAIT", 0.1)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        use_write_ahead_log(BusyFile(10**9, code))


def test_a_file_that_fails_otherwise_is_not_tried_again() -> None:
    broken = BusyFile(1, sqlite3.SQLITE_IOERR)
    with pytest.raises(sqlite3.OperationalError):
        use_write_ahead_log(broken)
    assert broken.failures == 0


def test_feedback_has_the_verdict_of_the_service_and_the_digest_of_the_picture(
    start: Start, pictures: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "feedback.sqlite"
    client = start(feedback=path)
    (scored,) = client.post("/v1/score", files={"files": ("0.png", pictures["0.png"])}).json()[
        "images"
    ]
    body = {"sha256": scored["sha256"], "said": "anomalous", "class_name": "class 2"}
    answer = client.post("/v1/feedback", json=body)
    assert (answer.status_code, answer.json()) == (201, {"number": 1})
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    (row,) = connection.execute("select * from feedback").fetchall()
    connection.close()
    assert row["image_sha256"] == hashlib.sha256(pictures["0.png"]).hexdigest()
    assert row["score"] == scored["score"]
    assert row["class_name"] == scored["class_name"]
    assert (row["said"], row["said_class"]) == ("anomalous", "class 2")
    text = client.get("/metrics").text
    assert 'oddone_feedback_total{detector="tiny",said="anomalous"} 1.0' in text
    assert client.get("/v1/model").json()["feedback"] is True


def test_what_was_never_scored_cannot_be_said_anything_of(
    client: TestClient, pictures: dict[str, bytes]
) -> None:
    answer = client.post("/v1/feedback", json={"sha256": "f" * 64, "said": "normal"})
    assert answer.status_code == 404
    (scored,) = client.post("/v1/score", files={"files": ("0.png", pictures["0.png"])}).json()[
        "images"
    ]
    body = {"sha256": scored["sha256"], "said": "normal", "class_name": "no class"}
    assert client.post("/v1/feedback", json=body).status_code == 422


def test_a_full_disk_is_507_and_what_was_stored_stays(
    start: Start, pictures: dict[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "feedback.sqlite"
    client = start(feedback=path)
    (scored,) = client.post("/v1/score", files={"files": ("0.png", pictures["0.png"])}).json()[
        "images"
    ]
    body = {"sha256": scored["sha256"], "said": "normal"}
    assert client.post("/v1/feedback", json=body).status_code == 201
    store = client.app.state.service.feedback  # type: ignore[attr-defined]
    (pages,) = store._connection.execute("pragma page_count").fetchone()
    store._connection.execute(f"pragma max_page_count = {pages}")
    statuses = [client.post("/v1/feedback", json=body).status_code for _ in range(100)]
    stored = 1 + statuses.count(201)
    assert set(statuses) == {201, 507}
    assert "is full" in client.post("/v1/feedback", json=body).json()["detail"]
    assert store.count() == stored
    assert client.post("/v1/score", files={"files": ("0.png", pictures["0.png"])}).is_success


def test_the_last_word_on_an_image_counts_once(tmp_path: Path) -> None:
    store = FeedbackStore(tmp_path / "feedback.sqlite")
    store.add(said("a" * 64, score=1.0))
    store.add(said("a" * 64, score=1.0))
    store.add(said("b" * 64, score=2.0))
    store.add(said("c" * 64, score=3.0, said="anomalous"))
    last = store.add(said("b" * 64, score=2.0, said="anomalous"))
    store.add(said("d" * 64, score=4.0, scoring_digest="of another"))
    confirmed = read_confirmed(store.path, "digest")
    assert (confirmed.scores, confirmed.labels, confirmed.last) == ([1.0], [1], last + 1)
    store.add(said("e" * 64, score=5.0))
    assert read_confirmed(store.path, "digest", {confirmed.store: confirmed.last}).scores == [5.0]
    store.close()


def test_a_file_of_feedback_is_opened_again_and_others_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "feedback.sqlite"
    for wanted in (1, 2):
        store = FeedbackStore(path)
        assert store.add(said()) == wanted
        assert store.count() == wanted
        store.close()
    other = sqlite3.connect(tmp_path / "other.sqlite")
    other.execute("create table mine (a)")
    other.close()
    (tmp_path / "text").write_text("no database at all, but text of some length")
    for name in ("other.sqlite", "text", "missing/folder.sqlite"):
        with pytest.raises(ArtifactError, match=name.rpartition("/")[2]):
            FeedbackStore(tmp_path / name)
    with pytest.raises(ArtifactError, match="is no file"):
        read_confirmed(tmp_path / "gone", "digest")
    with pytest.raises(ArtifactError, match="cannot be used"):
        read_confirmed(tmp_path / "text", "digest")


def test_a_detector_is_calibrated_by_what_users_confirm_and_each_word_counts_once(
    tmp_path: Path,
) -> None:
    detector, path = fitted(), tmp_path / "feedback.sqlite"
    before = detector.calibration
    assert before is not None
    digest, top = detector.scoring_digest(), before.scores[-1].item()
    store = FeedbackStore(path)
    for number in range(12):
        image = f"{number:064d}"
        store.add(said(image, scoring_digest=digest, score=top + 1 + number, anomalous=True))
    after = calibrate_by_feedback(detector, path, false_alarms=0.1)
    assert after.calibration is not None
    assert len(after.calibration.scores) == 72
    assert after.threshold is not None
    assert detector.threshold is not None
    assert after.threshold > detector.threshold
    assert after.scoring_digest() == digest
    with pytest.raises(DataError, match="no new image"):
        calibrate_by_feedback(after, path)
    store.add(said("f" * 64, scoring_digest=digest))
    store.close()
    again = calibrate_by_feedback(after, path)
    assert again.calibration is not None
    assert len(again.calibration.scores) == 73
    again.save(tmp_path / "again.oddone")
    assert Detector.load(tmp_path / "again.oddone").scoring_digest() == digest
    with pytest.raises(SettingsError, match="labels of the calibration images"):
        calibrate_by_feedback(detector, path, per_class=True)
    with pytest.raises(SettingsError, match="no calibration"):
        calibrate_by_feedback(replace(detector, calibration=None), path)


def test_another_detector_has_another_scoring_digest(tmp_path: Path) -> None:
    detector = fitted()
    other = replace(
        detector, gaussians=replace(detector.gaussians, mean=detector.gaussians.mean + 1)
    )
    assert other.scoring_digest() != detector.scoring_digest()
    assert replace(detector, space="features").scoring_digest() != detector.scoring_digest()
    path = tmp_path / "d.oddone"
    detector.save(path)
    shutil.copy(path, tmp_path / "copy.oddone")
    assert Detector.load(tmp_path / "copy.oddone").scoring_digest() == detector.scoring_digest()
