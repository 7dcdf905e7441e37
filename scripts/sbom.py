"""Write what oddone needs at run time as a CycloneDX SBOM, build/oddone-VERSION.cdx.json.

It tells of the environment that it is run in: what is installed there that `pip install oddone`,
with the extras in `EXTRAS`, asks for, each package with its version, its licence and what it needs
itself. The same environment gives the same bytes. A package without a licence is refused.
"""

import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import oddone

ROOT = Path(__file__).parent.parent
SPECIFICATION = "1.6"
PRODUCT = "oddone"
EXTRAS = ("heif", "parquet", "remote", "report", "service")
"""Of those that are pinned by hashes; some packages of onnx and pretrained state no licence."""


def main() -> None:
    """Write the SBOM."""
    path = ROOT / "build" / f"{PRODUCT}-{oddone.__version__}.cdx.json"
    path.parent.mkdir(exist_ok=True)
    bom = narrowed(bom_of_environment(), needs(f"{PRODUCT}[{','.join(EXTRAS)}]"))
    check(bom)
    path.write_text(json.dumps(bom, indent=2, sort_keys=True) + "\n")
    print(f"{len(bom['components'])} packages, written to {path.relative_to(ROOT)}")


def bom_of_environment() -> dict[str, Any]:
    """Return the SBOM of all that is installed, development tools included."""
    command = [
        *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
        *("--spec-version", SPECIFICATION, "--no-validate", "--mc-type", "library"),
        *("--pyproject", str(ROOT / "pyproject.toml"), sys.executable),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    bom: dict[str, Any] = json.loads(done.stdout)
    return bom


def needs(name: str) -> dict[str, set[str]]:
    """Return, for a package and for each that it needs, directly or not, what that one needs."""
    found: dict[str, set[str]] = {}
    asked, seen = [Requirement(name)], set[tuple[str, frozenset[str]]]()
    while asked:
        requirement = asked.pop()
        key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if key in seen:
            continue
        seen.add(key)
        needed = requirements_of(requirement)
        found.setdefault(key[0], set()).update(canonicalize_name(each.name) for each in needed)
        asked += needed
    return found


def requirements_of(requirement: Requirement) -> list[Requirement]:
    """Return what an installed package needs on this machine, with the extras asked for."""
    texts = distribution(requirement.name).requires or []
    extras = {"", *requirement.extras}
    return [
        each
        for each in map(Requirement, texts)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
    ]


def narrowed(bom: dict[str, Any], needed: dict[str, set[str]]) -> dict[str, Any]:
    """Return the SBOM with the packages that are needed, and no others."""
    product = bom["metadata"]["component"]
    product["version"] = oddone.__version__  # pyproject.toml leaves it to the code
    components = [each for each in bom["components"] if canonicalize_name(each["name"]) in needed]
    references = {canonicalize_name(each["name"]): each["bom-ref"] for each in components}
    references[PRODUCT] = product["bom-ref"]
    dependencies = [
        {
            "ref": references[name],
            "dependsOn": sorted(references[other] for other in others),
        }
        for name, others in sorted(needed.items())
    ]
    others = [each for each in components if canonicalize_name(each["name"]) != PRODUCT]
    return bom | {"components": others, "dependencies": dependencies}


def check(bom: dict[str, Any]) -> None:
    """End with a line that names what is wrong, if something is."""
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415  (only the extra `supply` has it)
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    unlicensed = [each["name"] for each in bom["components"] if not each.get("licenses")]
    if unlicensed:
        sys.exit(f"no licence is stated by {', '.join(unlicensed)}; look it up before you ship it")
    version = SchemaVersion.from_version(SPECIFICATION)
    error = JsonStrictValidator(version).validate_str(json.dumps(bom))
    if error is not None:
        reason = str(error).partition("\n")[0]
        sys.exit(f"the SBOM does not fit CycloneDX {SPECIFICATION}: {reason}")


if __name__ == "__main__":
    main()
