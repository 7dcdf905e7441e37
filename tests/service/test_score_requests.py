"""Pictures over HTTP get the verdicts that `oddone score` gives them, or a reason."""

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from oddone.detector import Detector


def files_of(pictures: dict[str, bytes]) -> list[tuple[str, tuple[str, bytes]]]:
    return [("files", item) for item in pictures.items()]


def test_verdicts_are_those_of_the_detector_on_the_same_files(
    client: TestClient, pictures: dict[str, bytes], tiny_detector: Path, tmp_path: Path
) -> None:
    for name, content in pictures.items():
        (tmp_path / name).write_bytes(content)
    detector = Detector.load(tiny_detector)
    answer = client.post("/v1/score", files=files_of(pictures))
    assert answer.status_code == 200
    images = answer.json()["images"]
    assert [image["name"] for image in images] == list(pictures)
    for image, scored in zip(images, detector.score(str(tmp_path)), strict=True):
        verdict = scored.verdict
        assert verdict is not None
        assert image["score"] == pytest.approx(verdict.score, rel=1e-5)
        assert image["class_name"] == scored.class_name
        assert image["anomalous"] == verdict.anomalous
        assert image["p_value"] == pytest.approx(verdict.p_value)
        assert image["sha256"] == hashlib.sha256(pictures[image["name"]]).hexdigest()
        assert verdict.probabilities is not None
        assert list(image["probabilities"].values()) == pytest.approx(
            verdict.probabilities.tolist(), abs=1e-6
        )


def test_json_with_base64_is_the_same_as_files(
    client: TestClient, pictures: dict[str, bytes]
) -> None:
    encoded = [
        {"name": name, "data": base64.b64encode(content).decode()}
        for name, content in pictures.items()
    ]
    images = client.post("/v1/score", json={"images": encoded}).json()["images"]
    same = client.post("/v1/score", files=files_of(pictures)).json()["images"]
    # Where other images are in their batch, the last bit of a sum of products may be another.
    assert [image["score"] for image in images] == pytest.approx(
        [image["score"] for image in same], rel=1e-6
    )
    for name in ("name", "sha256", "class_name", "anomalous", "p_value"):
        assert [image[name] for image in images] == [image[name] for image in same]


def test_a_file_that_is_no_picture_has_a_reason_and_the_others_their_verdicts(
    client: TestClient, pictures: dict[str, bytes]
) -> None:
    sent = {"bad.png": b"no picture", "0.png": pictures["0.png"], "cut.png": pictures["0.png"][:99]}
    bad, good, cut = client.post("/v1/score", files=files_of(sent)).json()["images"]
    assert bad["reason"] == "not an image of a known format"
    assert bad["score"] is None
    assert cut["reason"]
    assert good["reason"] is None


def test_a_name_is_one_printable_line_without_folders(
    client: TestClient, pictures: dict[str, bytes]
) -> None:
    data = base64.b64encode(pictures["0.png"]).decode()
    names = ["../../etc/passwd", "C:\\photos\\a.png", "<b>\n\u202ex.png", ""]
    body = {"images": [{"name": name, "data": data} for name in names]}
    images = client.post("/v1/score", json=body).json()["images"]
    assert [image["name"] for image in images] == ["passwd", "a.png", "<b> x.png", "image 3"]


def test_an_explanation_has_views_neighbours_and_no_path_of_the_server(
    client: TestClient, pictures: dict[str, bytes]
) -> None:
    answer = client.post("/v1/explain", files={"files": ("0.png", pictures["0.png"])})
    explained = answer.json()
    (scored,) = client.post("/v1/score", files={"files": ("0.png", pictures["0.png"])}).json()[
        "images"
    ]
    assert explained["image"]["score"] == pytest.approx(scored["score"])
    assert explained["headline"].startswith("This image is")
    assert len(explained["views"]) == 8
    assert explained["views"][0]["name"] == "as it is"
    assert all(view["picture"].startswith("data:image/png;base64,") for view in explained["views"])
    assert len(explained["neighbours"]) == 6
    assert "/" not in explained["neighbours"][0]["file_name"]
    assert explained["threshold"] == pytest.approx(
        client.get("/v1/model").json()["detectors"][0]["calibration"]["threshold"]
    )


