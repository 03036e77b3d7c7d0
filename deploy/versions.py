"""Prints the versions of uv.lock as constraints for pip, so that the image has what the tests ran with.

python deploy/versions.py UV_LOCK > versions.txt
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def constraints(lock: str) -> list[str]:
    """One line a package; where the versions differ by Python, with the marker that selects each."""
    lines = []
    for package in tomllib.loads(lock)["package"]:
        if "registry" not in package["source"]:
            continue  # muster itself
        markers = " or ".join(package.get("resolution-markers", ()))
        lines.append(f"{package['name']}=={package['version']}" + (f" ; {markers}" if markers else ""))
    return lines


if __name__ == "__main__":
    print("\n".join(constraints(Path(sys.argv[1]).read_text(encoding="utf-8"))))
