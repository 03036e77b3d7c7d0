"""Settings and flags of `muster controllers` and `muster pod-groups`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from muster.process.settings import (
    APPLICATIONS,
    NAMESPACED,
    PRIVILEGED,
    WORKLOAD_KINDS,
    ClusterSettings,
    Flag,
    LeaseSettings,
    ProbeSettings,
    check_readable,
    default_applications,
    home_of,
    own_namespace,
)


@dataclass(frozen=True, slots=True)
class PodGroupSettings:
    """Settings of `muster pod-groups`."""

    cluster: ClusterSettings
    lease: LeaseSettings
    scheduler_names: Annotated[tuple[str, ...], Flag(
        "--scheduler-name", metavar="NAME", help="Handle pods with this schedulerName. May be given several times.",
    )] = ("muster",)  # fmt: skip
    workload_kinds: Annotated[tuple[str, ...], WORKLOAD_KINDS] = ()
    probes: ProbeSettings = field(default_factory=ProbeSettings)

    @property
    def applications(self) -> str:
        """The kinds that node group policies divide form no gangs."""
        return ""

    def __post_init__(self) -> None:
        check_readable(WORKLOAD_KINDS, self.workload_kinds)


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Settings of `muster controllers`."""

    cluster: ClusterSettings
    lease: LeaseSettings
    applications: Annotated[str, APPLICATIONS] = field(default_factory=default_applications)
    settle: Annotated[float, Flag(
        "--settle", minimum=0, metavar="SECONDS",
        help="The time without evictions after a change of a policy, a group or the number of replicas.",
    )] = 10.0  # fmt: skip
    rest: Annotated[float, Flag(
        "--rest", minimum=0, metavar="SECONDS",
        help="The time within which a kubelet must begin to restart a pod whose image was changed.",
    )] = 10.0  # fmt: skip
    eviction_rate: Annotated[float, Flag(
        "--eviction-rate", positive=True, metavar="PER_SECOND",
        help="The number of evictions per second, of all applications.",
    )] = 1.0  # fmt: skip
    eviction_burst: Annotated[int, Flag(
        "--eviction-burst", minimum=1, metavar="N",
        help="The number of evictions that may follow at once after a time without evictions.",
    )] = 5  # fmt: skip
    daemonset_affinity: Annotated[bool, Flag(
        "--daemonset-affinity", metavar="BOOL", help="Write the node groups of a DaemonSet as required node affinity "
        "into its pod template; if false, only report them.",
    )] = True  # fmt: skip
    deletion_costs: Annotated[bool, Flag(
        "--seats/--no-seats",
        help="Write the position of each pod in the replica order as its deletion cost, so that a scale-down needs no "
        "evictions.",
    )] = True  # fmt: skip
    node_labels: Annotated[bool, Flag(
        "--node-labels/--no-node-labels", help="Label nodes with their groups, which the webhook's affinity needs.",
    )] = True  # fmt: skip
    privileged: Annotated[bool, PRIVILEGED] = False
    revert: Annotated[bool, Flag(
        "--revert-on-unbind",
        help="Restore the template of pods whose application no longer requires an OverridePolicy.",
    )] = False  # fmt: skip
    exclusive: Annotated[bool, Flag(
        "--exclusive-groups", help="A node is in one group only, the oldest that would contain it; an annotation of "
        "the groups shows this to the other components.",
    )] = False  # fmt: skip
    given_webhook_lease: Annotated[str, Flag(
        "--webhook-lease", metavar=NAMESPACED, help="The Lease of muster webhook: while it is renewed, pods whose "
        "edition only the webhook can create are evicted. Default: muster-webhook in the namespace muster runs in, "
        "else in kube-system.",
    )] = ""  # fmt: skip
    given_extender_lease: Annotated[str, Flag(
        "--extender-lease", metavar=NAMESPACED, literals=("none",), help="The Lease of muster extender: no pod is "
        "evicted to move it while the Lease is not renewed. none: always treated as renewed. Default: "
        "muster-extender in the namespace of the ConfigMap of --applications.",
    )] = ""  # fmt: skip
    given_scheduler_lease: Annotated[str, Flag(
        "--scheduler-lease", metavar=NAMESPACED, literals=("none",), help="The same for muster scheduler and pods with "
        "its schedulerName. Default: muster-scheduler in the namespace of the ConfigMap of --applications.",
    )] = ""  # fmt: skip
    scheduler_names: Annotated[tuple[str, ...], Flag(
        "--scheduler-name", metavar="NAME", help="schedulerName of pods that muster scheduler places; may be repeated.",
    )] = ("muster", "volcano")  # fmt: skip
    dry_run: Annotated[bool, Flag(
        "--dry-run", help="Write nothing: log the evictions and patches that would be made in the current state.",
    )] = False  # fmt: skip
    probes: ProbeSettings = field(default_factory=ProbeSettings)

    @property
    def webhook_lease(self) -> str:
        return self.given_webhook_lease or f"{own_namespace()}/muster-webhook"

    @property
    def extender_lease(self) -> str:
        return self.given_extender_lease or f"{home_of(self.applications)}/muster-extender"

    @property
    def scheduler_lease(self) -> str:
        return self.given_scheduler_lease or f"{home_of(self.applications)}/muster-scheduler"
