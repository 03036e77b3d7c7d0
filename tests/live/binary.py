"""The programs of the live tests: built once from Go modules into the user's cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

MODULE = Path(__file__).parent / "controlplane"
HELM = Path(__file__).parent / "helm"


class Missing(Exception):
    """Something that the live tests need is not there; the text says what, and what to do."""


def cache() -> Path:
    """Where muster keeps what is slow to make."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster"


def binary() -> Path:
    """cp1, the control plane in one program."""
    major, minor, _ = version().lstrip("v").split(".")
    stamps = {
        "k8s.io/component-base/version.gitVersion": version(),
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/client-go/pkg/version.gitVersion": version(),
    }
    return _built("cp1", MODULE, ".", (MODULE / "go.sum", MODULE / "main.go"), stamps)


def helm() -> Path:
    """helm, to render and lint the chart."""
    return _built("helm", HELM, "helm.sh/helm/v3/cmd/helm", (HELM / "go.sum",), {})


def version() -> str:
    """The Kubernetes version that is pinned."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", (MODULE / "go.mod").read_text(encoding="utf-8"))
    assert found is not None
    return found[1]


def _built(name: str, module: Path, package: str, pins: Sequence[Path], stamps: Mapping[str, str]) -> Path:
    """The program for these pins; built if this user never did."""
    pinned = hashlib.sha256(b"".join(path.read_bytes() for path in pins)).hexdigest()[:16]
    folder = cache() / module.name / pinned
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    # Two test runs that start together build once.
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            _build(target, module, package, stamps)
    return target


def _build(target: Path, module: Path, package: str, stamps: Mapping[str, str]) -> None:
    go = shutil.which("go")
    if go is None:
        raise Missing(
            f"the live tests need {target.name} (Kubernetes {version()} from source): there is no Go on the PATH "
            f"(install Go {_go_version(module)} or newer) and no finished build at {target}"
        )
    unfinished = target.with_suffix(".unfinished")
    # The tests' host is shared: the build (about ten minutes of CPU, once) lets everything else go first.
    command = ["nice", "-n", "19", go, "build", "-p", "2", "-trimpath"]
    command += ["-ldflags", "-s -w " + " ".join(f"-X {name}={value}" for name, value in stamps.items())]
    command += ["-o", str(unfinished), package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}
    done = subprocess.run(command, cwd=module, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        message = done.stdout.decode(errors="replace").splitlines()
        raise Missing(f"{target.name} does not build:\n" + "\n".join(message[-20:]))
    unfinished.rename(target)


def _go_version(module: Path) -> str:
    found = re.search(r"^go (\S+)$", (module / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]
