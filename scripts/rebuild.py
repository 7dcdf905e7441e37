"""Build anew from the sdist in dist/, and compare: the same bytes, whoever builds them and when.

The second build has other times, other permissions and another folder than the first.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

DIST = Path(__file__).parent.parent / "dist"


def main() -> None:
    """Build, compare, and print the digests."""
    with tempfile.TemporaryDirectory() as folder:
        unequal = differing(DIST, build_from(next(DIST.glob("*.tar.gz")), Path(folder)))
    if unequal:
        sys.exit(f"built anew, these files differ: {', '.join(unequal)}")
    for name, digest in digests(DIST).items():
        print(f"{digest}  {name}")


def differing(first: Path, second: Path) -> list[str]:
    """Return the names of the sdists and wheels that are not the same in two folders."""
    return sorted({name for name, _ in digests(first).items() ^ digests(second).items()})


def build_from(sdist: Path, folder: Path) -> Path:
    """Return a folder with the sdist and the wheel, built from what an sdist holds."""
    os.umask(0o077)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    (unpacked / "PKG-INFO").unlink()  # what an sdist has beside the sources
    for path in unpacked.rglob("*"):
        os.utime(path, (1e9, 1e9))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder / "dist")]
    subprocess.run([*command, str(unpacked)], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    return folder / "dist"


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each sdist and wheel in a folder."""
    paths = sorted([*folder.glob("*.tar.gz"), *folder.glob("*.whl")])
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


if __name__ == "__main__":
    main()
