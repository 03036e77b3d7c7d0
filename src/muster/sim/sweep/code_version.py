"""The version of the code that decides: muster's version with a hash of its source, and those of further plugins."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from pathlib import Path

import muster
from muster.cycle.registry import GROUP

__all__ = ["code_version"]


@cache
def code_version() -> str:
    """Returns a text that changes with the code: a result of other code is no result of this one."""
    digest = sha256()
    root = Path(muster.__file__).parent
    for file in sorted(root.rglob("*")):
        if file.suffix in (".py", ".yaml") and not {"cli", "demo", "bench"} & set(file.parts):
            digest.update(f"{file.relative_to(root)}\0".encode())
            digest.update(sha256(file.read_bytes()).digest())
    plugins = sorted(
        {f"{point.dist.name} {point.dist.version}" for point in entry_points(group=GROUP) if point.dist}
    )
    return ", ".join([f"{muster.__version__}+{digest.hexdigest()[:12]}", *plugins])
