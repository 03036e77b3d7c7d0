"""Reads label selectors as kubectl's -l takes them: `app=web,tier!=db,env in (a,b),!canary`."""

from __future__ import annotations

import re

from muster.model.meta import LabelSelector, LabelSelectorRequirement

__all__ = ["selector_of_text"]

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
