"""The parts that run in a cluster, and how each is started."""

from __future__ import annotations

from dataclasses import dataclass

from muster.cli.install import rights
from muster.cli.install.rights import Right

CONFIGURATION = "muster-scheduler"
"""The ConfigMap with the scheduler's configuration, and (with .conf) the key in it."""
PORT = 8080


@dataclass(frozen=True, slots=True)
class Part:
    """One Deployment: its verb, its rights, its size."""

    verb: str
    rights: tuple[Right, ...]
    arguments: tuple[str, ...]
    replicas: int
    requests: tuple[tuple[str, str], ...]
    limits: tuple[tuple[str, str], ...]
    # Others call it, by its Service.
    serves: bool = False
    # It follows the scheduler's configuration.
    configured: bool = False
    # What it may do besides in the namespace it runs in.
    at_home: tuple[Right, ...] = ()

    @property
    def name(self) -> str:
        return f"muster-{self.verb}"

    @property
    def command(self) -> list[str]:
        """What follows `muster`."""
        return [self.verb, *self.arguments, "--host", "0.0.0.0", "--port", str(PORT)]


PARTS: dict[str, Part] = {
    part.verb: part
    for part in (
        Part(
            "scheduler", rights.SCHEDULER, ("-c", f"configmap:{CONFIGURATION}"),
            replicas=2, requests=(("cpu", "500m"), ("memory", "512Mi")), limits=(("memory", "2Gi"),), configured=True,
            at_home=rights.own_configuration(CONFIGURATION),
        ),
        Part(
            "controllers", rights.CONTROLLERS, (),
            replicas=2, requests=(("cpu", "100m"), ("memory", "256Mi")), limits=(("memory", "1Gi"),),
            at_home=rights.CONFIGURED,
        ),
        # One: reservations are kept in memory.
        Part(
            "extender", rights.EXTENDER, (),
            replicas=1, requests=(("cpu", "100m"), ("memory", "256Mi")), limits=(("memory", "1Gi"),), serves=True,
            at_home=rights.CONFIGURED,
        ),
    )
}  # fmt: skip
