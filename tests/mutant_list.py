"""The hand-made mutants of tests/mutants.py: a file below src/muster, a text in it, and the fault that replaces it."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One fault. If the code has moved, the text is looked for in the other files."""

    file: str
    about: str
    old: str
    new: str


MUTANTS = [
    # --- engine
    Mutant("engine/evictions/victims.py", "a group that was refused admission evicts",
           "and not job.is_pending and session.starving", "and session.starving"),
    Mutant("engine/placement/placement.py", "a run goes on with the constants of a node that is full",
           "order = self._until_full(order, more)", "pass"),
    Mutant("engine/placement/placement.py", "a nominated node is tried only if any node does",
           "placed = placed or self.place(statement, [task], within)", "pass"),
    Mutant("engine/core/statement.py", "undoing a placement leaves the pod's node",
           "            task.node = -1\n", "            pass\n"),
    Mutant("engine/core/statement.py", "a kept statement is committed",
           "self.session.reserved.extend(self.moves)", "self.session.committed.extend(self.moves)"),
    Mutant("engine/core/session.py", "a permission of a tier outvotes a rejection in it",
           "            if vote < 0:\n                return plugin\n            permitted = permitted or vote > 0\n",
           "            permitted = permitted or vote > 0\n            if vote < 0 and not permitted:\n"
           "                return plugin\n"),
    Mutant("engine/core/session.py", "a job misses the least that a plugin says",
           "if (own := plugin.missing(job)) > most:", "if (own := plugin.missing(job)) < most:"),
    Mutant("engine/core/session.py", "closing leaves the phases that enqueue gave",
           "].phase = phase", "].phase"),
    Mutant("engine/placement/batch.py", "ties inside a run go to the last node",
           "order = np.lexsort((j, n, -g))[:count]", "order = np.lexsort((j, -n, -g))[:count]"),
    Mutant("engine/evictions/claim.py", "a job gives one pod of its minimum",
           "max(_counted_pods(job) - job.min_available, 0)", "max(_counted_pods(job) - job.min_available + 1, 0)"),
    Mutant("engine/evictions/claim.py", "surplus of equal priority may go",
           "if t.priority < claim.pod_priority]", "if t.priority <= claim.pod_priority]"),
    Mutant("engine/queues/accounts.py", "gated pods are reserved for",
           "    if resources.empty(gated):\n        return amounts\n", "    return amounts\n"),
    Mutant("engine/queues/accounts.py", "elastic amounts count twice",
           "inqueue.get(name, 0) - elastic.get(name, 0) > real", "inqueue.get(name, 0) > real"),
    Mutant("actions/arrangements.py", "a search gives nothing back when it goes another way",
           "            free_on[node] = free_here\n        return False", "        return False"),
    Mutant("engine/evictions/promises.py", "a promise whose capacity is free is never given up",
           "session.now >= since +", "session.now > 2 * since +"),
    Mutant("engine/core/nodes.py", "a pipelined pod takes idle capacity",
           "MoveKind.PIPELINE: (0, -1, 0, 1)", "MoveKind.PIPELINE: (-1, -1, 0, 1)"),
    # --- the engine's other packages
    Mutant("engine/pod_rules/taints.py", "NoExecute does not keep pods off",
           'HARD = ("NoSchedule", "NoExecute")', 'HARD = ("NoSchedule",)'),
    Mutant("engine/pod_rules/ports.py", "a port of all addresses leaves the others free",
           "if other == address or ANY_ADDRESS in (other, address):", "if other == address:"),
    Mutant("engine/pod_rules/spread.py", "one pod more than the skew allows",
           "table[counts > c.max_skew + least - me] = SKEW", "table[counts > c.max_skew + least] = SKEW"),
    Mutant("engine/pod_rules/node_selectors.py", "a term that says nothing selects all nodes",
           "found = np.full(len(nodes), bool(term.match_expressions or term.match_fields))",
           "found = np.full(len(nodes), True)"),
    Mutant("engine/devices/boards.py", "chips of the ring with fewer free others first",
           "usable = [(best.index(n), free - n, ring)", "usable = [(best.index(n), n - free, ring)"),
    Mutant("engine/volumes/volume_match.py", "the largest volume first",
           "            row.sort()\n", "            row.sort(reverse=True)\n"),
    # --- plugins
    Mutant("plugins/gang.py", "pods that request nothing do not count for the minimum",
           "short = job.min_available - job.ready - job.best_effort_pending",
           "short = job.min_available - job.ready"),
    Mutant("plugins/gang.py", "a job at its minimum gives a pod",
           "spare = left > job.min_available", "spare = left >= job.min_available"),
    Mutant("plugins/priority.py", "jobs of equal priority may be preempted",
           "victim.job.priority < job.priority", "victim.job.priority <= job.priority"),
    Mutant("plugins/drf.py", "equal shares are not equal",
           "answers.append(share < other or abs(share - other) <= _DELTA)", "answers.append(share < other)"),
    Mutant("plugins/proportion.py", "queues of lower priority first",
           "return -1 if a.priority > b.priority else 1\n        left, right = self._share(a)",
           "return 1 if a.priority > b.priority else -1\n        left, right = self._share(a)"),
    Mutant("plugins/proportion.py", "a queue gives beyond its deserved share",
           "            if beyond:\n                add(allocated, task.shape.amounts, -1)\n", ""),
    Mutant("plugins/capacity/__init__.py", "the limits of ancestors do not hold",
           "for each in account.chain:\n            count = ", "for each in account.chain[:1]:\n            count = "),
    Mutant("plugins/binpack.py", "a node that would be too full scores",
           "total[(nodes.used[ratio.key] + request > offered) & (offered > 0)] = 0.0", "pass"),
    Mutant("plugins/overcommit.py", "what is in use is not subtracted",
           "amount * self._factor - used.get(name, 0)", "amount * self._factor"),
    Mutant("plugins/sla.py", "a deadline is past one moment later",
           "Vote.PERMIT if self._now >= self._deadline(job)", "Vote.PERMIT if self._now > self._deadline(job)"),
    Mutant("plugins/nodegroup/rules.py", "a preferred group scores in a required one only",
           "return required + max((self.preferences[g] for g in groups if g in self.preferences), default=0.0)",
           "return required or max((self.preferences[g] for g in groups if g in self.preferences), default=0.0)"),
    Mutant("plugins/nodeorder/resources.py", "evenness is rounded up",
           "    even *= 100.0\n    np.floor(even, out=even)", "    even *= 100.0\n    np.ceil(even, out=even)"),
    # --- groups
    Mutant("groups/division.py", "leftovers go to the group that has more",
           "return (-mine, self.has, self.rank) < (-theirs, other.has, other.rank)",
           "return (-mine, -self.has, self.rank) < (-theirs, -other.has, other.rank)"),
    Mutant("groups/division.py", "minimums are filled only when there is more",
           "if replicas <= sum(least.values()):", "if replicas < sum(least.values()) - 1:"),
    Mutant("groups/membership.py", "an exclusive node is in the newest group",
           "for name in exclusive[1:]:", "for name in exclusive[:-1]:"),
    Mutant("groups/propagation.py", "a group that is named twice has its last weight",
           "max(entry.weight, found.weights.get(name, 0))", "entry.weight"),
    Mutant("groups/assignment.py", "an empty term begins to select nodes",
           'if wanted in expressions or not (expressions or term.get("matchFields")):', "if wanted in expressions:"),
    Mutant("groups/override/image.py", "a path with a colon in it is a registry",
           "if colon > name.rfind(\"/\"):", "if colon > 0:"),
]  # fmt: skip
