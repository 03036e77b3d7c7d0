"""Builds a release from the last commit: wheel, source distribution, SBOM and checksums.

    python deploy/release.py [--into dist]

The files are a function of the commit: `git archive` gives the sources, and the time of the commit is the time of
everything (SOURCE_DATE_EPOCH). `deploy/release_check.py` builds twice and compares the bytes. The SBOM is CycloneDX 1.6
as JSON. It has the packages that uv.lock pins for users: the dependencies of muster and of its extras live, replay and
dask.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.dependency import Dependency
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parent.parent
EXTRAS = ("live", "replay", "dask")
"""The extras that users install; the others are for muster's developers."""
SUMS = "SHA256SUMS"
BUILD = "import sys; from hatchling.build import *; print(build_wheel(sys.argv[1])); print(build_sdist(sys.argv[1]))"


def release(into: Path, commit: str = "HEAD") -> list[Path]:
    """Builds the files of a release into a folder and returns them."""
    into.mkdir(parents=True, exist_ok=True)
    into = into.resolve()
    epoch = int(_git("log", "-1", "--format=%ct", commit))
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
            archive.extractall(folder, filter="data")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(into)], cwd=folder, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"release: the build failed\n{done.stdout}{done.stderr}")
        wheel, sdist = (into / name for name in done.stdout.split()[-2:])
        lock = tomllib.loads((Path(folder) / "uv.lock").read_text("utf-8"))
    version = wheel.name.split("-")[1]
    bill = into / f"muster-{version}.cdx.json"
    bill.write_text(sbom(lock, version, wheel, datetime.fromtimestamp(epoch, UTC)), "utf-8")
    files = sorted([wheel, sdist, bill])
    sums = into / SUMS
    sums.write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in files), "utf-8")
    return [*files, sums]


def sbom(lock: dict[str, Any], version: str, wheel: Path, time: datetime) -> str:
    """Returns the SBOM of a wheel, with the packages that the lock file pins for users."""
    packages = {(package["name"], package.get("version", "")): package for package in lock["package"]}
    main = Component(
        name="muster", version=version, type=ComponentType.APPLICATION, bom_ref="muster",
        purl=PackageURL("pypi", name="muster", version=version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=_sha256(wheel))],
    )  # fmt: skip
    bom = Bom(serial_number=uuid5(NAMESPACE_URL, f"{wheel.name} {_sha256(wheel)}"))
    bom.metadata.timestamp = time
    bom.metadata.component = main
    own = next(package for (name, _), package in packages.items() if name == "muster")
    first = [*own["dependencies"], *(one for extra in EXTRAS for one in own["optional-dependencies"][extra])]
    edges, wanted = {"muster": _resolve(first, packages)}, _resolve(first, packages)
    components = {"muster": main}
    while wanted:
        key, marker = wanted.popitem()
        reference = "@".join(key)
        if reference in components:
            continue
        components[reference] = _component(key, marker, packages[key])
        bom.components.add(components[reference])
        edges[reference] = _resolve(packages[key].get("dependencies", []), packages)
        wanted |= edges[reference]
    for reference, needs in edges.items():
        bom.dependencies.add(Dependency(
            components[reference].bom_ref, [Dependency(components["@".join(key)].bom_ref) for key in needs]
        ))  # fmt: skip
    return JsonV1Dot6(bom).output_as_string(indent=2) + "\n"


Key = tuple[str, str]


def _resolve(needs: list[dict[str, Any]], packages: dict[Key, Any]) -> dict[Key, str]:
    """Returns the packages with the condition (marker) of each. A lock names a version only if there are several."""
    found: dict[Key, str] = {}
    for need in needs:
        for name, version in packages:
            if name == need["name"] and need.get("version", version) == version:
                found[name, version] = need.get("marker", "")
    return dict(sorted(found.items(), reverse=True))


def _component(key: Key, marker: str, package: dict[str, Any]) -> Component:
    name, version = key
    source = package.get("sdist") or package["wheels"][0]
    return Component(
        name=name, version=version, type=ComponentType.LIBRARY, bom_ref="@".join(key),
        purl=PackageURL("pypi", name=name, version=version),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=source["hash"].removeprefix("sha256:"))],
        properties=[Property(name="muster:marker", value=marker)] if marker else [],
    )  # fmt: skip


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the folder for the files (default: dist)")
    parser.add_argument("--commit", default="HEAD", help="the commit to release (default: HEAD)")
    options = parser.parse_args()
    for path in release(options.into, options.commit):
        print(path)
