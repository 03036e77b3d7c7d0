"""The cases, by their number in test/integration/scheduler_perf's order, with the floors of 1.36 and 1.37."""

from __future__ import annotations

from functools import partial

from muster.sim.bench.cluster_run import Cluster
from muster.sim.bench.scheduler_perf import clusters
from muster.sim.bench.scheduler_perf.case import PREEMPT, Case
from muster.sim.bench.scheduler_perf.templates import (
    DEFAULT_REQUEST,
    HOST,
    ZONE,
    node_affinity,
    preferred,
    required,
    spreading,
)

_ONE_ZONE = (ZONE, "zone1")
_MOON = (ZONE, "moon-1,moon-2,moon-3")
_INCLUDED = ',"nodeAffinityPolicy":"Honor","nodeTaintsPolicy":"Honor"'
_LOW_REQUEST = '"cpu":"900m","memory":"500Mi"'
_HIGH_REQUEST = '"cpu":"3","memory":"500Mi"'


def _floors(older: int, newer: int) -> dict[str, int]:
    return {version: floor for version, floor in (("1.36", older), ("1.37", newer)) if floor}


def _gangs(number: str, about: str, make: partial[Cluster], count: int, size: int) -> Case:
    return Case(f"{number}-{count}x{size}", f"{about}: {count} of {size}", partial(make, count, size), count * size)


_GANGS = ((1000, 3), (2000, 3), (3000, 3), (3, 1000), (6, 1000), (9, 1000))
_RACK_GANGS = ((750, 4), (1500, 4), (2250, 4), (3, 1000), (6, 1000), (9, 1000))

