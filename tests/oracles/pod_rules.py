"""What kube-scheduler's filters ask of the pods that a plan places, looked at from the end.

Selections and domains are counted once for all pods, so that the plans of large clusters can be judged, too. The rules
are those of Kubernetes; how the engine evaluates them is not used.

Terminating pods are there for affinity, anti-affinity and host ports, and not for spread constraints. Pods that the
plan evicts still hold their ports and count for nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from muster.model.affinity import PodAffinityTerm, Taint, TopologySpreadConstraint
from muster.model.core import Node, Pod
from muster.model.selectors import asks_for, matches, tolerates

Where = Mapping[str, str]  # pod → its node
Port = tuple[str, int, str]  # protocol, number, address
_CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_ANY_ADDRESS = "0.0.0.0"


@dataclass
class Placements:
    """The nodes, all pods, and which of them are on nodes: `there` before the plan, then what the plan does."""

    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    there: Where
    binds: Where
    pipelined: Where
    evicted: Container[str]
    present: dict[str, str] = field(init=False)  # everybody but those that the plan evicts

    def __post_init__(self) -> None:
        staying = {name: node for name, node in self.there.items() if name not in self.evicted}
        self.present = {**staying, **self.pipelined, **self.binds}

    def domain(self, pod: str, key: str) -> str | None:
        """The value of the label on the pod's node."""
        node = self.nodes.get(self.present[pod])
        return node.metadata.labels.get(key) if node is not None else None


def check_pod_rules(placed: Placements) -> set[str]:
    """Returns the bound pods of which a rule could not be judged from the end."""
    for name, at in chain(placed.binds.items(), placed.pipelined.items()):
        check_node(name, placed.pods[name], placed.nodes[at])
    check_host_ports(placed)
    check_affinity(placed)
    check_anti_affinity(placed)
    return check_spread(placed)


# --- the node itself


def check_node(name: str, pod: Pod, node: Node) -> None:
    tolerations = pod.spec.tolerations
    cordoned = node.spec.unschedulable and not any(tolerates(one, _CORDONED) for one in tolerations)
    assert not cordoned, f"{name} is on a cordoned node"
    assert asks_for(pod.spec, node.metadata.name, node.metadata.labels), f"{name}: node selector or node affinity"
    assert _tolerates_all(pod, node), f"{name} is on a node with a taint that it does not tolerate"


def _tolerates_all(pod: Pod, node: Node) -> bool:
    return all(
        taint.effect == "PreferNoSchedule" or any(tolerates(one, taint) for one in pod.spec.tolerations)
        for taint in node.spec.taints
    )


# --- host ports


def check_host_ports(placed: Placements) -> None:
    """A bound pod shares no host port with anybody on its node, whether terminating, evicted, promised or bound."""
    held: dict[tuple[str, str, int], Counter[str]] = {}  # node, protocol and number → addresses
    for name, node in {**placed.there, **placed.pipelined, **placed.binds}.items():
        for protocol, number, address in host_ports(placed.pods[name]):
            held.setdefault((node, protocol, number), Counter())[address] += 1
    for name, node in placed.binds.items():
        for protocol, number, address in host_ports(placed.pods[name]):
            addresses = held[node, protocol, number]
            same = sum(n for other, n in addresses.items() if other == address or _ANY_ADDRESS in (other, address))
            assert same == 1, f"{name} shares the host port {number} of {node}"


def host_ports(pod: Pod) -> set[Port]:
    running = [c for c in pod.spec.init_containers if c.restart_policy == "Always"] + pod.spec.containers
    return {
        (port.protocol or "TCP", port.host_port, port.host_ip or _ANY_ADDRESS)
        for container in running
        for port in container.ports
        if port.host_port
    }


# --- affinity and anti-affinity


