"""Finds out from its path which pods a request is about, and builds the path and query for the API server.

The API server decodes the path once and matches it segment by segment. Every path that can return pods must be
recognised here, so a path with more than one reading is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from multidict import CIMultiDictProxy, MultiDict, MultiDictProxy

from muster.groupctl.edge_gate.request_head import Head, RefusedRequest

_NODE = re.compile(r"(?:^|,)spec\.nodeName==?([^,]+)")
JSON = "application/json"
# Subresources whose GET returns the pod, those that return something else, and those that may be upgraded.
_POD_SUBRESOURCES = frozenset({"", "status", "ephemeralcontainers", "resize"})
_UPGRADABLE_SUBRESOURCES = frozenset({"exec", "attach", "portforward", "proxy"})
_OTHER_SUBRESOURCES = frozenset({"log", "binding", "eviction", *_UPGRADABLE_SUBRESOURCES})
# A kubelet's own lists of its pods, behind the proxy subresource of its node.
_KUBELET_PODS = frozenset({"pods", "runningpods"})


@dataclass(frozen=True, slots=True)
class RequestedPods:
    """The pods of a request: of a namespace ("" for all), one by name or those that selectors match."""

    namespace: str
    name: str
    watch: bool
    query: MultiDictProxy[str]
    subresource: str = ""

    @property
    def returns_pods(self) -> bool:
        """Whether a GET returns pods, and not for example the log of a pod."""
        return self.subresource in _POD_SUBRESOURCES

    @property
    def key(self) -> str:
        """The pod by its namespace and name. The proxy subresource takes [SCHEME:]NAME[:PORT]."""
        parts = self.name.split(":") if self.subresource == "proxy" else [self.name]
        return f"{self.namespace}/{parts[1] if len(parts) == 3 else parts[0]}"

    @property
    def collection(self) -> str:
        return f"/api/v1/namespaces/{quote(self.namespace)}/pods" if self.namespace else "/api/v1/pods"

    @property
    def path(self) -> str:
        """The path of the request to the API server, built from the parsed parts."""
        parts = [self.collection, *(quote(part) for part in (self.name, self.subresource) if part)]
        path = "/".join(parts)
        return path.replace("/api/v1", "/api/v1/watch", 1) if self.watch and self.name else path

    @property
    def selectors(self) -> dict[str, str]:
        """The selectors of the request; a name becomes a field selector."""
        fields = [self.query.get("fieldSelector", "")]
        if self.name:
            fields.append(f"metadata.name={self.name}")
        labels = self.query.get("labelSelector", "")
        selectors = {"labelSelector": labels, "fieldSelector": ",".join(filter(None, fields))}
        return {name: value for name, value in selectors.items() if value}

    def may_have(self, key: str, node: str) -> bool:
        """Returns whether the request may include the pod; only namespace, name and node are compared."""
        namespace, _, name = key.partition("/")
        wanted = _NODE.search(self.query.get("fieldSelector", ""))
        here = self.namespace in ("", namespace) and self.name in ("", name)
        return here and (wanted is None or node in ("", wanted[1]))

    def pod_selectors(self, key: str) -> dict[str, str]:
        """Returns selectors that match only this pod, if the request includes it."""
        namespace, _, name = key.partition("/")
        fields = [self.query.get("fieldSelector", ""), f"metadata.name={name}", f"metadata.namespace={namespace}"]
        return {**self.selectors, "fieldSelector": ",".join(filter(None, fields))}


@dataclass(frozen=True, slots=True)
class Route:
    """`target`: the pods that the request is about, if it is about pods; `upgradable`: it may become a tunnel."""

    target: RequestedPods | None = None
    upgradable: bool = False


def route_of(head: Head) -> Route:
    """Parses the path of a request; raises RefusedRequest if it is ambiguous or unknown."""
    segments = _segments(head)
    if segments[:2] != ["api", "v1"]:
        return Route()
    rest = segments[2:]
    watch = rest[:1] == ["watch"]
    rest = rest[1:] if watch else rest
    if rest[:1] in (["watch"], ["proxy"], ["redirect"]):
        raise RefusedRequest(f"the path has {rest[0]} where a resource is expected")
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, sub = rest[:1], "".join(rest[1:2]), rest[2:]
    proxied = sub[:1] == ["proxy"]
    if resource == ["nodes"]:
        if proxied and not _KUBELET_PODS.isdisjoint(sub[1:2]):
            raise RefusedRequest("pods are not read from kubelets through the edge gate", 403)
        return Route(upgradable=proxied)
    if resource == ["services"]:
        return Route(upgradable=bool(proxied and namespace))
    if resource != ["pods"]:
        return Route()
    subresource = "".join(sub[:1])
    known = _POD_SUBRESOURCES if watch else _POD_SUBRESOURCES | _OTHER_SUBRESOURCES
    if (name and not namespace) or subresource not in known or (len(sub) > 1 and not proxied) or (watch and sub):
        raise RefusedRequest("the edge gate knows no such path of pods", 404)
    if not watch and not name:
        watch = head.query.get("watch", "0").lower() not in ("0", "false")
    target = RequestedPods(namespace, name, watch, head.query, subresource)
    return Route(target, subresource in _UPGRADABLE_SUBRESOURCES)


def _segments(head: Head) -> list[str]:
    """Returns the decoded segments of the path; raises RefusedRequest if another parser could split it differently."""
    raw = head.target.partition("?")[0].removesuffix("/").split("/")[1:]
    decoded = head.path.removesuffix("/").split("/")[1:]
    if "" in decoded or "" in raw or not {".", ".."}.isdisjoint(decoded):
        raise RefusedRequest("the path has an empty segment, or one that is . or ..")
    # What follows a proxy subresource is for the server behind it, which may use any encoding.
    ours = raw[: raw.index("proxy") + 1] if "proxy" in raw else raw
    if ours != decoded[: len(ours)] and any("%2f" in one.lower() for one in ours):
        raise RefusedRequest("the path has an encoded slash")
    if any("%" in one or ";" in one for one in decoded[: len(ours)]):
        raise RefusedRequest("the path has a character that no name in Kubernetes has")
    return decoded


def json_only(headers: CIMultiDictProxy[str]) -> str:
    """Rewrites the accepted media types to JSON, because the gate parses the responses that it filters."""
    forms: dict[str, None] = {}
    for part in ",".join(headers.getall("Accept", [JSON])).split(","):
        options = [option.strip() for option in part.split(";")[1:]]
        kept = [option for option in options if option.split("=")[0] in ("as", "g", "v")]
        forms[";".join([JSON, *kept])] = None
    return ",".join(forms)


def upstream_query(target: RequestedPods, floor: int) -> tuple[dict[str, str] | MultiDict[str], bool]:
    """Returns the query for the API server, and whether the objects of a Table's rows must be removed.

    A list must not be older than the change log (`floor`): a watch from its version would have to list again, and as
    long as no pod changes, the API server's cache stays at that version.
    """
    query = MultiDict(target.query)
    query.pop("pretty", None)
    query.popall("watch", None)
    if target.watch and not target.name:
        query["watch"] = "1"
    strip_objects = query.get("includeObject") == "None"
    if strip_objects:
        query["includeObject"] = "Metadata"
    listed = not target.name and (not target.watch or is_set(query, "sendInitialEvents"))
    version = query.get("resourceVersion", "")
    if listed and version.isdecimal() and int(version) < floor and query.get("resourceVersionMatch") != "Exact":
        query["resourceVersion"], query["resourceVersionMatch"] = str(floor), "NotOlderThan"
    return query, strip_objects


def is_set(query: Mapping[str, str], name: str) -> bool:
    """Returns whether a boolean parameter of the query is true."""
    return query.get(name, "").lower() in ("true", "1")
