"""The configuration when none is given: Volcano's own default, and two plugins that do nothing unasked.

topology910 does nothing without chips, propagation nothing without PropagationPolicies.
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
  - name: topology910
  - name: propagation
"""
