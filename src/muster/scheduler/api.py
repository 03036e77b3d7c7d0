"""The API calls of the live scheduler as a protocol: `kube.writes.Writes` implements it, and so do fakes in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from muster.model.core import Pod
from muster.model.meta import Condition, Object
from muster.store import Severity
from muster.store.event_reasons import EventReason

T = TypeVar("T", bound=Object)


class SchedulerApi(Protocol):
    """Errors are those of muster.store.errors."""

    async def bind(
        self, key: str, node: str, annotations: Mapping[str, str] | None = None, *, uid: str, version: str = "",
        fence: str = "",
    ) -> None: ...  # fmt: skip

    async def evict(self, key: str, *, uid: str, dry_run: bool = False, grace: int | None = None) -> None: ...

    async def pod_condition(
        self, key: str, condition: Condition, *, uid: str, version: str = "", nominated: str | None = None
    ) -> Pod: ...

    async def get(self, kind: type[T], key: str, api_version: str = "") -> T: ...

    async def patch_status(
        self, kind: type[T], key: str, status: Mapping[str, Any], *, uid: str = "", version: str = ""
    ) -> T: ...

    async def annotate(
        self, kind: type[T], key: str, annotations: Mapping[str, str | None], *, uid: str = "", version: str = ""
    ) -> T: ...

    async def patch(
        self, kind: type[T], key: str, merge: Mapping[str, Any], *, sub: str = "", api_version: str = ""
    ) -> T: ...


class RecordEvent(Protocol):
    """Records an Event about an object; returns at once."""

    def __call__(self, obj: Object, severity: Severity, reason: EventReason, message: str) -> None: ...
