"""A small client of the API server for the tests' own hands: it makes, reads and waits, and hides nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from builders.manifests import CLUSTER_SCOPED, node

T = TypeVar("T")
Plain = dict[str, Any]



class Refused(Exception):
    """The API server refused: the status and its message."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        try:
            answer = json.loads(body)
        except ValueError:
            answer = {"message": body.decode(errors="replace")}
        self.message: str = answer.get("message", "")
        self.reason: str = answer.get("reason", "")
        self.fields: list[str] = [cause.get("field", "") for cause in answer.get("details", {}).get("causes", [])]
        super().__init__(f"{status} {self.message}")


class Api:
    """The API server, spoken to with one token. Safe to use from several threads."""

    def __init__(self, url: str, ca: Path, token: str) -> None:
        self.url, self.ca, self.token = url, ca, token
        self._pool = urllib3.PoolManager(maxsize=32, ca_certs=str(ca), retries=False, timeout=60)

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json") -> Plain:
        """One request. Refused on any status of 400 and above."""
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        content = None
        if body is not None:
            headers["Content-Type"] = kind
            content = json.dumps(body).encode()
        answer = self._pool.request(method, self.url + path, body=content, headers=headers)
        if answer.status >= 400:
            raise Refused(answer.status, answer.data)
        result: Plain = json.loads(answer.data) if answer.data else {}
        return result

    def get(self, path: str) -> Plain:
        return self.call("GET", path)

    def list(self, path: str) -> list[Plain]:
        items: list[Plain] = self.call("GET", path)["items"]
        return items

    def create(self, obj: Plain, *, dry_run: bool = False) -> Plain:
        return self.call("POST", collection(obj) + ("?dryRun=All" if dry_run else ""), obj)

    def update(self, obj: Plain) -> Plain:
        return self.call("PUT", place(obj), obj)

    def merge(self, path: str, change: Plain) -> Plain:
        return self.call("PATCH", path, change, "application/merge-patch+json")

    def apply(self, obj: Plain) -> Plain:
        """Server-side apply, as `kubectl apply --server-side` does it."""
        query = "?fieldManager=live-tests&force=true&fieldValidation=Strict"
        return self.call("PATCH", place(obj) + query, obj, "application/apply-patch+yaml")

    def delete(self, path: str, options: Mapping[str, Any] | None = None) -> Plain:
        return self.call("DELETE", path, options)

    def gone(self, path: str) -> bool:
        try:
            self.get(path)
        except Refused as refused:
            if refused.status == 404:
                return True
            raise
        return False

    def bind(self, pod: Plain, node: str) -> Plain:
        """What a scheduler does."""
        meta = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return self.call("POST", place(pod) + "/binding", binding)

    def token_of(self, namespace: str, account: str, seconds: int = 3600) -> str:
        """A token of a ServiceAccount (TokenRequest)."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        made = self.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request)
        token: str = made["status"]["token"]
        return token


def collection(obj: Plain) -> str:
    """Where objects of this kind (and namespace) are made."""
    version, kind = obj["apiVersion"], obj["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind not in CLUSTER_SCOPED:
        root += f"/namespaces/{obj['metadata'].get('namespace', 'default')}"
    return f"{root}/{plural(kind)}"


def place(obj: Plain) -> str:
    """Where this object is."""
    return f"{collection(obj)}/{obj['metadata']['name']}"


def plural(kind: str) -> str:
    name = kind.lower()
    if name.endswith("y"):
        return name[:-1] + "ies"
    return name + ("es" if name.endswith(("s", "x")) else "s")


def until(what: str, asked: Callable[[], T | None], seconds: float = 20.0, every: float = 0.05) -> T:
    """The first answer that is not empty; a test fails when there is none in time."""
    end = time.monotonic() + seconds
    while True:
        answer = asked()
        if answer:
            return answer
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(every)


def live_node(name: str, labels: Mapping[str, str] | None = None, **more: Any) -> Plain:
    """A node that KWOK runs, with the label that a kubelet would set."""
    return node(name, labels={"kubernetes.io/hostname": name, **(labels or {})}, **{"memory": "32Gi", **more})