def test_an_explanation_is_a_drawing_where_that_is_asked_for(
    start: Callable[..., TestClient], pictures: dict[str, bytes]
) -> None:
    seen = []

    def draw(_detector: object, _image: object, explanation: object, title: str) -> bytes:
        seen.append((explanation, title))
        return b"a PNG"

    files, headers = {"files": ("0.png", pictures["0.png"])}, {"Accept": "image/png"}
    answer = start(draw=draw).post("/v1/explain", files=files, headers=headers)
    assert (answer.content, answer.headers["content-type"]) == (b"a PNG", "image/png")
    ((explanation, title),) = seen
    assert title == "0.png"
    assert all("/" not in near.path for near in explanation.neighbours)  # type: ignore[attr-defined]


def test_without_matplotlib_a_drawing_is_refused(
    client: TestClient, pictures: dict[str, bytes]
) -> None:
    files, headers = {"files": ("0.png", pictures["0.png"])}, {"Accept": "image/png"}
    answer = client.post("/v1/explain", files=files, headers=headers)
    assert answer.status_code == 406
    assert "oddone[report]" in answer.json()["detail"]


def test_an_unreadable_or_a_second_picture_cannot_be_explained(
    client: TestClient, pictures: dict[str, bytes]
) -> None:
    answer = client.post("/v1/explain", files={"files": ("x.png", b"nothing")})
    assert answer.status_code == 422
    assert "x.png cannot be read" in answer.json()["detail"]
    assert client.post("/v1/explain", files=files_of(pictures)).status_code == 422


def test_several_detectors_are_told_apart_by_name(
    start: Callable[..., TestClient], tiny_detector: Path, pictures: dict[str, bytes]
) -> None:
    client = start(paths={"one": tiny_detector, "other": tiny_detector})
    files = {"files": ("0.png", pictures["0.png"])}
    assert client.post("/v1/score", files=files).json()["detector"] == "one"
    chosen = client.post("/v1/score", params={"detector": "other"}, files=files)
    assert chosen.json()["detector"] == "other"
    unknown = client.post("/v1/score", params={"detector": "othr"}, files=files)
    assert unknown.status_code == 404
    assert "did you mean 'other'?" in unknown.json()["detail"]


def test_the_model_says_what_it_is_and_metrics_count(
    client: TestClient, pictures: dict[str, bytes], tiny_detector: Path
) -> None:
    client.post("/v1/score", files=files_of(pictures))
    model = client.get("/v1/model").json()
    (detector,) = model["detectors"]
    assert detector["sha256"] == hashlib.sha256(tiny_detector.read_bytes()).hexdigest()
    assert detector["classes"] == ["class 0", "class 1", "class 2"]
    assert sum(detector["calibration"]["scores"]["counts"]) == 60
    assert detector["drift"]["images"] >= 8
    assert str(tiny_detector.parent) not in str(model)
    text = client.get("/metrics").text
    for name in (
        'oddone_images_total{detector="tiny",verdict="normal"}',
        'oddone_request_seconds_bucket{le="0.005",route="/v1/score"}',
        'oddone_drift_alarm{detector="tiny"}',
        "oddone_waiting_images 0.0",
        'oddone_requests_total{method="POST",route="/v1/score",status="200"}',
    ):
        assert name in text
    assert client.get("/healthz").json() == client.get("/readyz").json() == {"status": "ok"}


def test_the_example_of_an_answer_has_all_that_an_answer_has(
    client: TestClient, pictures: dict[str, bytes]
) -> None:
    schema = client.get("/openapi.json").json()["components"]["schemas"]["ImageAnswer"]
    (image,) = client.post("/v1/score", files=files_of(pictures)[:1]).json()["images"]
    assert schema["example"].keys() == image.keys() == set(schema["required"])
    assert schema["example"]["reason"] is image["reason"] is None


def test_whoever_only_asks_whether_it_is_there_gets_the_headers(client: TestClient) -> None:
    for address in ("/", "/page.js", "/docs", "/healthz", "/readyz", "/openapi.json"):
        asked, got = client.head(address), client.get(address)
        assert asked.status_code == got.status_code == 200, address
        for name in ("content-length", "content-type"):
            assert asked.headers[name] == got.headers[name]
