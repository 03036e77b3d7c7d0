"""muster gathers pods onto the right group of nodes.

Three things in one package: a scheduler for Kubernetes that reads Volcano's own queues, pod groups and
configuration; node group management for users of the plain kube-scheduler; and a simulator that is the
scheduler's own code. The rooms and the direction of their imports: ``cli → server → sim → {live | controllers |
cluster} → {cycle | kube} → {actions | plugins} → engine → {groups | config | store} → model``.
"""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
