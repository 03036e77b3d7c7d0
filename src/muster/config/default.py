"""The built-in configuration: Volcano's default, and four plugins that only affect the objects that use them.

nodegroup affects queues that name node groups, topology groups that name a Topology or networkTopology, topology910
pods that request chips, propagation applications with a PropagationPolicy. Other objects are scheduled as without them.
"""

from __future__ import annotations

__all__ = ["DEFAULT", "DEFAULT_ACTIONS", "DEFAULT_NAME"]

DEFAULT_NAME = "(built-in default)"
DEFAULT_ACTIONS = ("enqueue", "allocate", "backfill")

DEFAULT = f"""\
actions: "{", ".join(DEFAULT_ACTIONS)}"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: nodegroup
  - name: topology
  - name: topology910
  - name: propagation
"""
