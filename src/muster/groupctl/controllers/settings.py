"""Settings and flags of `muster controllers` and `muster pod-groups`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from muster.process.settings import (
    APPLICATIONS,
    NAMESPACED,
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
        "--scheduler-name", metavar="NAME", help="For pods with this schedulerName. May be given several times.",
    )] = ("muster",)  # fmt: skip
    applications: Annotated[str, APPLICATIONS] = field(default_factory=default_applications)
    workload_kinds: Annotated[tuple[str, ...], WORKLOAD_KINDS] = ()
    probes: ProbeSettings = field(default_factory=ProbeSettings)

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
        help="Evict nothing until so long after the last change of a policy, group or number.",
    )] = 10.0  # fmt: skip
    rest: Annotated[float, Flag(
        "--rest", minimum=0, metavar="SECONDS",
        help="How long a kubelet has to begin the restart of a pod whose image was changed.",
    )] = 10.0  # fmt: skip
    eviction_rate: Annotated[float, Flag(
        "--eviction-rate", positive=True, metavar="PER_SECOND",
        help="How many pods of all applications are evicted a second.",
    )] = 1.0  # fmt: skip
    eviction_burst: Annotated[int, Flag(
        "--eviction-burst", minimum=1, metavar="N",
        help="How many may be evicted at once after a time without evictions.",
    )] = 5  # fmt: skip
    daemonset_affinity: Annotated[bool, Flag(
        "--daemonset-affinity", metavar="BOOL", help="Write the node groups of a DaemonSet as required node affinity "
        "into its pod template; false only reports.",
    )] = True  # fmt: skip
    deletion_costs: Annotated[bool, Flag(
        "--seats/--no-seats",
        help="Write each pod's seat as its deletion cost, so that a scale-down needs no evictions.",
    )] = True  # fmt: skip
    node_labels: Annotated[bool, Flag(
        "--node-labels/--no-node-labels", help="Label nodes with their groups, which the webhook's affinity needs.",
    )] = True  # fmt: skip
    privileged: Annotated[bool, Flag(
        "--allow-privileged-overrides", help="Policies may give pods privileges that their templates have not.",
    )] = False  # fmt: skip
    revert: Annotated[bool, Flag(
        "--revert-on-unbind",
        help="Pods get their template back when their application asks for no OverridePolicy more.",
    )] = False  # fmt: skip
    exclusive: Annotated[bool, Flag(
        "--exclusive-groups", help="A node is in one group only, the oldest that would contain it; an annotation of "
        "the groups tells the other parts.",
    )] = False  # fmt: skip
    given_webhook_lease: Annotated[str, Flag(
        "--webhook-lease", metavar=NAMESPACED, help="The Lease of muster webhook: while it is alive, pods are evicted "
        "whose edition only it can make. Default: muster-webhook in the namespace muster runs in, else in kube-system.",
    )] = ""  # fmt: skip
    given_extender_lease: Annotated[str, Flag(
        "--extender-lease", metavar=NAMESPACED, literals=("none",), help="The Lease of muster extender: no pod is "
        "evicted for its place while nobody renews it. none: it is taken to be alive. Default: muster-extender beside "
        "the ConfigMap of --applications.",
    )] = ""  # fmt: skip
    given_scheduler_lease: Annotated[str, Flag(
        "--scheduler-lease", metavar=NAMESPACED, literals=("none",), help="The same of muster scheduler, for pods with "
        "its name. Default: muster-scheduler beside the ConfigMap of --applications.",
    )] = ""  # fmt: skip
    scheduler_names: Annotated[tuple[str, ...], Flag(
        "--scheduler-name", metavar="NAME", help="schedulerName of pods that muster scheduler places; may be repeated.",
    )] = ("muster", "volcano")  # fmt: skip
    dry_run: Annotated[bool, Flag(
        "--dry-run", help="Write nothing: log what would be evicted and patched, as things stand.",
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
