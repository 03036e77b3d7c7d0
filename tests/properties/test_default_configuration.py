"""The plugins that the default configuration has besides Volcano's serve only objects that use them."""

from __future__ import annotations

from hypothesis import given

from muster.config import DEFAULT
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler
from muster.model.meta import Object
from muster.model.scheduling import PodGroup, Queue
from strategies.clusters import NOW, Cluster, clusters
from strategies.profiles import examples

EVICTING = DEFAULT.replace("allocate", "allocate, preempt, reclaim")


def without(text: str, *plugins: str) -> str:
    for plugin in plugins:
        assert f"  - name: {plugin}\n" in text
        text = text.replace(f"  - name: {plugin}\n", "")
    return text


def indifferent(object: Object) -> Object:
    """The object without what it says of node groups and topologies; nodes keep their labels, HyperNodes stay."""
    if isinstance(object, Queue):
        object.spec.affinity = None
        object.metadata.annotations = {}
    if isinstance(object, PodGroup):
        object.metadata.annotations = {}
        object.spec.network_topology = None
    return object


@given(clusters())
@examples(150)
def test_nodegroup_and_topology_change_nothing_for_objects_that_do_not_use_them(cluster: Cluster) -> None:
    objects = Cluster(tuple(indifferent(object) for object in cluster.objects))
    for text in (DEFAULT, EVICTING):
        plans = []
        for configuration in (text, without(text, "nodegroup", "topology")):
            config, findings = configure(configuration, "s.yaml")
            assert findings == []
            plans.append(Scheduler(config).cycle(objects.state(), NOW))
        assert plans[0] == plans[1]