def check_affinity(placed: Placements) -> None:
    """Each required term has a pod in its domain; only the first pod of a series may be that pod itself.

    The pods that count are those that all terms of the holder select. Holders with the same terms are judged together:
    a domain that only they have brought one of these pods into was opened by the first of them, so there is at most one
    such domain, and nobody was selected before.
    """
    alike: dict[bytes, list[str]] = {}
    for name in placed.binds:
        if terms := affinity_terms(placed.pods[name]):
            alike.setdefault(_text(terms, placed.pods[name]), []).append(name)
    for holders in alike.values():
        terms, first = affinity_terms(placed.pods[holders[0]]), placed.pods[holders[0]]
        selected = {
            name for name in placed.present if all(_selects(term, first, placed.pods[name]) for term in terms)
        }
        mine = set(holders)
        opened: dict[str, str] = {}  # topology key → the domain that the holders opened
        for term in terms:
            key = term.topology_key
            found = Counter(placed.domain(name, key) for name in selected - mine)
            for name in holders:
                domain = placed.domain(name, key)
                assert domain is not None, f"{name}: its node has no label {key}"
                if not found[domain]:
                    assert opened.setdefault(key, domain) == domain, f"{name}: nobody of its affinity is near"
        if opened:
            before = any(
                placed.domain(name, term.topology_key) is not None
                for name in selected - placed.binds.keys() - placed.pipelined.keys()
                for term in terms
            )
            itself = [n for n in holders if n in selected and all(placed.domain(n, k) == opened[k] for k in opened)]
            assert itself and not before, f"{holders[0]}: nobody of its affinity is near"


def check_anti_affinity(placed: Placements) -> None:
    """Nobody that a bound pod's terms select is in their domain, and no holder of a term that selects the bound pod."""
    holders: dict[bytes, Counter[str]] = {}  # term → domain → how many pods have it there
    first: dict[bytes, tuple[PodAffinityTerm, Pod]] = {}
    for name in placed.present:
        for term in anti_affinity_terms(placed.pods[name]):
            text = _text([term], placed.pods[name])
            first.setdefault(text, (term, placed.pods[name]))
            domain = placed.domain(name, term.topology_key)
            if domain is not None:
                holders.setdefault(text, Counter())[domain] += 1
    selected = {text: _near(placed, *one) for text, one in first.items()}
    for name in placed.binds:
        pod = placed.pods[name]
        own = {_text([term], pod) for term in anti_affinity_terms(pod)}
        for text, (term, holder) in first.items():
            domain = placed.domain(name, term.topology_key)
            if domain is None:
                continue
            itself = _selects(term, holder, pod)
            if text in own:
                assert selected[text][domain] == itself, f"{name} is near a pod that its anti-affinity selects"
            if itself:
                others = holders.get(text, Counter())[domain] - (text in own)
                assert not others, f"{name} is near a pod whose anti-affinity selects it"


def _near(placed: Placements, term: PodAffinityTerm, holder: Pod) -> Counter[str | None]:
    """Domain → how many pods the holder's term selects there."""
    return Counter(
        placed.domain(name, term.topology_key)
        for name in placed.present
        if _selects(term, holder, placed.pods[name])
    )


def affinity_terms(pod: Pod) -> list[PodAffinityTerm]:
    own = pod.spec.affinity
    return _known(own.pod_affinity.required if own and own.pod_affinity else [], pod)


def anti_affinity_terms(pod: Pod) -> list[PodAffinityTerm]:
    own = pod.spec.affinity
    return _known(own.pod_anti_affinity.required if own and own.pod_anti_affinity else [], pod)


def _known(terms: list[PodAffinityTerm], pod: Pod) -> list[PodAffinityTerm]:
    for term in terms:
        strange = term.namespace_selector is not None or term.match_label_keys or term.mismatch_label_keys
        assert not strange, f"{pod.metadata.name}: the plan checker knows no namespaceSelector and no matchLabelKeys"
    return terms


def _selects(term: PodAffinityTerm, holder: Pod, other: Pod) -> bool:
    namespaces = term.namespaces or [holder.metadata.namespace]
    return other.metadata.namespace in namespaces and matches(term.label_selector, other.metadata.labels)


def _text(terms: list[PodAffinityTerm], holder: Pod) -> bytes:
    return msgspec.json.encode((terms, holder.metadata.namespace))


