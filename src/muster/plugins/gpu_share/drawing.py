"""Draws the GPUs of a node as text and as HTML: how much of each is in use, and by which pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from muster.engine.core.hooks import Picture
from muster.engine.devices.fragmentation import GPU_PARTS
from muster.model.markup import escape
from muster.plugins.gpu_share.devices import PodGpus

_BAR_CHARS = 20
_COLOURS = ("#90caf9", "#ce93d8", "#a5d6a7", "#ffcc80", "#80cbc4", "#ef9a9a", "#b0bec5", "#e6ee9c")


@dataclass(frozen=True, slots=True)
class GpuPicture(Picture):
    """The GPUs of one node.

    n1  2 GPUs
      GPU 0  [aaaaaaaaaabbbb······]  800/1000
      GPU 1  [····················]  0/1000
      a d/train-0, b d/train-1
    """

    node: str
    gpus: int
    card: int  # MiB, 0: not known
    of_pods: Mapping[str, PodGpus]  # pod → its GPUs

    @property
    def title(self) -> str:
        of = f" of {self.card} MiB" if self.card else ""
        return f"{self.gpus} GPU{'s' if self.gpus > 1 else ''}{of}"

    def text(self) -> str:
        letters = self._letters()
        lines = [f"{self.node}  {self.title}"]
        for gpu in range(self.gpus):
            bar, used = "", 0
            for pod, parts in self._pods(gpu):
                used += parts
                bar += letters[pod] * (round(used * _BAR_CHARS / GPU_PARTS) - len(bar))
            lines.append(f"  GPU {gpu}  [{bar[:_BAR_CHARS]:·<{_BAR_CHARS}}]  {used}/{GPU_PARTS}")
        if letters:
            lines.append("  " + ", ".join(f"{letter} {pod}" for pod, letter in letters.items()))
        return "\n".join(lines)

    def html(self) -> str:
        letters, step, width = self._letters(), 28, 300
        cells: list[str] = []
        for gpu in range(self.gpus):
            y, used = gpu * step, 0
            cells.append(f'<text x="0" y="{y + 18}" fill="currentColor">{gpu}</text>')
            cells.append(f'<rect x="24" y="{y + 2}" width="{width}" height="24" fill="#e8f5e9" stroke="#616161"/>')
            for pod, parts in self._pods(gpu):
                x, wide = 24 + used * width // GPU_PARTS, max(parts * width // GPU_PARTS, 1)
                colour = _COLOURS[list(letters).index(pod) % len(_COLOURS)]
                title = escape(f"GPU {gpu}: {parts} of {GPU_PARTS} parts held by {pod}")
                cells.append(
                    f'<g><title>{title}</title><rect x="{x}" y="{y + 2}" width="{wide}" height="24" fill="{colour}" '
                    f'stroke="#616161"/><text x="{x + 4}" y="{y + 18}" fill="#111">{letters[pod]}</text></g>'
                )
                used += parts
            cells.append(f'<text x="{width + 30}" y="{y + 18}" fill="currentColor">{used}/{GPU_PARTS}</text>')
        title = escape(f"{self.node}: {self.title}")
        pods = "".join(f"<li><b>{letter}</b> {escape(pod)}</li>" for pod, letter in letters.items())
        return (
            f'<figure class="board"><figcaption>{title}</figcaption>'
            f'<svg viewBox="0 0 {width + 95} {self.gpus * step}" width="{width + 95}" role="img" aria-label="{title}" '
            f'font-family="sans-serif" font-size="12">{"".join(cells)}</svg><ul>{pods}</ul></figure>'
        )

    def _pods(self, gpu: int) -> list[tuple[str, int]]:
        return [(pod, gpus.parts) for pod, gpus in sorted(self.of_pods.items()) if gpu in gpus.ids]

    def _letters(self) -> dict[str, str]:
        """Names the pods a, b, c … in the order of their GPUs; after z they are numbered from a again."""
        pods = dict.fromkeys(pod for gpu in range(self.gpus) for pod, _ in self._pods(gpu))
        return {pod: chr(ord("a") + i % 26) for i, pod in enumerate(pods)}
