"""What the extender counts of itself, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_REQUESTS, _SECONDS = "muster_extender_requests_total", "muster_extender_request_seconds"


class Metrics:
    """Requests by verb and status, how long they took, and gauges that are read when somebody asks."""

    def __init__(self, gauges: dict[str, tuple[str, str, Callable[[], float]]]) -> None:
        """Gauges: name → type, help, value."""
        self._gauges = gauges
        self._lock = Lock()
        self._requests: dict[tuple[str, int], int] = {}
        self._times: dict[str, list[int]] = {}  # verb → requests per bucket, the last one above all bounds
        self._sums: dict[str, float] = {}

    def count(self, verb: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[verb, status] = self._requests.get((verb, status), 0) + 1
            times = self._times.setdefault(verb, [0] * (len(BUCKETS) + 1))
            times[next((i for i, bound in enumerate(BUCKETS) if seconds <= bound), len(BUCKETS))] += 1
            self._sums[verb] = self._sums.get(verb, 0.0) + seconds

    def text(self) -> str:
        lines = [f"# HELP {_REQUESTS} Requests answered.", f"# TYPE {_REQUESTS} counter"]
        with self._lock:
            for (verb, status), n in sorted(self._requests.items()):
                lines.append(f'{_REQUESTS}{{verb="{verb}",code="{status}"}} {n}')
            lines += [f"# HELP {_SECONDS} Time to answer.", f"# TYPE {_SECONDS} histogram"]
            for verb, times in sorted(self._times.items()):
                total = 0
                for bound, n in zip((*map(str, BUCKETS), "+Inf"), times, strict=True):
                    total += n
                    lines.append(f'{_SECONDS}_bucket{{verb="{verb}",le="{bound}"}} {total}')
                lines.append(f'{_SECONDS}_sum{{verb="{verb}"}} {self._sums[verb]:.6f}')
                lines.append(f'{_SECONDS}_count{{verb="{verb}"}} {total}')
        for name, (kind, about, value) in sorted(self._gauges.items()):
            lines += [f"# HELP {name} {about}", f"# TYPE {name} {kind}", f"{name} {value():g}"]
        return "\n".join(lines) + "\n"
