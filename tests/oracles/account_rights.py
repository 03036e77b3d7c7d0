"""The table of the security model: what each account may do, from the roles and bindings of `muster manifests`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from muster.cli.install import PARTS, Settings, installation
from muster.config.loader import DEFAULT

BEGIN, END = "<!-- rights: written by tests/documents.py -->", "<!-- end of rights -->"
Plain = dict[str, Any]


def table() -> str:
    objects = installation(Settings("muster-system", "muster", DEFAULT), list(PARTS.values()))
    lines = ["| account | may | what | where |", "|---|---|---|---|", *_rows(objects)]
    return "\n".join([BEGIN, *lines, END])


def _rows(objects: list[Plain]) -> Iterator[str]:
    rows: dict[tuple[str, str, str, str], list[str]] = {}  # account, verbs, where, names → resources
    roles = {(one["kind"], one["metadata"]["name"]): one["rules"] for one in objects if "rules" in one}
    for one in objects:
        if "roleRef" not in one:
            continue
        role, space = one["roleRef"], one["metadata"].get("namespace")
        where = {None: "the cluster", "muster-system": "its namespace"}.get(space, f"namespace {space}")
        rules = roles.get((role["kind"], role["name"]))
        for subject in one["subjects"]:
            if rules is None:  # a role of Kubernetes itself
                rows[subject["name"], f"what the {role['kind']} {role['name']} permits", where, ""] = []
            for rule in rules or ():
                names = ", ".join(rule.get("resourceNames", ()))
                resources = rows.setdefault((subject["name"], ", ".join(rule["verbs"]), where, names), [])
                resources += [_resource(group, name) for group in rule["apiGroups"] for name in rule["resources"]]
    for (account, verbs, where, names), resources in rows.items():
        only = f" (only {names})" if names else ""
        yield f"| {account} | {verbs} | {', '.join(resources)}{only} | {where} |"


def _resource(group: str, name: str) -> str:
    plural, slash, sub = name.partition("/")
    return f"{plural}.{group}{slash}{sub}" if group else name
