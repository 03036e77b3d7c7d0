"""The edition of a node group: an application's pod template with the rules of an OverridePolicy applied.

`policy` selects and validates the rules, `edition` applies them, all or none, `image` changes parts of an image
reference, `pointer` is JSON pointer and patch, `paths` resolves paths in workloads, `privileges` refuses editions with
more privileges than their template (`references`, `pod_security`), `outdated_fields` compares a pod with its edition.
"""

from muster.groups.override.edition import Edition, OverrideError, edition
from muster.groups.override.outdated_fields import outdated_fields
from muster.groups.override.policy import faults, rules_for

__all__ = ["Edition", "OverrideError", "edition", "faults", "outdated_fields", "rules_for"]