CASES: tuple[Case, ...] = (
    Case(
        "1", "SchedulingBasic/5000Nodes_10000Pods", partial(clusters.basic, 5000, 1000, 10_000),
        10_000, _floors(270, 680), 50,
    ),
    Case(
        "2", "SchedulingBasic/5000Nodes_50000Pods", partial(clusters.basic, 5000, 5000, 50_000),
        50_000, _floors(0, 790), 50,
    ),
    Case(
        "3", "SchedulingDaemonset/15000Nodes", partial(clusters.daemon_set, 15_000, 30_000),
        30_000, _floors(390, 1100), 50,
    ),
    Case(
        "4", "SchedulingWithMixedChurn/5000Nodes_10000Pods (10 × 1,000 pods)",
        partial(clusters.mixed_churn, 5000, 10_000, 10), 10_000, _floors(265, 710), 20,
    ),
    Case(
        "5", "SchedulingPodAntiAffinity/5000Nodes_2000Pods",
        partial(
            clusters.basic, 5000, 1000, 2000, labels='"color":"green"', spec=required("podAntiAffinity", "green", HOST)
        ),
        2000, _floors(60, 180), 50,
    ),
    Case(
        "6", "SchedulingPodAffinity/5000Nodes_5000Pods",
        partial(
            clusters.basic, 5000, 5000, 5000, _ONE_ZONE,
            labels='"color":"blue"', spec=required("podAffinity", "blue", ZONE),
        ),
        5000, _floors(35, 70), 50,
    ),
    Case(
        "7", "SchedulingPreferredPodAffinity/5000Nodes_5000Pods",
        partial(clusters.basic, 5000, 5000, 5000, labels='"color":"red"', spec=preferred("podAffinity", "red", HOST)),
        5000, _floors(90, 160), 20,
    ),
    Case(
        "7-anti", "SchedulingPreferredPodAntiAffinity/5000Nodes_5000Pods",
        partial(
            clusters.basic, 5000, 5000, 5000,
            labels='"color":"yellow"', spec=preferred("podAntiAffinity", "yellow", HOST),
        ),
        5000, _floors(90, 190), 20,
    ),
    Case(
        "8", "SchedulingNodeAffinity/5000Nodes_10000Pods",
        partial(
            clusters.basic, 5000, 5000, 10_000, _ONE_ZONE,
            spec=node_affinity("matchExpressions", ZONE, "zone1", "zone2"),
        ),
        10_000, _floors(220, 540), 50,
    ),
    Case(
        "9", "TopologySpreading/5000Nodes_5000Pods",
        partial(
            clusters.beside_plain, 5000, 5000, 5000, _MOON,
            labels='"color":"blue"', spec=spreading(5, ZONE, "DoNotSchedule", "color", "blue"),
        ),
        5000, _floors(85, 460), 20,
    ),
    Case(
        "9b-preferred", "PreferredTopologySpreading/5000Nodes_5000Pods",
        partial(
            clusters.beside_plain, 5000, 5000, 5000, _MOON,
            labels='"color":"blue"', spec=spreading(5, ZONE, "ScheduleAnyway", "color", "blue"),
        ),
        5000, _floors(125, 340), 20,
    ),
    Case(
        "9b-default", "DefaultTopologySpreading/5000Nodes_50000Pods (a ReplicaSet as the Service)",
        partial(clusters.one_service, 5000, 5000, 50_000, _MOON), 50_000, _floors(0, 160), 20,
    ),
    Case(
        "9b-inclusion", "SchedulingWithNodeInclusionPolicy/5000Nodes",
        partial(
            clusters.inclusion_policy, 4000, 1000, 4000,
            labels='"foo":"bar"', spec=spreading(1, HOST, "DoNotSchedule", "foo", "bar", _INCLUDED),
        ),
        4000, _floors(68, 270), 20,
    ),
    Case(
        "10", "PreemptionAsync/5000Nodes (50 pods of 3 CPUs and high priority)",
        partial(clusters.claims, 5000, 20_000, _LOW_REQUEST, 5000, 50, _HIGH_REQUEST),
        5000, _floors(160, 570), 20, evicted=150, config=PREEMPT,
    ),
    Case(
        "11", "Unschedulable/5kNodes/100Init/10kPods (85 pods of 9 CPUs and high priority)",
        partial(clusters.claims, 5000, 100, DEFAULT_REQUEST, 10_000, 85, clusters.BIG_REQUEST),
        10_000, _floors(140, 590), 50, config=PREEMPT,
    ),
    Case(
        "11-20k", "Unschedulable/5kNodes/20kInit/10kPods (85 pods of 9 CPUs and high priority)",
        partial(clusters.claims, 5000, 20_000, DEFAULT_REQUEST, 10_000, 85, clusters.BIG_REQUEST),
        10_000, _floors(0, 600), 50, config=PREEMPT,
    ),
    Case(
        "12", "SchedulingWithExtendedResource/5000pods_5000nodes", partial(clusters.extended_resources, 5000),
        5000, _floors(0, 180), 20,
    ),
    Case(
        "13", "SchedulingWhileGated (10,000 gated, 20,000 being deleted)",
        partial(clusters.gated, 10_000, 20_000, 20_000), 20_000, _floors(130, 910), 50,
    ),
    Case(
        "14-csi", "SchedulingCSIPVs/5000Nodes_5000Pods", partial(clusters.volumes, 5000, 5000, 5000, "csi"),
        5000, _floors(48, 100), 20,
    ),
    Case(
        "14-in-tree", "SchedulingInTreePVs/5000Nodes_2000Pods", partial(clusters.volumes, 5000, 5000, 2000, "in-tree"),
        2000, _floors(90, 290), 20,
    ),
    Case(
        "14-migrated", "SchedulingMigratedInTreePVs/5000Nodes_5000Pods",
        partial(clusters.volumes, 5000, 5000, 5000, "migrated"), 5000, _floors(35, 100), 20,
    ),
    Case(
        "14-secrets", "SchedulingSecrets/5000Nodes_10000Pods",
        partial(
            clusters.basic, 5000, 5000, 10_000, spec='"volumes":[{"name":"secret","secret":{"secretName":"secret"}}],'
        ),
        10_000, _floors(260, 790), 20,
    ),
    *(
        _gangs("21", "GangScheduling, native PodGroups", partial(clusters.native_gangs, 5000), count, size)
        for count, size in _GANGS
    ),
    *(
        _gangs("22", "TopologyAwareScheduling, one of 50 racks each", partial(clusters.native_racks, 5000, 100), *gang)
        for gang in _RACK_GANGS
    ),
    Case(
        "23-basic", "GangPreemptionBasic: a gang of 100 evicts 1,000 pods",
        partial(clusters.gang_preempts_pods, 100, 1000, 1, 100), 100, evicted=1000, config=PREEMPT,
    ),
    Case(
        "23-basic-10x10", "GangPreemptionBasic: 10 gangs of 10 evict 1,000 pods",
        partial(clusters.gang_preempts_pods, 100, 1000, 10, 10), 100, evicted=1000, config=PREEMPT,
    ),
    Case(
        "23-groups", "GangPreemptionPodGroups: a gang of 100 against 5 of 100",
        partial(clusters.gang_preempts_gangs, 100, (5, 100), (1, 100)), 100, evicted=500, config=PREEMPT,
    ),
    Case(
        "23-groups-10x10", "GangPreemptionPodGroups: 10 gangs of 10 against 50 of 10",
        partial(clusters.gang_preempts_gangs, 100, (50, 10), (10, 10)), 100, evicted=500, config=PREEMPT,
    ),
    Case(
        "23-affinity", "GangPreemptionAffinity: a gang of 100 beside anchors evicts 1,000 pods",
        partial(clusters.gang_preempts_pods, 100, 1000, 1, 100, anchors=True), 100, evicted=1000, config=PREEMPT,
    ),
)  # fmt: skip
