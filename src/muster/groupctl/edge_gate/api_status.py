"""Writes the gate's own responses as Kubernetes Status objects."""

from __future__ import annotations

from typing import Any

import msgspec

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "Timeout",
    410: "Expired",
    413: "RequestEntityTooLarge",
    502: "InternalError",
    503: "ServiceUnavailable",
}


def status(code: int, message: str, *, name: str = "") -> dict[str, Any]:
    """Returns a Status object; with `name` it is about that pod."""
    details = {"name": name, "kind": "pods"} if name else {}
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": _REASONS.get(code, "BadRequest" if code < 500 else "InternalError"), "details": details, "code": code,
    }  # fmt: skip


def expired(version: str, floor: int) -> bytes:
    """Returns the watch event that makes a client list again."""
    message = f"too old resource version: {version} (the edge gate knows what happened since {floor})"
    return b'{"type":"ERROR","object":' + msgspec.json.encode(status(410, message)) + b"}\n"
