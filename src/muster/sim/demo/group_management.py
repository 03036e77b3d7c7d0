"""The chapter of design 5, node group management: a Deployment is divided among places, and each place has its own
registry.
"""

from __future__ import annotations

from muster.groups.membership import contains
from muster.model.core import Node, Pod
from muster.model.groups import NodeGroup
from muster.model.pod_states import is_terminating
from muster.sim.demo.chapter import Chapter, DemoCluster, nodes_grid

BEIJING, HANGZHOU = "beijing", "hangzhou"
LOCAL = {BEIJING: ["beijing.registry.io/nginx:1.27"], HANGZHOU: ["hangzhou.registry.io/nginx:1.27"]}


def group_management() -> Chapter:
    about = "Policies set how many pods of an application run in each group of nodes, and in which edition."
    chapter = Chapter("group-management", "Node group management (design 5)", about)
    _example(chapter)
    _other_order(chapter)
    return chapter


def _example(chapter: Chapter) -> None:
    """Plays the example of the design in its order."""
    demo = DemoCluster(chapter, "scheduler.yaml", "nodes.yaml")
    step = demo.ask("A Deployment of five pods is spread over five nodes in two places.", "nginx-before.yaml")
    nodes_grid(step, demo.cluster.store.list(Node).items, {"location": "location"})
    found = _by_location(demo)
    step.check("2 pods run in Hangzhou and 3 pods in Beijing", {BEIJING: 3, HANGZHOU: 2}, found)

    step = demo.ask("The two places become node groups.", "nodegroups.yaml")
    groups = demo.cluster.store.of(NodeGroup)
    found_nodes = {name: list(groups[name].status.contained_nodes) for name in sorted(groups)}
    wanted = {BEIJING: ["node-c", "node-d", "node-e"], HANGZHOU: ["node-a", "node-b"]}
    step.check("the status of a node group names the nodes it contains", wanted, found_nodes)

    files = ("propagationpolicy.yaml", "overridepolicy.yaml")
    step = demo.ask("The policies are created: weights 2 and 3, and a registry for each place.", *files)
    step.check("nothing happens until an application requires them", {BEIJING: 3, HANGZHOU: 2}, _by_location(demo))

    demo.files.remove("group-management/nginx-before.yaml")
    step = demo.ask("The Deployment is labelled: it requires both policies.", "nginx.yaml")
    _show(demo)
    step.check("3 pods run in Hangzhou and 2 pods in Beijing", {BEIJING: 2, HANGZHOU: 3}, _by_location(demo))
    step.check("the pods use their local image registry", LOCAL, _images(demo))


def _other_order(chapter: Chapter) -> None:
    """Plays the other order: labels may come before the policies."""
    demo = DemoCluster(chapter, "scheduler.yaml", "nodes.yaml", "nodegroups.yaml")
    step = demo.ask("The other way round: a new Deployment is labelled before there are policies.", "nginx.yaml")
    step.check("required and not bound: its pods stay pending", {}, _by_location(demo))
    step = demo.ask("Then the policies are created.", "propagationpolicy.yaml", "overridepolicy.yaml")
    _show(demo)
    step.check("the order does not matter", {BEIJING: 2, HANGZHOU: 3}, _by_location(demo))
    step.check("the pods use their local image registry", LOCAL, _images(demo))


def _by_location(demo: DemoCluster) -> dict[str, int]:
    """Returns place → number of running pods."""
    counts: dict[str, int] = {}
    for pod in _running(demo):
        place = demo.cluster.store.get(Node, pod.spec.node_name).metadata.labels["location"]
        counts[place] = counts.get(place, 0) + 1
    return dict(sorted(counts.items()))


def _images(demo: DemoCluster) -> dict[str, list[str]]:
    """Returns node group → the distinct images of the pods on its nodes."""
    store = demo.cluster.store
    images: dict[str, set[str]] = {}
    for pod in _running(demo):
        labels = store.get(Node, pod.spec.node_name).metadata.labels
        for name, group in sorted(store.of(NodeGroup).items()):
            if contains(group.spec, pod.spec.node_name, labels):
                images.setdefault(name, set()).update(container.image for container in pod.spec.containers)
    return {name: sorted(found) for name, found in sorted(images.items())}


def _running(demo: DemoCluster) -> list[Pod]:
    pods = demo.cluster.store.list(Pod).items
    return [pod for pod in pods if pod.spec.node_name and not is_terminating(pod)]


def _show(demo: DemoCluster) -> None:
    rows = [(p.metadata.name, p.spec.node_name, ", ".join(c.image for c in p.spec.containers)) for p in _running(demo)]
    demo.chapter.steps[-1].show("The pods and their editions", ("pod", "node", "image"), rows)
