"""The container and the manifests name what there is: options, files, measurements."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from oddone.cli.serve import app

ROOT = Path(__file__).parent.parent
CONTAINERFILE = (ROOT / "Containerfile").read_text()
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


def manifests() -> dict[str, dict[str, Any]]:
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text())
    return {document["kind"]: document for document in documents}


def options() -> set[str]:
    return {name for argument in app.assemble_argument_collection() for name in argument.names}


def test_the_container_runs_as_nobody_and_says_whether_it_is_well() -> None:
    assert re.search(r"^USER 10001$", CONTAINERFILE, re.MULTILINE)
    assert "/healthz" in CONTAINERFILE
    used = set(re.findall(r'"(--[a-z-]+)"', CONTAINERFILE.partition("ENTRYPOINT")[2]))
    assert used
    assert used <= options()


def test_the_container_installs_by_hashes_all_but_torch_and_oddone_itself() -> None:
    installed = re.findall(r"/venv/bin/pip install (.*?)(?: &&|$)", CONTAINERFILE, re.MULTILINE)
    torch, others, oddone = (words.replace("--no-cache-dir --no-deps ", "") for words in installed)
    assert torch.startswith("--index-url")
    assert "torch==" in torch
    assert others == "--require-hashes -r hashed.txt"
    assert oddone == "."


def test_the_build_is_sent_every_file_that_the_container_copies() -> None:
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINERFILE, re.MULTILINE)
    sent = (ROOT / ".containerignore").read_text().splitlines()
    assert sent[0] == "*"
    assert {f"!{file}" for files in copied for file in files.split()} <= set(sent)


@pytest.mark.skipif(shutil.which("awk") is None, reason="there is no awk here")
def test_the_container_leaves_out_torch_and_its_cuda_alone() -> None:
    (program,) = re.findall(r"awk '(.*?)'", CONTAINERFILE)
    command = ["awk", program, str(ROOT / "requirements.hashed.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    every, kept = (
        {*re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}
        for text in ((ROOT / "requirements.hashed.txt").read_text(), done.stdout)
    )
    assert {"torch", "triton", "nvidia-cublas", "cuda-toolkit"} <= every - kept
    assert all(name.startswith(("torch", "triton", "nvidia-", "cuda-")) for name in every - kept)
    assert {"fastapi", "uvicorn", "matplotlib", "jinja2", "sympy", "pillow-heif"} <= kept
    # A hash that lost its package, or a package without one, would be refused by pip.
    assert re.fullmatch(r"([a-z].*\\\n(    --hash=.*\\\n)*    --hash=\S+\n)+", done.stdout)


def test_kubernetes_grants_nothing_and_uses_options_that_exist() -> None:
    pod = manifests()["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    used = {word.partition("=")[0] for word in container["args"] if word.startswith("--")}
    assert used <= options()
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_nobody_is_told_to_ask_for_measurements_without_the_token() -> None:
    assert "annotations" not in manifests()["Deployment"]["spec"]["template"]["metadata"]
    scraped = yaml.safe_load((ROOT / "deploy" / "prometheus.yaml").read_text())["scrape_configs"]
    assert all(each["authorization"]["credentials_file"] for each in scraped)


def test_the_alerts_ask_for_measurements_that_there_are() -> None:
    source = (ROOT / "src" / "oddone" / "service" / "measurements.py").read_text()
    rules = yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())["groups"][0]["rules"]
    for rule in rules:
        for name in re.findall(r"oddone_\w+", rule["expr"]):
            assert f'"{name.removesuffix("_total")}"' in source, name


def test_compose_mounts_files_that_there_are_or_that_the_user_makes() -> None:
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    assert services["oddone"]["read_only"]
    files = [volume.partition(":")[0] for volume in services["prometheus"]["volumes"]]
    missing = {
        file for file in files if file.startswith("./") and not (ROOT / "deploy" / file).exists()
    }
    assert missing == {"./token"}


def test_a_new_detector_reaches_the_container_as_its_folder_is_mounted() -> None:
    guide = (ROOT / "docs" / "guides" / "service.md").read_text()
    compose = (ROOT / "deploy" / "compose.yaml").read_text()
    for text in (guide, compose):
        assert re.findall(r"(\S+):/detector\b\S*:ro", text) == ["./detector"]
    (container,) = manifests()["Deployment"]["spec"]["template"]["spec"]["containers"]
    (detector,) = (each for each in container["volumeMounts"] if each["name"] == "detector")
    assert (detector["mountPath"], "subPath" in detector) == ("/detector", False)


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="there is no hadolint here")
def test_hadolint_finds_nothing_in_the_containerfile() -> None:
    command = ["hadolint", str(ROOT / "Containerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (0, "")
