"""The pods on nodes by what other pods ask about them: one index for affinity, anti-affinity and spread.

Pods that every selection in the cluster sees alike, and that ask for the same, are one *kin*. The index knows for each
kin how many of its pods lie on which node, and for each question somebody has asked a tally per topology domain; a
move changes the tallies that its kin feeds and nothing else. When no pod in the cluster, running or waiting, asks about
other pods, nothing is built at all.

What counts as on a node is kube-scheduler's NodeInfo as Volcano's event handlers keep it: pods there at the start of
the cycle, terminating ones included, and pods allocated or pipelined in it; pods evicted in it are gone. A tally of
pods that stay leaves out the terminating ones, too: a pod that is promised what comes free will not meet them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

from muster.engine.core.hooks import Bools, Ledger
from muster.engine.core.jobs import ON_NODE, Status, Task
from muster.engine.pod_rules.node_selectors import Required
from muster.engine.pod_rules.podrules import PodRules, asks, label_keys, read_rules
from muster.engine.pod_rules.selections import Selection, Selections
from muster.engine.pod_rules.taints import Tolerations
from muster.engine.pod_rules.tally import Domains, Tally
from muster.model.batch import ReplicaSet, ReplicationController, StatefulSet
from muster.model.core import Namespace
from muster.model.meta import LabelSelector, controller

if TYPE_CHECKING:
    from muster.engine.core.session import Session
    from muster.engine.core.statement import Move

NAMESPACE_NAME = "kubernetes.io/metadata.name"
_OWNERS = {("apps", "ReplicaSet"), ("apps", "StatefulSet"), ("", "ReplicationController")}


class Kin:
    """Pods alike to every selection, with the same rules. `meant_by` are the selections that mean them."""

    __slots__ = ("feeds", "id", "leaving", "meant_by", "places", "rules")

    def __init__(self, id: int, rules: PodRules, meant_by: frozenset[int], leaving: bool) -> None:
        self.id = id
        self.leaving = leaving  # terminating when the cycle began
        self.rules = rules
        self.meant_by = meant_by
        self.places: dict[int, int] = {}  # node → how many of them
        self.feeds: list[tuple[Tally, int]] = []  # the tallies they count in, and with what weight

    def meets(self, selection: Selection | None) -> bool:
        return selection is not None and selection.id in self.meant_by

    def feeds_any(self, tallies: Iterable[Tally]) -> bool:
        """Does a placement of such a pod change one of these?"""
        fed = {id(tally) for tally, _ in self.feeds}
        return any(id(tally) in fed for tally in tallies)


class PodIndex(Ledger):
    """To be had by `session.shared(PodIndex)`."""

    def __init__(self, session: Session) -> None:
        self._state = session.state
        self.nodes = session.state.nodes
        self._open: bool | None = None  # None: nobody has asked yet; False: nothing in the cluster asks
        self._asking: dict[int, tuple[str, ...]] = {}  # shapes with terms → the pod's labels that these read
        self._selections = Selections()
        self._rules: dict[Hashable, PodRules] = {}
        self._plain = PodRules()
        self._kin_of: dict[str, Kin] = {}
        self._by_look: dict[Hashable, Kin] = {}
        self._kins: dict[tuple[int, frozenset[int], bool], Kin] = {}
        self._members: dict[Hashable, list[tuple[Kin, int]]] = {}  # what is counted → who counts in it
        self._tallies: dict[Hashable, list[tuple[Tally, bool]]] = {}  # the same → the tallies there are, of whom
        self.any_leaving = False  # are pods terminating on nodes?
        self._made: dict[Hashable, Tally] = {}
        self._domains: dict[str, Domains] = {}
        self._required = Required()
        self._tolerations = Tolerations()
        self.held: dict[int, list[str]] = {}  # selection → topology keys of anti-affinity terms that pods have
        self.pulling: dict[int, list[str]] = {}  # the same of preferred terms
        self.requiring: dict[int, list[str]] = {}  # the same of required affinity terms

    # --- whom a task concerns

    @property
    def silent(self) -> bool:
        """No pod in the cluster asks anything about other pods."""
        if self._open is None:
            self._open = self._build()
        return not self._open

    def signature(self, task: Task) -> int | None:
        """For `Plugin.signature`: tasks of one kin get the same answers."""
        return None if self.silent else self.kin(task).id

    def kin(self, task: Task) -> Kin:
        """Only when not silent."""
        found = self._kin_of.get(task.key)
        if found is None:
            found = self._kin_of[task.key] = self._find_kin(task)
        return found

    # --- what is counted

    def matching(
        self, selection: Selection, key: str | None, eligible: Bools | None = None, *, staying: bool = False
    ) -> Tally:
        """Pods that the selection means, per domain of the label (None: per node), on eligible nodes only."""
        return self._tally(("match", selection.id), key, eligible, staying)

    def holders(self, selection: int, key: str, *, staying: bool = False) -> Tally:
        """Pods with this required anti-affinity term."""
        return self._tally(("held", selection, key), key, None, staying)

    def pull(self, selection: int, key: str) -> Tally:
        """The weights with which pods draw to them what the selection means."""
        return self._tally(("pull", selection, key), key)

    def requirers(self, selection: int, key: str) -> Tally:
        """Pods with this required affinity term."""
        return self._tally(("require", selection, key), key)

    def domains(self, key: str) -> Domains:
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = Domains.of(self.nodes, key)
        return found

    def required(self, task: Task) -> Bools:
        """The nodes that the pod's node selector and required node affinity accept."""
        return self._required.of(task.shape, self.nodes)

    def tolerated(self, task: Task) -> Bools:
        """The nodes without a NoSchedule or NoExecute taint that the pod does not tolerate."""
        tolerated: Bools = self._tolerations.of(task.shape, self.nodes).refused == 0
        return tolerated

    def _tally(
        self, what: tuple[Hashable, ...], key: str | None, eligible: Bools | None = None, staying: bool = False
    ) -> Tally:
        if eligible is not None and eligible.all():
            eligible = None
        staying = staying and self.any_leaving
        made = (what, key, None if eligible is None else eligible.tobytes(), staying)
        tally = self._made.get(made)
        if tally is None:
            domains = Domains.nodes(self.nodes) if key is None else self.domains(key)
            tally = self._made[made] = Tally(domains if eligible is None else domains.only(eligible))
            self._tallies.setdefault(what, []).append((tally, staying))
            for kin, weight in self._members.get(what, ()):
                if staying and kin.leaving:
                    continue
                kin.feeds.append((tally, weight))
                if kin.places:
                    tally.fill(kin.places, weight)
        return tally

    # --- moves

    def allocated(self, move: Move) -> None:
        self._moved(move.task, move.nodes, 1)

    def released(self, move: Move) -> None:
        self._moved(move.task, move.nodes, -1)

    def _moved(self, task: Task, nodes: Sequence[int], sign: int) -> None:
        if not self._open:
            return
        kin = self.kin(task)
        places = kin.places
        for node in nodes:
            count = places.get(node, 0) + sign
            if count:
                places[node] = count
            else:
                del places[node]
        for tally, weight in kin.feeds:
            tally.add(nodes, weight, sign)

    # --- building

    def _build(self) -> bool:
        for shape in self._state.shapes:
            if asks(shape.spec):
                self._asking[shape.id] = label_keys(shape.spec)
        owners = any(self._state.objects.get(kind) for _, kind in _OWNERS)
        if not self._asking and not owners:
            return False
        # Every term there is must be known before the first pod is held against the terms.
        tasks = self._state.tasks.values()
        for task in tasks:
            if task.shape.id in self._asking or (owners and not task.pod.spec.node_name):
                self._rules_of(task)
        if not self._rules:
            return False
        for task in tasks:
            if task.node >= 0 and _counts(task):
                self.any_leaving = self.any_leaving or _leaving(task)
                places = self.kin(task).places
                places[task.node] = places.get(task.node, 0) + 1
        return True

    def _rules_of(self, task: Task) -> PodRules:
        spec = task.pod.spec
        keys = self._asking.get(task.shape.id)
        owners = None if spec.node_name or spec.topology_spread_constraints else self._owner(task)
        if keys is None and owners is None:
            return self._plain
        labels = task.labels
        owner_key = None if owners is None else owners[0]
        look = (task.shape.id, task.namespace, owner_key, *(labels.get(key) for key in keys or ()))
        rules = self._rules.get(look)
        if rules is None:
            selector = None if owners is None else owners[1]
            rules = read_rules(spec, task.namespace, labels, self._selections, selector)
            rules.id = len(self._rules)
            self._rules[look] = rules
            for selection, key in rules.held():
                _remember(self.held, selection, key)
            for selection, key in rules.pulls():
                _remember(self.pulling, selection, key)
            for selection, key in rules.requires():
                _remember(self.requiring, selection, key)
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

    def _find_kin(self, task: Task) -> Kin:
        rules = self._rules_of(task)
        keys = self._selections.keys
        labels = {key: value for key, value in task.labels.items() if key in keys}
        leaving = _leaving(task)
        look = (rules.id, task.namespace, leaving, frozenset(labels.items()))
        kin = self._by_look.get(look)
        if kin is None:
            meant_by = self._selections.meaning(
                task.namespace, self._namespace_labels(task.namespace), labels, leaving=leaving
            )
            kin = self._kins.get((rules.id, meant_by, leaving)) or self._new_kin(rules, meant_by, leaving)
            self._by_look[look] = kin
        return kin

    def _new_kin(self, rules: PodRules, meant_by: frozenset[int], leaving: bool) -> Kin:
        kin = self._kins[rules.id, meant_by, leaving] = Kin(len(self._kins), rules, meant_by, leaving)
        counted: list[tuple[Hashable, int]] = [(("match", selection), 1) for selection in sorted(meant_by)]
        counted += [(("held", *term), count) for term, count in rules.held().items()]
        counted += [(("pull", *term), weight) for term, weight in rules.pulls().items()]
        counted += [(("require", *term), count) for term, count in rules.requires().items()]
        for what, weight in counted:
            self._members.setdefault(what, []).append((kin, weight))
            fed = self._tallies.get(what, ())
            kin.feeds.extend((tally, weight) for tally, staying in fed if not (staying and leaving))
        return kin

    def _namespace_labels(self, name: str) -> dict[str, str]:
        """The API server gives every namespace a label with its name; one without a manifest has just that."""
        found = self._state.objects["Namespace"].get(name)
        labels = found.metadata.labels if isinstance(found, Namespace) else {}
        return {**labels, NAMESPACE_NAME: name}


def _remember(found: dict[int, list[str]], selection: int, key: str) -> None:
    keys = found.setdefault(selection, [])
    if key not in keys:
        keys.append(key)


def _counts(task: Task) -> bool:
    """Is a task with a node on it, as the cycle stands? One that was evicted in this cycle is not."""
    if task.status == Status.RELEASING:
        return _leaving(task)
    return task.status in ON_NODE or task.status == Status.PIPELINED


def _leaving(task: Task) -> bool:
    return task.pod.metadata.deletion_timestamp is not None
