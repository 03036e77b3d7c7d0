"""What `validate` reports as impossible does not happen: pods are not placed, gangs stay below their minimum."""

from __future__ import annotations

from hypothesis import given

from muster.cluster.manifests import Manifests
from muster.config.types import Config
from muster.cycle.scheduler import Scheduler
from muster.engine.core.plan import Plan
from muster.model.meta import key
from muster.sim.validate import validate_cluster
from strategies.clusters import NOW, Cluster, clusters
from strategies.configurations import configurations
from strategies.profiles import examples

PLACING = (("allocate",), ("enqueue", "allocate", "backfill"))
NOT_READ = ("topology-on-pod", "nodegroup-on-pod", "no-plugin")  # such a pod is placed, without what it requests
OF_GANGS = ("over-nodes", "over-cluster", "topology-too-large", "nodegroup-too-large")


def manifests_of(cluster: Cluster) -> Manifests:
    found = Manifests()
    for one in cluster.objects:
        found.objects.setdefault(type(one).__name__, {})[key(one)] = one
    return found


def placed(plan: Plan) -> set[str]:
    return {*plan.binds, *plan.pipelined}


@given(clusters(most_jobs=3), configurations(first=("gang", "predicates"), actions=PLACING))
@examples(150)
def test_what_validate_calls_impossible_does_not_happen(cluster: Cluster, config: Config) -> None:
    scheduler = Scheduler(config)
    findings = validate_cluster(scheduler, manifests_of(cluster), ("muster", "volcano"))
    errors = [finding for finding in findings if finding.severity == "error"]
    state = cluster.state()
    there = placed(scheduler.cycle(state, NOW))
    for finding in errors:
        kind, _, name = finding.object.partition(" ")
        if kind == "Pod" and finding.code not in NOT_READ:
            assert name not in there, finding
        if kind == "PodGroup" and finding.code in OF_GANGS:
            job = state.jobs[name]
            held = sum(1 for task in job.tasks.values() if task.node >= 0 or task.key in there)
            assert held < job.min_available or not there & job.tasks.keys(), finding
