"""docs/reference/plugins.md: every plugin with its extension points and arguments."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from reference_pages.tables import cell


def page() -> str:
    """docs/reference/plugins.md, from `muster plugins -o json`."""
    done = subprocess.run(
        [Path(sys.executable).parent / "muster", "plugins", "-o", "json"], capture_output=True, text=True, check=True
    )
    return "\n".join(_plugins(json.loads(done.stdout))) + "\n"


def _plugins(answer: dict[str, list[dict[str, object]]]) -> Iterator[str]:
    yield "# Plugins"
    yield ""
    yield "Written from `muster plugins -o json` by `python tests/documents.py`."
    yield "An extension point is an abstract class of [engine/core/hooks.py](../../src/muster/engine/core/hooks.py)."
    yield "Its switch is the key that turns it off for one plugin in the configuration file, in Volcano's spelling;"
    yield "a dash means that it has no switch."
    for plugin in answer["plugins"]:
        yield f"\n## {plugin['name']}\n"
        yield f"{plugin['about']}\n"
        yield f"Extension points: {', '.join(f'`{hook}`' for hook in list(plugin['hooks']))}"
        arguments = dict(plugin["arguments"])
        if arguments:
            yield "\n| argument | meaning (default) |\n|---|---|"
            yield from (f"| `{name}` | {cell(meaning)} |" for name, meaning in arguments.items())
    yield "\n## Extension points\n"
    yield "| extension point | switch | plugins |\n|---|---|---|"
    for point, switch in dict(answer["extension_points"]).items():
        names = ", ".join(str(p["name"]) for p in answer["plugins"] if point in list(p["hooks"])) or "–"
        yield f"| `{point}` | {f'`{switch}`' if switch else '–'} | {names} |"