# --- topology spread


def check_spread(placed: Placements) -> set[str]:
    """The skew at the end is allowed, if all selected pods that came have the same constraint and none was evicted.

    Then the last pod of a domain saw this skew or a larger one. Returns the pods for which this does not hold.
    """
    unjudged: set[str] = set()
    alike: dict[bytes, list[tuple[str, TopologySpreadConstraint]]] = {}
    for name in placed.binds:
        for constraint in hard_constraints(placed.pods[name]):
            alike.setdefault(_spread_text(constraint, placed.pods[name]), []).append((name, constraint))
    for text, some in alike.items():
        first, constraint = some[0]
        counts = _spread_counts(placed, first, constraint)
        settled = _settled(placed, first, constraint, text)
        for name, _ in some:
            domain = placed.domain(name, constraint.topology_key)
            assert domain is not None, f"{name}: its node has no label {constraint.topology_key}"
            if not settled:
                unjudged.add(name)
                continue
            least = min(counts.values()) if len(counts) >= (constraint.min_domains or 1) else 0
            skew = counts.get(domain, 0) - least
            assert skew <= constraint.max_skew, f"{name}: a skew of {skew} over {constraint.topology_key}"
    return unjudged


def hard_constraints(pod: Pod) -> list[TopologySpreadConstraint]:
    found = [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]
    assert not any(c.match_label_keys for c in found), f"{pod.metadata.name}: the plan checker knows no matchLabelKeys"
    return found


def _counted(placed: Placements, holder: Pod, constraint: TopologySpreadConstraint) -> Iterator[str]:
    """The pods that count; kube-scheduler: an empty selector counts none."""
    selector = constraint.label_selector
    if selector is None or not (selector.match_labels or selector.match_expressions):
        return
    for name in chain(placed.there, placed.pipelined, placed.binds):
        pod = placed.pods[name]
        here = pod.metadata.namespace == holder.metadata.namespace and pod.metadata.deletion_timestamp is None
        if here and matches(selector, pod.metadata.labels):
            yield name


def _settled(placed: Placements, first: str, constraint: TopologySpreadConstraint, text: bytes) -> bool:
    for name in _counted(placed, placed.pods[first], constraint):
        came = name not in placed.there
        same = any(_spread_text(c, placed.pods[name]) == text for c in hard_constraints(placed.pods[name]))
        if name in placed.evicted or (came and not (same and name in placed.binds)):
            return False
    return True


def _spread_counts(placed: Placements, first: str, constraint: TopologySpreadConstraint) -> dict[str, int]:
    """Domain → the selected pods on nodes that count; a domain without such a node is left out."""
    holder = placed.pods[first]
    keys = [c.topology_key for c in hard_constraints(holder)]
    counting = {
        name: node.metadata.labels[constraint.topology_key]
        for name, node in placed.nodes.items()
        if _counts(node, constraint, holder, keys)
    }
    found = dict.fromkeys(counting.values(), 0)
    for name in _counted(placed, holder, constraint):
        node = placed.present.get(name, "")
        if node in counting:
            found[counting[node]] += 1
    return found


def _counts(node: Node, constraint: TopologySpreadConstraint, pod: Pod, keys: Iterable[str]) -> bool:
    labels = node.metadata.labels
    if any(key not in labels for key in keys):
        return False
    if constraint.node_affinity_policy != "Ignore" and not asks_for(pod.spec, node.metadata.name, labels):
        return False
    return constraint.node_taints_policy != "Honor" or _tolerates_all(pod, node)


def _spread_text(constraint: TopologySpreadConstraint, pod: Pod) -> bytes:
    """Everything that decides which pods and nodes count for a constraint of this pod."""
    spec = pod.spec
    keys = [c.topology_key for c in hard_constraints(pod)]
    chosen = spec.affinity.node_affinity if spec.affinity is not None else None
    return msgspec.json.encode((constraint, pod.metadata.namespace, keys, spec.node_selector, chosen, spec.tolerations))
