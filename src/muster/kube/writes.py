"""The writes of muster: bindings, evictions, patches of status and annotations, and whole objects of muster's kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from muster.kube.client import APPLY_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, Client
from muster.kube.resources import Resource, resource_of
from muster.model.core import Pod
from muster.model.kinds import decode_json, plain
from muster.model.meta import Condition, Object, Partial, kind_name
from muster.model.meta import key as key_of
from muster.model.pod_states import is_terminating
from muster.store import errors

T = TypeVar("T", bound=Object)

_POD = resource_of(Pod)

FENCE = "muster.io/fence"
"""Annotation of a pending pod: the leader that refuses the bindings of every leader before it."""
# How often a binding is sent, if the pod changes in between.
MAX_BIND_ATTEMPTS = 4


class _ServedName(Partial, kw_only=True):
    name: str = ""


class _Served(Partial, kw_only=True):
    """The resources that the server has under an apiVersion, with their subresources."""

    resources: list[_ServedName] = []


class Writes:
    """The calls that change the cluster, each behind the client's gate."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._plain_status: set[Resource] = set()

    # --- pods

    async def bind(
        self, key: str, node: str, annotations: Mapping[str, str] | None = None, *, uid: str, version: str = "",
        fence: str = "",
    ) -> None:  # fmt: skip
        """Binds the pod to its node and sets the annotations. Raises Conflict if it has another node, was bound without
        these annotations, is another pod or is terminating.

        Safe to send twice: if a response was lost, a Conflict is examined, and our own earlier binding is a success.
        With a `version` only the pod of that resourceVersion is bound. If the pod has changed since, the binding is
        sent again, unless the pod's fence is no longer `fence`: then another leader decides about the pod.
        """
        namespace, _, name = key.partition("/")
        meta: dict[str, Any] = {"name": name, "namespace": namespace}
        if uid:
            meta["uid"] = uid
        if annotations:
            meta["annotations"] = dict(annotations)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": meta,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = _POD.path(key, sub="binding")
        for left in reversed(range(MAX_BIND_ATTEMPTS)):
            if version:
                meta["resourceVersion"] = version
            try:
                await self.client.request("POST", path, body=binding, repeatable=True)
                return
            except errors.Conflict:
                pod = await self._current(key, uid)
                if pod is not None and pod.spec.node_name == node and _has(pod, annotations or {}):
                    return
                if not left or not version or pod is None or not _may_bind(pod, fence):
                    raise
                if pod.metadata.resource_version == version:
                    raise  # it did not change: the conflict has another cause
                version = pod.metadata.resource_version

    async def _current(self, key: str, uid: str) -> Pod | None:
        """Reads the pod; None if it was deleted or is another pod now."""
        try:
            pod = await self.get(Pod, key)
        except errors.ApiError:
            return None
        return pod if not uid or pod.metadata.uid == uid else None

    async def evict(
        self, key: str, *, uid: str, dry_run: bool = False, grace: int | None = None, version: str = ""
    ) -> None:
        """Evicts the pod. Raises BudgetRefused if a PodDisruptionBudget refuses, Conflict if it is another pod now or,
        with a `version`, has changed.

        With `dry_run` the server only checks. Do that first: the server counts a disruption before it compares the uid,
        so evicting the wrong pod costs a disruption for two minutes.
        """
        namespace, _, name = key.partition("/")
        options: dict[str, Any] = {}
        if uid or version:
            options["preconditions"] = _preconditions(uid, version)["metadata"]
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if dry_run:
            options["dryRun"] = ["All"]
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": options,
        }
        params = {"dryRun": "All"} if dry_run else None
        # The uid makes it safe to send twice: a deleted pod is NotFound, its successor a Conflict.
        await self.client.request(
            "POST", _POD.path(key, sub="eviction"), params=params, body=eviction, repeatable=bool(uid) or dry_run
        )

    async def pod_condition(
        self, key: str, condition: Condition, *, uid: str, version: str = "", nominated: str | None = None
    ) -> Pod:
        """Sets one condition of a pod and, if given, its nominated node ("" removes it).

        Raises Conflict if uid or resourceVersion differ.
        """
        status: dict[str, Any] = {"conditions": [msgspec.to_builtins(condition)]}
        if nominated is not None:
            status["nominatedNodeName"] = nominated or None
        merge = {**_preconditions(uid, version), "status": status}
        # Only a strategic patch merges conditions by type; the kubelet writes to the same list.
        return await self._patch(Pod, _POD, key, merge, "status", STRATEGIC_MERGE_PATCH)

    async def set_images(
        self, key: str, containers: Mapping[str, str], init_containers: Mapping[str, str], *, uid: str
    ) -> Pod:
        """Sets the images of containers by name. Raises Conflict if it is another pod now."""
        spec: dict[str, Any] = {}
        for field, images in (("containers", containers), ("initContainers", init_containers)):
            if images:
                spec[field] = [{"name": name, "image": image} for name, image in sorted(images.items())]
        # Only a strategic patch finds a container by its name and keeps its other fields.
        return await self._patch(Pod, _POD, key, {**_preconditions(uid, ""), "spec": spec}, "", STRATEGIC_MERGE_PATCH)

    # --- any kind

    async def get(self, kind: type[T], key: str, api_version: str = "") -> T:
        """Reads the object; raises NotFound."""
        resource = resource_of(kind, api_version)
        path = resource.path(key)
        return _decoded(kind, resource, await self.client.request("GET", path), f"GET {path}")

    async def whole(self, kind: type[Object], key: str) -> dict[str, Any]:
        """Reads the object with the fields that the model lacks; raises NotFound."""
        path = resource_of(kind).path(key)
        try:
            return msgspec.json.decode(await self.client.request("GET", path), type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise errors.BadAnswer(f"GET {path}", f"the answer is no {kind.__name__}: {error}", code=502) from None

    async def patch_status(
        self, kind: type[T], key: str, status: Mapping[str, Any], *, uid: str = "", version: str = ""
    ) -> T:
        """Merges into status (null removes, lists are replaced). Raises Conflict if uid or resourceVersion differ."""
        merge = {**_preconditions(uid, version), "status": status}
        resource = resource_of(kind)
        if resource not in self._plain_status:
            try:
                return await self._patch(kind, resource, key, merge, "status", MERGE_PATCH)
            except errors.NotFound:
                # The response is the same if the object or the subresource is missing.
                if await self._serves_status(resource):
                    raise
            self._plain_status.add(resource)
        # Volcano: in its definition of PodGroup the status is not a subresource.
        return await self._patch(kind, resource, key, merge, "", MERGE_PATCH)

    async def _serves_status(self, resource: Resource) -> bool:
        path = resource.path().rpartition("/")[0]
        try:
            served = msgspec.json.decode(await self.client.request("GET", path), type=_Served)
        except msgspec.MsgspecError as error:
            raise errors.BadAnswer(f"GET {path}", f"the answer is no list of resources: {error}", code=502) from None
        return any(one.name == f"{resource.plural}/status" for one in served.resources)

    async def annotate(
        self, kind: type[T], key: str, annotations: Mapping[str, str | None], *, uid: str = "", version: str = ""
    ) -> T:
        """Sets annotations (None removes one). Raises Conflict if uid or resourceVersion differ."""
        merge = _preconditions(uid, version)
        merge.setdefault("metadata", {})["annotations"] = dict(annotations)
        return await self._patch(kind, resource_of(kind), key, merge, "", MERGE_PATCH)

    async def patch(
        self, kind: type[T], key: str, merge: Mapping[str, Any], *, sub: str = "", api_version: str = ""
    ) -> T:
        """Sends a merge patch (RFC 7386)."""
        return await self._patch(kind, resource_of(kind, api_version), key, merge, sub, MERGE_PATCH)

    async def apply(self, kind: type[T], key: str, fields: Mapping[str, Any], *, manager: str) -> T:
        """Applies these fields (server-side), even if others own them. Raises Conflict if a given uid differs."""
        resource = resource_of(kind)
        name = key.rpartition("/")[2]
        meta = {**fields.get("metadata", {}), "name": name}
        body = {**fields, "apiVersion": resource.api_version, "kind": kind_name(kind), "metadata": meta}
        params = {"fieldManager": manager, "force": "true"}
        return await self._patch(kind, resource, key, body, "", APPLY_PATCH, params)

    async def create(self, obj: T) -> T:
        """Creates the object; raises AlreadyExists. It is not sent again if the first request may have succeeded."""
        resource = resource_of(type(obj), obj.api_version)
        path = resource.path(namespace=(obj.metadata.namespace or "default") if obj.namespaced else "")
        body = await self.client.request("POST", path, body=plain(obj))
        return _decoded(type(obj), resource, body, f"POST {path}")

    async def update(self, obj: T, *, sub: str = "") -> T:
        """Replaces the stored object; only for kinds of which the model has all fields."""
        resource = resource_of(type(obj), obj.api_version)
        path = resource.path(key_of(obj), sub=sub)
        body = await self.client.request("PUT", path, body=plain(obj))
        return _decoded(type(obj), resource, body, f"PUT {path}")

    async def delete(self, kind: type[Object], key: str, *, grace: int | None = None, uid: str = "") -> None:
        """Deletes the object; raises Conflict if it is another one now."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid:
            options["preconditions"] = {"uid": uid}
        await self.client.request("DELETE", resource_of(kind).path(key), body=options)

    async def _patch(
        self, kind: type[T], resource: Resource, key: str, merge: Mapping[str, Any], sub: str, content_type: str,
        params: Mapping[str, str] | None = None,
    ) -> T:  # fmt: skip
        path = resource.path(key, sub=sub)
        body = await self.client.request(
            "PATCH", path, params=params, body=merge, content_type=content_type, repeatable=True
        )
        return _decoded(kind, resource, body, f"PATCH {path}")


def _has(pod: Pod, annotations: Mapping[str, str]) -> bool:
    return annotations.items() <= pod.metadata.annotations.items()


def _may_bind(pod: Pod, fence: str) -> bool:
    gone = pod.spec.node_name or is_terminating(pod)
    return not gone and pod.metadata.annotations.get(FENCE, "") == fence


def _preconditions(uid: str, version: str) -> dict[str, Any]:
    wanted = {name: value for name, value in (("uid", uid), ("resourceVersion", version)) if value}
    return {"metadata": wanted} if wanted else {}


def _decoded(kind: type[T], resource: Resource, body: bytes, what: str) -> T:
    try:
        obj = decode_json(kind, body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise errors.BadAnswer(what, f"the answer is no {kind.__name__}: {error}", code=502) from None
    if obj.api_version != resource.api_version:
        obj.api_version = resource.api_version
    return obj
