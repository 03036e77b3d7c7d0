"""The configuration when none is given: Volcano's own default, and topology910, which does nothing without chips."""

from __future__ import annotations

__all__ = ["DEFAULT", "DEFAULT_NAME"]

DEFAULT_NAME = "(built-in default)"

DEFAULT = """\
actions: "enqueue, allocate, backfill"
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
"""
