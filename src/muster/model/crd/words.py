"""Schemas that several kinds use: names, labels, counts, selectors, conditions."""

from __future__ import annotations

from muster.model.crd.schema import Demands, Schema
from muster.model.meta import Condition, LabelSelectorRequirement

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_QUALIFIED = r"[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?"

# The name of an object.
NAME: Schema = {"minLength": 1, "maxLength": 253, "pattern": f"^{_SUBDOMAIN}$"}
# A reference to an object that may be left empty.
REFERENCE: Schema = {"maxLength": 253, "pattern": f"^({_SUBDOMAIN})?$"}
# As a policy may spell a node group: the design writes Beijing for the object beijing.
SPELT_NAME: Schema = {
    "minLength": 1,
    "maxLength": 253,
    "pattern": r"^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$",
}
LABEL_KEY: Schema = {"minLength": 1, "maxLength": 316, "pattern": f"^({_SUBDOMAIN}/)?{_QUALIFIED}$"}
LABEL_VALUE: Schema = {"maxLength": 63, "pattern": f"^({_QUALIFIED})?$"}

COUNT: Schema = {"minimum": 0}
# 2**53: as far as JSON numbers are exact, and as the types read them.
LARGE: Schema = {"format": "int64", "minimum": 0, "maximum": 2**53}

SHARED: dict[type, Demands] = {
    Condition: Demands(
        required=("type", "status"),
        fields={
            "type": {"minLength": 1},
            "lastTransitionTime": {"format": "date-time"},
            "lastProbeTime": {"format": "date-time"},
            "lastHeartbeatTime": {"format": "date-time"},
            "observedGeneration": LARGE,
        },
    ),
    LabelSelectorRequirement: Demands(
        required=("key", "operator"),
        fields={"key": LABEL_KEY, "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]}},
    ),
}
