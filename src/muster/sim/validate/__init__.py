"""`muster validate`: what is wrong with a configuration and with manifests, what could never schedule and why, and what
a configuration does without saying so.

`configuration` looks at the configuration alone, `queues`, `groups` and `pods` at the cluster before its first cycle,
in a session with the configured plugins, so that their own rules speak.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from muster.cluster.manifests import Manifests
from muster.config import render
from muster.cycle.configure import configure
from muster.cycle.requirements import ignored
from muster.cycle.scheduler import Scheduler
from muster.model.finding import Finding, in_order
from muster.sim.opening import opened
from muster.sim.validate.configuration import remarks
from muster.sim.validate.groups import group_findings
from muster.sim.validate.places import Located
from muster.sim.validate.pods import pod_findings
from muster.sim.validate.policies import policy_findings
from muster.sim.validate.queues import queue_findings

__all__ = ["effective", "validate_cluster", "validate_configuration"]


def validate_configuration(text: str, name: str) -> tuple[Scheduler, list[Finding]]:
    """A scheduler with the configuration as far as it is usable, and all there is to say about it."""
    config, findings = configure(text, name)
    scheduler = Scheduler(config)
    usable = all(finding.severity != "error" for finding in findings)
    findings += scheduler.findings()
    if usable:
        findings += remarks(scheduler, text, name)
    return scheduler, in_order(findings)


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



def effective(scheduler: Scheduler) -> dict[str, Any]:
    """The configuration as understood: every plugin with its arguments as it read them."""
    plain = render(scheduler.config)
    for tier, entries in zip(scheduler.tiers, plain["tiers"], strict=True):
        for plugin, entry in zip(tier, entries["plugins"], strict=True):
            arguments = plugin.effective()
            if arguments:
                entry["arguments"] = arguments
    return plain
