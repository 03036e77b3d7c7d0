"""A part may read what it follows, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from muster.cli.install import PARTS
from muster.cycle.configure import default_configuration
from muster.cycle.registry import kinds_read
from muster.groupctl.controllers import application_index, podgroups
from muster.groupctl.edge_gate import service as gate_service
from muster.groupctl.extender import cluster_index, plugin_scores
from muster.groupctl.webhook import registration
from muster.groupctl.webhook import service as admission_service
from muster.kube.resources import SOURCES
from muster.model.batch import APPLICATION_KINDS
from muster.model.custom import CustomApplication
from muster.model.kinds import find
from muster.model.meta import Object
from muster.scheduler import service
from muster.sim.dashboard.live import DashboardService
from muster.workloads.table import shipped

FOLLOWED: dict[str, Iterable[type[Object]]] = {
    "scheduler": {*service.KINDS, *kinds_read(default_configuration())} - {CustomApplication},
    "controllers": application_index.KINDS,
    "pod-groups": podgroups.KINDS,
    "extender": {*cluster_index.KINDS, *plugin_scores.KINDS},
    "webhook": admission_service.KINDS,
    "dashboard": {*DashboardService.kinds, *kinds_read(default_configuration())} - {CustomApplication},
    "edge-gate": (*APPLICATION_KINDS, *gate_service.EDITION_KINDS),
}


@pytest.mark.parametrize("part", list(PARTS))
def test_the_rights_to_read_are_those_of_the_kinds_it_follows(part: str) -> None:
    readable = {
        (right.group, resource)
        for right in PARTS[part].rights
        if "watch" in right.verbs
        for resource in right.resources
    }
    followed = {(source[0].group, source[0].plural) for kind in FOLLOWED[part] for source in SOURCES[kind]}
    if part in ("scheduler", "pod-groups", "dashboard"):
        # A kind that only creates another one has no pods and is not followed.
        described = (one for one in shipped() if one.pod_sets and find(one.api_versions[0], one.kind) is None)
        followed |= {(one.group, one.plural) for one in described}
    assert sorted(readable) == sorted(followed)


@pytest.mark.parametrize("part", list(PARTS))
def test_nothing_is_granted_twice(part: str) -> None:
    single = [(r.group, resource, verb) for r in PARTS[part].rights for resource in r.resources for verb in r.verbs]
    assert len(single) == len(set(single))


def test_the_webhook_writes_its_own_configurations_and_no_others() -> None:
    rights = [right for right in PARTS["webhook"].rights if right.group == "admissionregistration.k8s.io"]
    own = (registration.NAME,)
    assert {(v, r.names) for r in rights for v in r.verbs} == {("get", own), ("update", own)}


@pytest.mark.parametrize("part", ["edge-gate", "extender"])
def test_what_only_answers_writes_nothing(part: str) -> None:
    """But the label that wakes a pod, which the extender writes through the status."""
    writes = [right for right in PARTS[part].rights if not set(right.verbs) <= {"get", "list", "watch"}]
    wakes = [(right.resources, right.verbs) for right in writes]
    assert wakes == ([(("pods/status",), ("patch",))] if part == "extender" else [])
    assert PARTS["extender"].wakes  # an admission policy lets it change nothing else
