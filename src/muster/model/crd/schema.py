"""CustomResourceDefinitions: the structural schema of a type, and the definition around it.

Names, shapes, defaults and descriptions come from the type and its docstring. What only the API server should enforce
(limits, required fields, rules) comes from the `Demands` beside it, so that reading a manifest stays lenient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import msgspec.inspect as inspect
from msgspec import Struct

from muster.model.meta import Condition, LabelSelectorRequirement, Object

Schema = dict[str, Any]

# A quantity that is not negative, as the API server's own CRDs spell it.
QUANTITY: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$",
    "x-kubernetes-int-or-string": True,
}


class Rule(Struct, frozen=True):
    """A rule in CEL, the message if it is broken, and the field below it that the message is about."""

    cel: str
    message: str
    field: str = ""

    def plain(self) -> Schema:
        return {"rule": self.cel, "message": self.message, **({"fieldPath": self.field} if self.field else {})}


@dataclass(frozen=True, slots=True)
class Demands:
    """What the API server enforces for one type: required fields, additional schema by field or of the type, and rules.
    """

    required: Sequence[str] = ()
    fields: Mapping[str, Schema] = field(default_factory=dict)
    rules: Sequence[Rule] = ()
    whole: Schema = field(default_factory=dict)


AllDemands = Mapping[type, Demands]


def schema_of(cls: type[Object], demands: AllDemands) -> Schema:
    """Returns the schema of a whole object."""
    kind = inspect.type_info(cls)
    assert isinstance(kind, inspect.StructType)
    return _struct(kind, demands)


def _struct(kind: inspect.StructType, demands: AllDemands) -> Schema:
    wanted = demands.get(kind.cls, Demands())
    properties = {one.encode_name: _property(one, kind.cls, demands) for one in kind.fields}
    for name in (*wanted.required, *wanted.fields):
        if name not in properties:
            raise KeyError(f"{kind.cls.__name__} has no field {name}")
    for name, more in wanted.fields.items():
        properties[name] = _merged(properties[name], more)
    for name in wanted.required:
        properties[name].pop("default", None)
    schema: Schema = {"type": "object", "description": _description(kind.cls), "properties": properties}
    if wanted.required:
        schema["required"] = list(wanted.required)
    if wanted.rules:
        schema["x-kubernetes-validations"] = [rule.plain() for rule in wanted.rules]
    return _merged(schema, wanted.whole)


def _property(one: inspect.Field, owner: type, demands: AllDemands) -> Schema:
    if issubclass(owner, Object) and one.encode_name == "metadata":
        return {"type": "object"}
    schema = _value(one.type, demands)
    if issubclass(owner, Object) and one.encode_name in ("apiVersion", "kind"):
        return schema
    if one.default is not msgspec.NODEFAULT and one.default:
        schema["default"] = one.default
    elif issubclass(owner, Object) and one.encode_name == "spec":
        # Defaults inside are filled only where there is something to fill them into.
        schema["default"] = {}
    return schema


def _value(kind: inspect.Type, demands: AllDemands) -> Schema:
    if isinstance(kind, inspect.UnionType):
        return _union(kind, demands)
    if isinstance(kind, inspect.AnyType):
        # Without nullable the API server drops a null, which is a valid value here.
        return {"nullable": True, "x-kubernetes-preserve-unknown-fields": True}
    if isinstance(kind, inspect.StructType):
        return _struct(kind, demands)
    if isinstance(kind, inspect.ListType):
        return {"type": "array", "items": _value(kind.item_type, demands)}
    if isinstance(kind, inspect.DictType):
        return {"type": "object", "additionalProperties": _value(kind.value_type, demands)}
    if isinstance(kind, inspect.IntType):
        return {"type": "integer", "format": "int32"}
    if isinstance(kind, inspect.BoolType):
        return {"type": "boolean"}
    if isinstance(kind, inspect.StrType):
        return {"type": "string"}
    raise TypeError(f"there is no schema for {kind}")


def _union(kind: inspect.UnionType, demands: AllDemands) -> Schema:
    """Returns the schema of a union. Only two are supported: a quantity, and a value that may be absent."""
    members = [member for member in kind.types if not isinstance(member, inspect.NoneType)]
    if any(isinstance(member, inspect.FloatType) for member in members):
        return dict(QUANTITY)
    if len(members) != 1:
        raise TypeError(f"there is no schema for {kind}")
    return _value(members[0], demands)


def _description(cls: type) -> str:
    """Returns the first paragraph of the type's docstring."""
    return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())


def _merged(schema: Schema, more: Schema) -> Schema:
    """Returns `schema` with `more` merged into it, mapping by mapping."""
    result = dict(schema)
    for name, value in more.items():
        there = result.get(name)
        result[name] = _merged(there, value) if isinstance(there, dict) and isinstance(value, dict) else value
    return result


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
# 2**53: up to which JSON numbers are exact, and which the types accept.
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


class Column(Struct, frozen=True):
    """A column of `kubectl get`; columns of priority 1 are shown with -o wide only."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0

    def plain(self) -> dict[str, Any]:
        value: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**value, "priority": self.priority} if self.priority else value


AGE = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition of one kind under one apiVersion."""

    cls: type[Object]
    api_version: str
    plural: str
    short: Sequence[str] = ()
    columns: Sequence[Column] = ()
    demands: AllDemands = field(default_factory=dict)

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]

    @property
    def version(self) -> str:
        return self.api_version.partition("/")[2]

    @property
    def name(self) -> str:
        """The name of the CustomResourceDefinition object."""
        return f"{self.plural}.{self.group}"

    def plain(self) -> dict[str, Any]:
        """Returns the CustomResourceDefinition as a plain value."""
        kind = self.cls.__name__
        names: dict[str, Any] = {
            "kind": kind,
            "listKind": f"{kind}List",
            "plural": self.plural,
            "singular": kind.lower(),
        }
        if self.short:
            names["shortNames"] = list(self.short)
        version: dict[str, Any] = {
            "name": self.version,
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema_of(self.cls, self.demands)},
            "additionalPrinterColumns": [column.plain() for column in (*self.columns, AGE)],
        }
        if self._has_status():
            version["subresources"] = {"status": {}}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "scope": "Namespaced" if self.cls.namespaced else "Cluster",
                "names": names,
                "versions": [version],
            },
        }

    def _has_status(self) -> bool:
        kind = inspect.type_info(self.cls)
        assert isinstance(kind, inspect.StructType)
        return any(one.encode_name == "status" for one in kind.fields)
