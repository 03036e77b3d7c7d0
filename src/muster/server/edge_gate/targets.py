"""What a request asks for: pods, one or many, once or as they change; and in which form the answer may be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from multidict import CIMultiDictProxy, MultiDict, MultiDictProxy

_PODS = re.compile(
    r"/api/v1(?P<watch>/watch)?(?:/namespaces/(?P<namespace>[^/]+))?/pods(?:/(?P<name>[^/]+)(?P<status>/status)?)?/?"
)
_SLASHES = re.compile(r"/{2,}")
_NODE = re.compile(r"(?:^|,)spec\.nodeName==?([^,]+)")
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Target:
    """Pods: of a namespace ("" for all), one by name or those that selectors choose."""

    namespace: str
    name: str
    watch: bool
    query: MultiDictProxy[str]

    @property
    def path(self) -> str:
        """The collection."""
        return f"/api/v1/namespaces/{self.namespace}/pods" if self.namespace else "/api/v1/pods"

    @property
    def selectors(self) -> dict[str, str]:
        """What chooses among the collection, a name included."""
        fields = [self.query.get("fieldSelector", "")]
        if self.name:
            fields.append(f"metadata.name={self.name}")
        given = {"labelSelector": self.query.get("labelSelector", ""), "fieldSelector": ",".join(filter(None, fields))}
        return {name: value for name, value in given.items() if value}

    def may_have(self, key: str, node: str) -> bool:
        """Could the pod be among those asked for? Only what is cheap to tell is looked at."""
        namespace, _, name = key.partition("/")
        wanted = _NODE.search(self.query.get("fieldSelector", ""))
        here = self.namespace in ("", namespace) and self.name in ("", name)
        return here and (wanted is None or node in ("", wanted[1]))

    def one(self, key: str) -> dict[str, str]:
        """The selectors for just this pod, if it is among those asked for."""
        namespace, _, name = key.partition("/")
        fields = [self.query.get("fieldSelector", ""), f"metadata.name={name}", f"metadata.namespace={namespace}"]
        return {**self.selectors, "fieldSelector": ",".join(filter(None, fields))}


def target_of(method: str, path: str, query: MultiDictProxy[str]) -> Target | None:
    """The pods that a request asks for; None: it is about something else, or does something else."""
    found = _PODS.fullmatch(_SLASHES.sub("/", path)) if method == "GET" else None
    if found is None or (found["name"] and not found["namespace"]):
        return None
    watch = bool(found["watch"]) or query.get("watch", "0").lower() not in ("0", "false")
    return Target(found["namespace"] or "", found["name"] or "", watch, query)


def json_only(headers: CIMultiDictProxy[str]) -> str:
    """The forms that the client accepts, each as JSON: what is to be filtered must be read."""
    forms: dict[str, None] = {}
    for part in ",".join(headers.getall("Accept", [JSON])).split(","):
        options = [option.strip() for option in part.split(";")[1:]]
        kept = [option for option in options if option.split("=")[0] in ("as", "g", "v")]
        forms[";".join([JSON, *kept])] = None
    return ",".join(forms)


def asked_upstream(target: Target, floor: int) -> tuple[dict[str, str] | MultiDict[str], bool]:
    """The query as the API server is to get it, and whether rows of a Table must lose their object again.

    What is listed must not be older than the log (`floor`): a watch from there would be sent back to list again, and
    where pods rest, what the API server has at hand stays that old.
    """
    query = MultiDict(target.query)
    query.pop("pretty", None)
    bare = query.get("includeObject") == "None"
    if bare:
        query["includeObject"] = "Metadata"
    listed = not target.name and (not target.watch or says(query, "sendInitialEvents"))
    version = query.get("resourceVersion", "")
    if listed and version.isdecimal() and int(version) < floor and query.get("resourceVersionMatch") != "Exact":
        query["resourceVersion"], query["resourceVersionMatch"] = str(floor), "NotOlderThan"
    return query, bare


def says(query: Mapping[str, str], name: str) -> bool:
    """Is the query's switch on?"""
    return query.get(name, "").lower() in ("true", "1")
