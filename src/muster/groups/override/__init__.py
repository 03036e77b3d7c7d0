"""How a node group's edition differs from an application's pod template: an OverridePolicy's rules, applied.

`policy` says which rules apply and what is wrong with them, `edition` applies them in order and all or nothing,
`image` changes parts of an image's name, `pointer` is JSON patch, `paths` says what a path is relative to, `privileges`
what a policy may not give, `outdated` what a pod has otherwise than its edition.
"""

from muster.groups.override.edition import Edition, OverrideError, edition
from muster.groups.override.outdated_fields import outdated_fields
from muster.groups.override.policy import faults, rules_for

__all__ = ["Edition", "OverrideError", "edition", "faults", "outdated_fields", "rules_for"]
