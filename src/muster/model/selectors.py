"""Matches label selectors, node terms and tolerations against plain mappings; reads those that kubectl writes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from muster.model.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from muster.model.meta import LabelSelector, LabelSelectorRequirement
from muster.model.pod import PodSpec
from muster.model.shape import Problem

__all__ = ["selector_of_text"]

LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
NODE_OPERATORS = (*LABEL_OPERATORS, "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")
TOLERATION_OPERATORS = ("", "Equal", "Exists", "Lt", "Gt")

_INTEGER = re.compile(r"[+-]?\d{1,19}", re.ASCII)


def matches(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Returns whether the selector selects something with these labels. None selects nothing, an empty one everything.
    """
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(expression_matches(e.key, e.operator, e.values, labels) for e in selector.match_expressions)


def expression_matches(key: str, operator: str, values: Sequence[str], labels: Mapping[str, str]) -> bool:
    """Returns whether one expression matches. A missing label satisfies NotIn and DoesNotExist only."""
    value = labels.get(key)
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt"):
        have, bound = integer(value), integer(values[0] if len(values) == 1 else None)
        if have is None or bound is None:
            return False
        return have > bound if operator == "Gt" else have < bound
    raise ValueError(f"operator {operator!r} is not one of {', '.join(NODE_OPERATORS)}")


def integer(text: str | None) -> int | None:
    """Returns the number in a label value, as Gt and Lt read it; None if it is not a number."""
    return int(text) if text is not None and _INTEGER.fullmatch(text) else None


def node_matches(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Returns whether one of the selector's terms selects the node."""
    return any(term_matches(term, name, labels) for term in selector.node_selector_terms)


def term_matches(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    """Returns whether every expression of the term matches the node; an empty term selects no node."""
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": name}
    return all(expression_matches(e.key, e.operator, e.values, labels) for e in term.match_expressions) and all(
        expression_matches(e.key, e.operator, e.values, fields) for e in term.match_fields
    )


def asks_for(spec: PodSpec, name: str, labels: Mapping[str, str]) -> bool:
    """Returns whether the pod's node selector and required affinity allow it on the node."""
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return affinity is None or affinity.required is None or node_matches(affinity.required, name, labels)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Returns whether the toleration covers the taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator == "Exists":
        return True
    if operator in ("", "Equal"):
        # An empty key matches every taint only together with Exists.
        return bool(toleration.key) and toleration.value == taint.value
    if operator in ("Lt", "Gt"):
        have, bound = integer(taint.value), integer(toleration.value)
        if have is None or bound is None or not toleration.key:
            return False
        return have > bound if operator == "Gt" else have < bound
    raise ValueError(f"operator {operator!r} is not one of Equal, Exists, Lt, Gt")


def check_label_selector(selector: LabelSelector | None, path: str) -> None:
    """Yields the problem with the path of its field if the selector could not be evaluated."""
    for i, e in enumerate(selector.match_expressions if selector is not None else ()):
        _check(e.key, e.operator, e.values, LABEL_OPERATORS, f"{path}.matchExpressions[{i}]")


def check_node_selector(selector: NodeSelector | None, path: str) -> None:
    """Yields the problem with the path of its field if a term could not be evaluated."""
    for i, term in enumerate(selector.node_selector_terms if selector is not None else ()):
        check_node_term(term, f"{path}.nodeSelectorTerms[{i}]")


def check_node_term(term: NodeSelectorTerm, path: str) -> None:
    """Yields the problem with the path of its field if the term could not be evaluated."""
    for i, e in enumerate(term.match_expressions):
        _check(e.key, e.operator, e.values, NODE_OPERATORS, f"{path}.matchExpressions[{i}]")
    for i, e in enumerate(term.match_fields):
        _check_field(e, f"{path}.matchFields[{i}]")


def check_toleration(toleration: Toleration, path: str) -> None:
    """Yields the problem with the path of its field if the toleration could not be evaluated."""
    if toleration.operator not in TOLERATION_OPERATORS:
        raise Problem(
            f"{path}.operator", f"{toleration.operator!r} is not one of Equal, Exists, Lt, Gt", "use one of them"
        )
    if not toleration.key and toleration.operator != "Exists":
        raise Problem(f"{path}.operator", "must be Exists when key is empty", "name a key, or write Exists")


def _check(key: str, operator: str, values: Sequence[str], operators: Sequence[str], path: str) -> None:
    if not key:
        raise Problem(f"{path}.key", "is missing", "name the label")
    if operator not in operators:
        raise Problem(f"{path}.operator", f"{operator!r} is not one of {', '.join(operators)}", "use one of them")
    if operator in ("In", "NotIn") and not values:
        raise Problem(f"{path}.values", f"must have a value for {operator}", "list the values meant")
    if operator in ("Exists", "DoesNotExist") and values:
        raise Problem(f"{path}.values", f"must be empty for {operator}", "take the values away, or use In")
    if operator in ("Gt", "Lt") and (len(values) != 1 or integer(values[0]) is None):
        raise Problem(f"{path}.values", f"must be one whole number for {operator}", 'write it as values: ["5"]')


def _check_field(e: NodeSelectorRequirement, path: str) -> None:
    _check(e.key, e.operator, e.values, FIELD_OPERATORS, path)
    if e.key != "metadata.name":
        raise Problem(f"{path}.key", f"{e.key!r} is not a field one can select by", "only metadata.name is")


_REQUIREMENT = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<no>[\w./-]+)"
    r"|(?P<set>[\w./-]+)\s+(?P<in>in|notin)\s*\((?P<values>[^()]*)\)"
    r"|(?P<key>[\w./-]+)\s*(?P<op>==|=|!=)\s*(?P<value>[\w.-]*)"
    r"|(?P<present>[\w./-]+))\s*(?:,|$)",
    re.ASCII,
)


def selector_of_text(text: str) -> LabelSelector:
    """Returns the selector; raises ValueError with what cannot be read."""
    found: list[LabelSelectorRequirement] = []
    at = 0
    while at < len(text):
        match = _REQUIREMENT.match(text, at)
        if match is None:
            raise ValueError(f"{text[at:]!r} is no label selector (write it like app=web,tier!=db)")
        at = match.end()
        if match["absent"]:
            found.append(LabelSelectorRequirement(key=match["no"], operator="DoesNotExist"))
        elif match["in"]:
            values = [value.strip() for value in match["values"].split(",")]
            operator = "In" if match["in"] == "in" else "NotIn"
            found.append(LabelSelectorRequirement(key=match["set"], operator=operator, values=values))
        elif match["op"]:
            operator = "NotIn" if match["op"] == "!=" else "In"
            found.append(LabelSelectorRequirement(key=match["key"], operator=operator, values=[match["value"]]))
        else:
            found.append(LabelSelectorRequirement(key=match["present"], operator="Exists"))
    return LabelSelector(match_expressions=found)
