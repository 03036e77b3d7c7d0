"""What the gate itself answers: Kubernetes' Status, as the API server would write it."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    404: "NotFound",
    410: "Expired",
    502: "InternalError",
    503: "ServiceUnavailable",
}


def status(code: int, message: str, *, name: str = "") -> dict[str, Any]:
    """A Status object; with a name it is about that pod."""
    details = {"name": name, "kind": "pods"} if name else {}
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": _REASONS.get(code, "InternalError"), "details": details, "code": code,
    }  # fmt: skip


def refusal(code: int, message: str, *, name: str = "") -> web.Response:
    headers = {"Retry-After": "1"} if code == 503 else None
    body = msgspec.json.encode(status(code, message, name=name))
    return web.Response(body=body, status=code, headers=headers, content_type="application/json")


def not_found(name: str) -> web.Response:
    return refusal(404, f'pods "{name}" not found', name=name)


def expired(version: str, floor: int) -> bytes:
    """The event that makes a client list again."""
    message = f"too old resource version: {version} (the edge gate knows what happened since {floor})"
    return b'{"type":"ERROR","object":' + msgspec.json.encode(status(410, message)) + b"}\n"
