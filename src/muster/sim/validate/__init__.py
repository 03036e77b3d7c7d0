"""`muster validate`: what is wrong with a configuration and with manifests, what could never schedule and why, and what
a configuration does without saying so.

`muster.cycle.validation` checks the configuration alone; `queues`, `groups` and `pods` check the cluster before its
first cycle, in a session with the configured plugins, so that their own rules speak.
"""

from __future__ import annotations

from collections.abc import Iterable

from muster.cluster.manifests import Manifests
from muster.cycle.requirements import ignored
from muster.cycle.scheduler import Scheduler
from muster.cycle.validation import effective, validate_configuration
from muster.model.finding import Finding, in_order
from muster.sim.opening import opened
from muster.sim.validate.groups import group_findings
from muster.sim.validate.places import Located
from muster.sim.validate.pods import pod_findings
from muster.sim.validate.policies import policy_findings
from muster.sim.validate.queues import queue_findings

__all__ = ["effective", "validate_cluster", "validate_configuration"]


def validate_cluster(
    scheduler: Scheduler, manifests: Manifests, scheduler_names: Iterable[str], *, privileged: bool = False
) -> list[Finding]:
    """What the manifests' reader found, and what the cluster they make could never do.

    `privileged`: OverridePolicies may give pods privileges that their templates have not.
    """
    cluster, state = opened(manifests.objects, manifests.latest, scheduler_names)
    where = Located(manifests.where, cluster)
    session = scheduler.session(state, manifests.latest)
    try:
        found = [*queue_findings(session, where), *group_findings(session, where), *pod_findings(session, where)]
        found += policy_findings(session, where, cluster.store.whole, privileged=privileged)
        found += where.fill(ignored(scheduler.config, state))
        for plugin in session.plugins:
            found += where.fill(type(plugin).examine(session))
    finally:
        session.close()
    return in_order([*manifests.findings, *found])

