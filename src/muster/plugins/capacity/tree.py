"""Computes the accounts of queues, flat or as a tree: what each queue deserves, and what it may use at most.

In a tree a queue may use what its parent may use beyond the guarantees of the parent's children, plus its own
guarantee; resources that its capability does not name are inherited. A queue that has no place in the tree admits
nothing and has the reason; the others are scheduled (Volcano would schedule nothing at all).
"""

from __future__ import annotations

from collections.abc import Mapping

from muster.engine.core.hooks import Reason
from muster.engine.core.jobs import Queue
from muster.engine.core.resources import ALWAYS
from muster.engine.queues import accounts
from muster.engine.queues.accounts import Account
from muster.engine.queues.limits import Origin, capabilities
from muster.model.scheduling import Queue as QueueObject

ROOT = "root"
LIMITLESS = 2**62  # per resource of the cluster: more than any job can request


def flat(queues: Mapping[str, Queue], total: Mapping[str, int]) -> dict[str, Account]:
    promised = accounts.promised(queues.values())
    found = {}
    for name, queue in queues.items():
        account = found[name] = Account(queue)
        account.origin = Origin(total, "the cluster", list(queues.values()), capabilities(queue))
        account.real = accounts.real_capability(total, promised, queue.guarantee, queue.capability)
        account.deserved = deserved(queue, account.real)
    return found


def tree(queues: Mapping[str, Queue], total: Mapping[str, int]) -> dict[str, Account]:
    """Returns the accounts with their ancestors. If there is no root Queue, the root has no limits."""
    found = {name: Account(queue) for name, queue in queues.items()}
    if ROOT not in found:
        found[ROOT] = Account(Queue(ROOT, QueueObject(), 0.0))
    children: dict[str, list[Account]] = {}
    for name, account in found.items():
        if name == ROOT:
            continue
        line = _line(name, found)
        if isinstance(line, Reason):
            account.fault = line
            continue
        account.ancestors = tuple(found[ancestor] for ancestor in line)
        found[line[-1]].inner = True
        children.setdefault(line[-1], []).append(account)
    root = found[ROOT]
    root.guarantee = accounts.promised(child.queue for child in children.get(ROOT, ()))
    # Volcano: the cluster's size does not limit the root, so a group may be admitted before its nodes exist.
    root.real = accounts.real_capability(dict.fromkeys(total, LIMITLESS), {}, {}, root.queue.capability)
    root.deserved = dict(total)
    root.origin = Origin({}, "the cluster", (), capabilities(root.queue))
    _descend(root, root.queue.capability, children)
    return found


def _descend(parent: Account, capability: Mapping[str, int], children: Mapping[str, list[Account]]) -> None:
    """Sets the limits of the queues below, parents first, at any depth of the tree."""
    left = [(parent, capability)]
    while left:
        parent, capability = left.pop()
        below = children.get(parent.queue.name, [])
        promised = accounts.promised(child.queue for child in below)
        assert parent.origin is not None
        for child in below:
            queue = child.queue
            named = {**parent.origin.capabilities, **capabilities(queue)}
            child.origin = Origin(parent.real, f"queue {parent.queue.name}", [c.queue for c in below], named)
            own = {n: amount for n, amount in queue.capability.items() if amount > 0 or n not in ALWAYS}
            limits = {**capability, **own}
            child.real = accounts.real_capability(parent.real, promised, queue.guarantee, limits)
            # Volcano: in a tree a queue may deserve more than it may use.
            child.deserved = deserved(queue, {})
            left.append((child, limits))


def _line(name: str, found: Mapping[str, Account]) -> list[str] | Reason:
    """Returns the names of the queue's ancestors from the root down, or why it has no path to the root."""
    line: dict[str, None] = {}
    at = name
    while at != ROOT:
        parent = found[at].queue.parent or ROOT
        if parent not in found:
            return Reason("queue-parent", f"queue {at}: its parent {parent} does not exist", resolvable=False)
        if parent in line or parent == name:
            return Reason("queue-parent", f"queue {name}: its ancestors form a loop at {parent}", resolvable=False)
        line[parent] = None
        at = parent
    return [*line][::-1]


def deserved(queue: Queue, most: Mapping[str, int]) -> dict[str, int]:
    """Returns spec.deserved, at most the given limit and at least the queue's guarantee."""
    found = {name: min(amount, most.get(name, amount)) for name, amount in queue.deserved.items()}
    for name, amount in queue.guarantee.items():
        found[name] = max(found.get(name, 0), amount)
    return found


def shared_level(a: Account, b: Account) -> int:
    """Returns the depth of the deepest common ancestor of two queues; 0 is the root."""
    if a.ancestors and a.ancestors[-1:] == b.ancestors[-1:]:
        return len(a.ancestors) - 1  # siblings
    level = 0
    for i, (one, other) in enumerate(zip(a.ancestors, b.ancestors, strict=False)):
        if one is not other:
            break
        level = i
    return level
