"""Indexes the pods on nodes for pod affinity, pod anti-affinity and topology spread.

Pods that every selector in the cluster treats alike and that have the same rules form one pod class. The index knows
how many pods of each class are on which node, and keeps a tally per topology domain for every question that was asked.
A move changes only the tallies of its class. If no pod in the cluster, running or pending, has rules about other pods,
nothing is built.

Which pods count is kube-scheduler's NodeInfo as Volcano's event handlers keep it: pods that were on the node at the
start of the cycle, terminating pods included, and pods allocated or pipelined in it; pods evicted in it do not count. A
tally with `staying` leaves out terminating pods as well: a pod that is pipelined will not run beside them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from muster.engine.core.hooks import Bools, Ledger
from muster.engine.core.jobs import Task
from muster.engine.pod_rules.node_selectors import Required
from muster.engine.pod_rules.rules import PodRules, has_pod_rules, label_keys, read_rules
from muster.engine.pod_rules.selections import Selection, Selections
from muster.engine.pod_rules.taints import Tolerations
from muster.engine.pod_rules.tally import LabelDomains, Tally
from muster.model.batch import ReplicaSet, ReplicationController, StatefulSet
from muster.model.core import Namespace
from muster.model.meta import LabelSelector, controller
from muster.model.pod_states import is_terminating

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.engine.core.statement import Move

NAMESPACE_NAME = "kubernetes.io/metadata.name"
_OWNERS = {("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController")}


class PodClass:
    """Pods that every selector and every pod rule treats equal. `matched_by`: the selections that match them."""

    __slots__ = ("count_by_node", "counted", "feeds", "id", "matched_by", "rules", "terminating")

    def __init__(self, id: int, rules: PodRules, matched_by: frozenset[int], terminating: bool) -> None:
        self.id = id
        self.terminating = terminating  # terminating when the cycle began
        self.rules = rules
        self.matched_by = matched_by
        self.counted: list[tuple[Hashable, int]] = []  # what they count in, and with what weight
        self.count_by_node: dict[int, int] = {}  # node → how many of them, if they count in anything
        self.feeds: list[tuple[Tally, int]] = []  # the tallies they count in, and with what weight

    def matches(self, selection: Selection | None) -> bool:
        return selection is not None and selection.id in self.matched_by

    def feeds_any(self, tallies: Iterable[Tally]) -> bool:
        """Returns whether a placement of such a pod changes one of these."""
        fed = {id(tally) for tally, _ in self.feeds}
        return any(id(tally) in fed for tally in tallies)


class PodIndex(Ledger):
    """The pods of a cycle by what rules read of them; get it with `session.shared(PodIndex)`."""

    def __init__(self, session: Session) -> None:
        self._state = session.state
        self.nodes = session.state.nodes
        owners = any(self._state.objects.get(kind) for _, kind in _OWNERS)
        some = owners or bool(self._state.shapes.with_affinity)
        self._open: bool | None = None if some else False  # None: not built yet; False: no pod in the cluster has rules
        self._pods = self._state.census.update(self._state) if some else ()
        self._early: list[tuple[Task, Sequence[int], int]] = []  # moves before it was built
        self._asking: dict[int, tuple[str, ...]] = {}  # shapes with terms → the pod's labels that these read
        self._selections = Selections()
        self._rules: dict[Hashable, PodRules] = {}
        self._plain = PodRules()
        self._class_of: dict[str, PodClass] = {}
        self._by_labels: dict[Hashable, PodClass] = {}
        self._classes: dict[tuple[int, frozenset[int], bool], PodClass] = {}
        self._members: dict[Hashable, list[tuple[PodClass, int]]] = {}  # what is counted → who counts in it
        self._tallies: dict[Hashable, list[tuple[Tally, bool]]] = {}  # the same → the tallies there are, of whom
        self.any_terminating = False  # are pods terminating on nodes?
        self._made: dict[Hashable, Tally] = {}
        self._domains: dict[str | None, LabelDomains] = {}
        self._required = Required()
        self._tolerations = Tolerations()
        self.anti_affinity_keys: dict[int, list[str]] = {}  # selection → topology keys of required anti-affinity
        self.preference_keys: dict[int, list[str]] = {}  # the same for preferred terms
        self.affinity_keys: dict[int, list[str]] = {}  # the same for required affinity

    # --- pod classes

    @property
    def has_no_rules(self) -> bool:
        """Returns whether no pod in the cluster has a rule about other pods."""
        if self._open is None:
            self._open = self._build()
        return not self._open

    def signature(self, task: Task) -> int | None:
        """Returns the pod class for `Plugin.signature`: tasks of one pod class get the same answers."""
        return None if self.has_no_rules else self.pod_class(task).id

    def pod_class(self, task: Task) -> PodClass:
        """Returns the class of a task's pod; only if there are rules."""
        found = self._class_of.get(task.key)
        if found is None:
            found = self._class_of[task.key] = self._find_class(task)
        return found

    # --- what is counted

    def matching(
        self, selection: Selection, key: str | None, eligible: Bools | None = None, *, staying: bool = False
    ) -> Tally:
        """Returns the pods that the selection matches, per domain of the label (None: per node), on eligible nodes."""
        return self._tally(("match", selection.id), key, eligible, staying)

    def with_anti_affinity(self, selection: int, key: str, *, staying: bool = False) -> Tally:
        """Returns the pods with this required anti-affinity term."""
        return self._tally(("anti-affinity", selection, key), key, None, staying)

    def preference_weights(self, selection: int, key: str) -> Tally:
        """Returns the weights with which pods attract the pods that the selection matches."""
        return self._tally(("pull", selection, key), key)

    def with_affinity(self, selection: int, key: str) -> Tally:
        """Returns the pods with this required affinity term."""
        return self._tally(("require", selection, key), key)

    def domains(self, key: str | None) -> LabelDomains:
        """Returns the domains of a node label; None: every node is a domain."""
        found = self._domains.get(key)
        if found is None:
            found = LabelDomains.nodes(self.nodes) if key is None else LabelDomains.of(self.nodes, key)
            self._domains[key] = found
        return found

    def required(self, task: Task) -> Bools:
        """Returns the nodes that the pod's node selector and required node affinity accept."""
        return self._required.of(task.shape, self.nodes)

    def tolerated(self, task: Task) -> Bools:
        """Returns the nodes without a NoSchedule or NoExecute taint that the pod does not tolerate."""
        tolerated: Bools = self._tolerations.of(task.shape, self.nodes).refused == 0
        return tolerated

    def _tally(
        self, what: tuple[Hashable, ...], key: str | None, eligible: Bools | None = None, staying: bool = False
    ) -> Tally:
        if eligible is not None and eligible.all():
            eligible = None
        staying = staying and self.any_terminating
        made = (what, key, None if eligible is None else eligible.tobytes(), staying)
        tally = self._made.get(made)
        if tally is None:
            domains = self.domains(key)
            tally = self._made[made] = Tally(domains if eligible is None else domains.only(eligible))
            self._tallies.setdefault(what, []).append((tally, staying))
            for pod_class, weight in self._members.get(what, ()):
                if staying and pod_class.terminating:
                    continue
                pod_class.feeds.append((tally, weight))
                if pod_class.count_by_node:
                    tally.fill(pod_class.count_by_node, weight)
        return tally

    # --- moves

    def allocated(self, move: Move) -> None:
        self._moved(move.task, move.nodes, 1)

    def released(self, move: Move) -> None:
        self._moved(move.task, move.nodes, -1)

    def _moved(self, task: Task, nodes: Sequence[int], sign: int) -> None:
        if self._open is None:
            self._early.append((task, nodes, sign))
        if not self._open or not (pod_class := self.pod_class(task)).counted:
            return
        count_by_node = pod_class.count_by_node
        for node in nodes:
            count = count_by_node.get(node, 0) + sign
            if count:
                count_by_node[node] = count
            else:
                del count_by_node[node]
        for tally, weight in pod_class.feeds:
            tally.add(nodes, weight, sign)

    # --- building

    def _build(self) -> bool:
        for shape in self._state.shapes.with_affinity:
            if has_pod_rules(shape.spec):
                self._asking[shape.id] = label_keys(shape.spec)
        # All terms must be known before the first pod is matched against them.
        for equal in self._pods:
            if equal.example.shape.id in self._asking or not equal.example.pod.spec.node_name:
                self._rules_of(equal.example)
        if not self._rules:
            return False
        for equal in self._pods:
            if equal.count_by_node:
                pod_class = self._find_class(equal.example)
                self.any_terminating = self.any_terminating or pod_class.terminating
                if pod_class.counted:
                    _add(pod_class.count_by_node, equal.count_by_node)
        self._open = True
        for move in self._early:
            self._moved(*move)
        return True

    def _rules_of(self, task: Task) -> PodRules:
        spec = task.pod.spec
        keys = self._asking.get(task.shape.id)
        owners = None if spec.node_name or spec.topology_spread_constraints else self._owner(task)
        if keys is None and owners is None:
            return self._plain
        labels = task.labels
        owner_key = None if owners is None else owners[0]
        identity = (task.shape.id, task.namespace, owner_key, *(labels.get(key) for key in keys or ()))
        rules = self._rules.get(identity)
        if rules is None:
            selector = None if owners is None else owners[1]
            rules = read_rules(spec, task.namespace, labels, self._selections, selector)
            rules.id = len(self._rules)
            self._rules[identity] = rules
            for selection, key in rules.anti_affinity_terms():
                _remember(self.anti_affinity_keys, selection, key)
            for selection, key in rules.preference_weights():
                _remember(self.preference_keys, selection, key)
            for selection, key in rules.affinity_terms():
                _remember(self.affinity_keys, selection, key)
        return rules

    def _owner(self, task: Task) -> tuple[str, LabelSelector] | None:
        """kube-scheduler: pods of a ReplicaSet, StatefulSet or ReplicationController are spread by default."""
        owner = controller(task.pod.metadata)
        if owner is None or (owner.api_version.rpartition("/")[0], owner.kind) not in _OWNERS:
            return None
        found = self._state.objects[owner.kind].get(f"{task.namespace}/{owner.name}")
        selector: LabelSelector | None = None
        if isinstance(found, ReplicationController):
            selector = LabelSelector(match_labels=found.spec.selector or found.spec.template.metadata.labels)
        elif isinstance(found, ReplicaSet | StatefulSet):
            selector = found.spec.selector
        if selector is None or not (selector.match_labels or selector.match_expressions):
            return None
        return f"{owner.kind}/{owner.name}", selector

    def _find_class(self, task: Task) -> PodClass:
        rules = self._rules_of(task)
        keys = self._selections.keys
        labels = {key: value for key, value in task.labels.items() if key in keys}
        terminating = _terminating(task)
        identity = (rules.id, task.namespace, terminating, frozenset(labels.items()))
        pod_class = self._by_labels.get(identity)
        if pod_class is None:
            matched_by = self._selections.matching_ids(
                task.namespace, self._namespace_labels(task.namespace), labels, terminating=terminating
            )
            known = self._classes.get((rules.id, matched_by, terminating))
            pod_class = known or self._new_class(rules, matched_by, terminating)
            self._by_labels[identity] = pod_class
        return pod_class

    def _new_class(self, rules: PodRules, matched_by: frozenset[int], terminating: bool) -> PodClass:
        pod_class = PodClass(len(self._classes), rules, matched_by, terminating)
        self._classes[rules.id, matched_by, terminating] = pod_class
        counted = pod_class.counted
        counted += [(("match", selection), 1) for selection in sorted(matched_by)]
        counted += [(("anti-affinity", *term), count) for term, count in rules.anti_affinity_terms().items()]
        counted += [(("pull", *term), weight) for term, weight in rules.preference_weights().items()]
        counted += [(("require", *term), count) for term, count in rules.affinity_terms().items()]
        for what, weight in counted:
            self._members.setdefault(what, []).append((pod_class, weight))
            fed = self._tallies.get(what, ())
            pod_class.feeds.extend((tally, weight) for tally, staying in fed if not (staying and terminating))
        return pod_class

    def _namespace_labels(self, name: str) -> dict[str, str]:
        """The API server gives every namespace a label with its name; a namespace without a manifest has only that."""
        found = self._state.objects["Namespace"].get(name)
        labels = found.metadata.labels if isinstance(found, Namespace) else {}
        return {**labels, NAMESPACE_NAME: name}


def _remember(found: dict[int, list[str]], selection: int, key: str) -> None:
    keys = found.setdefault(selection, [])
    if key not in keys:
        keys.append(key)


def _add(counts: dict[int, int], more: dict[int, int]) -> None:
    if not counts:
        counts.update(more)
        return
    for node, count in more.items():
        counts[node] = counts.get(node, 0) + count


def _terminating(task: Task) -> bool:
    return is_terminating(task.pod)
