"""What oddone is made of: pins, their hashes, and the list of what it needs at run time."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rebuild
import sbom

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def pins(name: str) -> dict[str, str]:
    """Return the version of each package that a file of pins names."""
    found = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE)
    assert len(dict(found)) == len(found)  # one version for every system and Python
    return dict(found)


def test_every_requirement_has_a_pin_that_fits_it() -> None:
    constraints = pins("constraints.txt")
    asked = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for requirement in map(Requirement, (text for texts in asked for text in texts)):
        if requirement.name != "oddone":
            version = constraints[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), f"{requirement}: {version}"


def test_every_hashed_pin_is_that_of_the_constraints_and_has_hashes() -> None:
    hashed, constraints = pins("requirements.hashed.txt"), pins("constraints.txt")
    assert {"torch", "pillow", "safetensors", "matplotlib"} <= hashed.keys()
    (extras,) = re.findall(r"^HASHED_EXTRAS = (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"service", "onnx", "parquet", "remote", "heif"} <= {*extras.split()}
    for extra in extras.split():
        for text in PROJECT["optional-dependencies"][extra]:
            assert canonicalize_name(Requirement(text).name) in hashed, text
    assert {name: constraints[name] for name in hashed} == hashed
    blocks = re.split(
        r"^(?=\w)", (ROOT / "requirements.hashed.txt").read_text(), flags=re.MULTILINE
    )
    for block in blocks[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", block), block


def test_what_is_needed_at_run_time_is_found_without_the_tools_and_the_extras() -> None:
    needed = sbom.needs("oddone")
    direct = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert needed["oddone"] == direct
    assert "urllib3" in needed["requests"]
    assert "urllib3" in needed
    assert needed.keys().isdisjoint({"pytest", "ruff", "transformers", "kornia"})


def test_the_packages_of_an_extra_are_needed_with_it() -> None:
    needed = sbom.needs(f"oddone[{','.join(sbom.EXTRAS)}]")
    assert {"fastapi", "starlette", "matplotlib", "pyarrow", "aiohttp", "pillow-heif"} <= {*needed}
    assert needed.keys().isdisjoint({"pytest", "ruff", "transformers", "onnx"})


def test_an_sbom_is_narrowed_to_what_is_needed() -> None:
    bom: dict[str, Any] = {
        "metadata": {"component": {"bom-ref": "root", "name": "oddone"}},
        "components": [
            {"name": name, "bom-ref": f"{name}==1"} for name in ("Torch", "pytest", "oddone")
        ],
        "dependencies": [{"ref": "root", "dependsOn": ["Torch==1", "pytest==1"]}],
    }
    narrow = sbom.narrowed(bom, {"oddone": {"torch"}, "torch": set()})
    assert [each["name"] for each in narrow["components"]] == ["Torch"]
    assert narrow["dependencies"] == [
        {"ref": "root", "dependsOn": ["Torch==1"]},
        {"ref": "Torch==1", "dependsOn": []},
    ]


def test_a_package_without_a_licence_is_refused() -> None:
    pytest.importorskip("cyclonedx", reason="needs the extra `supply`, as `make sbom` has it")
    with pytest.raises(SystemExit, match="no licence is stated by torch;"):
        sbom.check({"components": [{"name": "torch"}]})


def test_the_digests_of_two_builds_are_compared_by_name(tmp_path: Path) -> None:
    for folder, content in (("first", b"one"), ("second", b"other")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "oddone.whl").write_bytes(content)
        (tmp_path / folder / "oddone.tar.gz").write_bytes(b"same")
    assert rebuild.differing(tmp_path / "first", tmp_path / "second") == ["oddone.whl"]
    assert rebuild.differing(tmp_path / "first", tmp_path / "first") == []
