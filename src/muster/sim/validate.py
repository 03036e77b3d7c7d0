"""`muster validate`: checks a configuration and manifests, and reports what could never be scheduled and why.

`muster.cycle.configure` checks the configuration; the rules for the cluster are in `muster.validation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from muster.cluster.manifests import Manifests
from muster.cycle.configure import effective, validate_configuration
from muster.cycle.requirements import ignored
from muster.cycle.scheduler import Scheduler
from muster.model.finding import Finding, in_order
from muster.sim.group_controllers import open_cluster
from muster.validation.locator import Locator
from muster.validation.native_groups import native_group_findings
from muster.validation.pod_groups import pod_group_findings
from muster.validation.pods import pod_findings
from muster.validation.policies import policy_findings
from muster.validation.queues import queue_findings
from muster.validation.volcano_jobs import volcano_job_findings
from muster.workloads import FAULT_OF_OBJECT, UNDESCRIBED

__all__ = ["effective", "validate_cluster", "validate_configuration"]


def validate_cluster(
    scheduler: Scheduler, manifests: Manifests, scheduler_names: Iterable[str], *, privileged: bool = False
) -> list[Finding]:
    """Returns the findings of the manifest reader, and those about the cluster that the manifests describe.

    With `privileged`, OverridePolicies may give pods privileges that their templates do not have.
    """
    cluster, state = open_cluster(manifests.objects, manifests.latest, scheduler_names, all_pods=True)
    locator = Locator(manifests.where, cluster.store.everything(), manifests.where.line_of_field)
    session = scheduler.session(state, manifests.latest)
    try:
        found = [*queue_findings(session, locator), *pod_group_findings(session, locator)]
        found += native_group_findings(session, locator)
        found += pod_findings(session, locator)
        found += volcano_job_findings(session, locator)
        found += policy_findings(session, locator, cluster.store.whole, privileged=privileged)
        found += locator.locate(ignored(scheduler.config, state))
        for plugin in session.plugins:
            found += locator.locate(type(plugin).examine(session))
    finally:
        session.close()
    return in_order([*map(_as_error, manifests.findings), *found])


def _as_error(finding: Finding) -> Finding:
    """Makes an error of a kind that is not described, and of what a description does not find in an object."""
    return replace(finding, severity="error") if finding.code in (FAULT_OF_OBJECT, UNDESCRIBED) else finding
