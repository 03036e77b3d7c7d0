"""The edition of a node group: an application's pod template with the rules of an OverridePolicy applied.

`policy` selects and validates the rules and resolves their paths, `edition` applies them, all or none, and compares a
pod with its edition, `image` changes parts of an image reference, `json_patch` has JSON pointers and patches,
`privileges` refuses editions with more privileges than their template (`references`, `pod_security`).
"""

from muster.groups.override.edition import Edition, OverrideError, edition, outdated_fields
from muster.groups.override.policy import faults, rules_for

__all__ = ["Edition", "OverrideError", "edition", "faults", "outdated_fields", "rules_for"]
