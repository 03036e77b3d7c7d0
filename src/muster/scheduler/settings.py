"""Settings and flags of `muster scheduler`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from muster.process.settings import (
    APPLICATIONS,
    CONFIG,
    WORKLOAD_KINDS,
    ClusterSettings,
    Flag,
    LeaseSettings,
    ProbeSettings,
    check_readable,
    config_map_place,
    default_applications,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Settings of `muster scheduler`."""

    cluster: ClusterSettings
    scheduler_names: Annotated[tuple[str, ...], Flag(
        "--scheduler-name", metavar="NAME", help="Schedule pods with this schedulerName. May be given several times.",
    )] = ("muster",)  # fmt: skip
    config: Annotated[str | None, CONFIG] = None
    lease: LeaseSettings
    applications: Annotated[str, APPLICATIONS] = field(default_factory=default_applications)
    workload_kinds: Annotated[tuple[str, ...], WORKLOAD_KINDS] = ()
    probes: ProbeSettings = field(default_factory=ProbeSettings)
    period: Annotated[float, Flag(
        "--period", minimum=0.1, metavar="SECONDS",
        help="The longest time between two cycles while pods are pending; changes start a cycle at once.",
    )] = 10.0  # fmt: skip
    binds_in_flight: Annotated[int, Flag(
        "--binds-in-flight", minimum=1, metavar="N", help="The number of concurrent writes to the API server.",
    )] = 64  # fmt: skip
    volume_patience: Annotated[float, Flag(
        "--volume-patience", minimum=1, metavar="SECONDS",
        help="The time within which a pod's claims must be bound; then the pod is placed again.",
    )] = 600.0  # fmt: skip

    def __post_init__(self) -> None:
        check_readable(WORKLOAD_KINDS, self.workload_kinds)
        _ = self.config_map  # SettingError if it is not NAMESPACE/NAME[/KEY]

    @property
    def config_map(self) -> str:
        """The ConfigMap with the configuration, as NAMESPACE/NAME[/KEY]; empty if that is a file or built-in."""
        from muster.config.announced_config import PREFIX

        return config_map_place(self.config) if self.config is not None and self.config.startswith(PREFIX) else ""

    @property
    def config_file(self) -> str | None:
        return None if self.config_map else self.config

    @property
    def config_source(self) -> str:
        """Returns the name of the source on the Lease and in the log."""
        from muster.config.announced_config import BUILT_IN, PREFIX

        return f"{PREFIX}{self.config_map}" if self.config_map else self.config or BUILT_IN
