"""Deadlines while many pods wait: the lease, probes, bindings and the event loop itself."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise

import uvloop
from scene import NAMESPACE, PODS, peak_mib
from wire import endpoint_of, post_all

from live.api import Api, Plain, until
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, muster_pod

_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster-scheduler"
_SECONDS = 60.0


def under_load(plane: ControlPlane, scheduler: Scheduler, pending: int) -> Plain:
    """Pods that no node can take are there before the scheduler is; then, for a minute, pods that some node can."""
    endpoint, api = endpoint_of(plane), plane.api
    waits = (json.dumps(muster_pod(NAMESPACE, f"w-{i}", cpu="1000")).encode() for i in range(pending))
    uvloop.run(post_all(endpoint, PODS, waits, 48))
    with scheduler:
        until("it leads", scheduler.leads, 120, 0.2)
        until("the first cycle", lambda: scheduler.metric("muster_cycle_seconds_count"), 120, 0.2)
        probes: list[float] = []
        renewals: set[str] = set()
        binds: list[float] = []
        end = time.monotonic() + _SECONDS

        def look() -> None:
            while time.monotonic() < end:
                renewals.add(api.get(_LEASE)["spec"]["renewTime"])
                begin = time.monotonic()
                assert scheduler.probe("/healthz")[0] == 200
                probes.append(time.monotonic() - begin)
                time.sleep(0.2)

        with ThreadPoolExecutor(1) as pool:
            looking = pool.submit(look)
            while time.monotonic() < end:
                binds.append(_bind(api, f"fits-{len(binds)}"))
                time.sleep(0.5)
            looking.result()
        assert scheduler.leads()
        return {
            "cycle_s": _mean(scheduler, "muster_cycle_seconds"),
            "loop_lag_p99_s": _quantile(scheduler, "muster_event_loop_lag_seconds", 0.99),
            "loop_lag_most_s": _quantile(scheduler, "muster_event_loop_lag_seconds", 1.0),
            "probe_most_s": round(max(probes), 3),
            "renewals_apart_most_s": _apart(renewals),
            "bind_median_s": round(sorted(binds)[len(binds) // 2], 2), "bind_most_s": round(max(binds), 2),
            "binds": len(binds), "peak_rss_mib": peak_mib(scheduler.pid),
        }  # fmt: skip


def _bind(api: Api, name: str) -> float:
    """From a pod's creation to its binding."""
    begin = time.monotonic()
    api.create(muster_pod(NAMESPACE, name))
    until(f"{name} is bound", lambda: api.get(f"{PODS}/{name}")["spec"].get("nodeName"), 60, 0.02)
    return time.monotonic() - begin


def _apart(times: set[str]) -> float:
    at = sorted(datetime.fromisoformat(text).timestamp() for text in times)
    return round(max((b - a for a, b in pairwise(at)), default=0.0), 2)


def _mean(scheduler: Scheduler, name: str) -> float:
    return round(scheduler.metric(f"{name}_sum") / scheduler.metric(f"{name}_count"), 3)


def _quantile(scheduler: Scheduler, name: str, part: float) -> float:
    """The upper end of the bucket in which that part of the observations lies."""
    lines = [line for line in scheduler.probe("/metrics")[1].splitlines() if line.startswith(f"{name}_bucket")]
    buckets = [(float(line.partition('le="')[2].partition('"')[0]), float(line.rpartition(" ")[2])) for line in lines]
    total = buckets[-1][1]
    return next(end for end, count in buckets if count >= part * total)
