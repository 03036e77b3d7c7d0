"""Checks a release: two builds are the same bytes, and the wheel installs and runs on every supported Python.

    python deploy/release_check.py

For each version it looks for `pythonX.Y` in $MUSTER_PYTHONS (folders or interpreters, separated by colons), among the
versions of pyenv and on the PATH, installs the wheel into an empty virtual environment and runs `muster demo`. A
version without an interpreter is named and not checked. For NEXT, which need not be installed, it resolves the wheel
with all extras of users to wheels only. The package index must be reachable.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from release import EXTRAS, release

VERSIONS = ("3.11", "3.12", "3.13")
NEXT = "3.14"


def interpreter(version: str) -> str | None:
    """Returns an interpreter of that version, or None."""
    name = f"python{version}"
    places = [Path(place) for place in os.environ.get("MUSTER_PYTHONS", "").split(os.pathsep) if place]
    for path in (*places, *_pyenv(version)):
        candidates = [path] if path.is_file() else [path / name, path / "bin" / name]
        for candidate in candidates:
            if candidate.is_file() and _is_version(str(candidate), version):
                return str(candidate)
    found = shutil.which(name)
    return found if found is not None and _is_version(found, version) else None


def _pyenv(version: str) -> list[Path]:
    """Returns pyenv's folders of that version: its commands on the PATH run only the selected versions."""
    if shutil.which("pyenv") is None:
        return []
    root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False).stdout.strip()
    return sorted(Path(root).glob(f"versions/{version}.*"))


def _is_version(python: str, version: str) -> bool:
    """Asks the interpreter itself: a shim may exist without one."""
    ask = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def installs_and_runs(version: str, python: str, wheel: Path, folder: Path) -> str:
    """Installs the wheel and runs the demo; returns what went wrong, or an empty string."""
    place = folder / f"venv-{version}"
    own = place / "bin" / "python"
    steps = [
        [python, "-m", "venv", "--without-pip", str(place)],
        _install(str(own), str(wheel)),
        [str(place / "bin" / "muster"), "demo"],
    ]
    for step in steps:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{' '.join(step)}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return ""


def _install(python: str, *what: str) -> list[str]:
    """The command that installs packages for an interpreter which has no pip."""
    if importlib.util.find_spec("pip") is not None:
        tool = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python, "install"]
        return [*tool, "--no-compile", *what]
    return ["uv", "pip", "install", "--quiet", "--python", python, *what]


def resolves(wheel: Path, folder: Path) -> str:
    """Resolves the wheel with all extras of users for NEXT, to wheels only; returns what went wrong."""
    what = f"{wheel}[{','.join(EXTRAS)}]"
    flags = ["--dry-run", "--python-version", NEXT, "--only-binary", ":all:", "--target", str(folder / "unused")]
    step = [*_install(sys.executable, what), *flags]
    done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False)
    return f"{' '.join(step)}: exit {done.returncode}\n{done.stderr[-2000:]}" if done.returncode else ""


def main() -> int:
    """Runs all checks; returns how many failed."""
    start = time.monotonic()
    failed = 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(2) as pool:
        folder = Path(name)
        first, second = (release(folder / part) for part in ("one", "two"))
        differing = [a.name for a, b in zip(first, second, strict=True) if a.read_bytes() != b.read_bytes()]
        failed += _report("two builds are the same bytes", ", ".join(differing))
        wheel = next(path for path in first if path.suffix == ".whl")
        checks = {f"every dependency has a wheel for Python {NEXT}": pool.submit(resolves, wheel, folder)}
        for version in VERSIONS:
            python = interpreter(version)
            if python is None:
                print(f"not checked: there is no python{version} on the PATH, in pyenv or in $MUSTER_PYTHONS")
                continue
            done = pool.submit(installs_and_runs, version, python, wheel, folder)
            checks[f"the wheel installs and `muster demo` runs on Python {version}"] = done
        failed += sum(_report(what, future.result()) for what, future in checks.items())
    print(f"{time.monotonic() - start:.0f} s")
    return failed


def _report(what: str, wrong: str) -> int:
    print(f"{'FAILED' if wrong else 'ok'}: {what}{': ' * bool(wrong)}{wrong}", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(min(main(), 1))
