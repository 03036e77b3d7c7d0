"""Reads and writes AdmissionReviews (admission.k8s.io/v1)."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from msgspec import field

from muster.model.meta import Partial

VERSION = "admission.k8s.io/v1"
# A decoded object or list takes up to a kilobyte, and two bytes of JSON are enough for one.
MAX_VALUES = 100_000
_MAX_WARNING_CHARS = 256  # the API server truncates longer warnings


class WireError(ValueError):
    """The request is not an AdmissionReview; the text says why."""


class GroupVersionKind(Partial, kw_only=True):
    """The kind of an object."""

    group: str = ""
    version: str = ""
    kind: str = ""


class AdmissionRequest(Partial, kw_only=True):
    """The request to admit one object."""

    uid: str = ""
    kind: GroupVersionKind = field(default_factory=GroupVersionKind)
    name: str = ""
    namespace: str = ""
    operation: str = ""
    sub_resource: str = ""
    object: dict[str, Any] | None = None
    dry_run: bool | None = None


class _Review(Partial, kw_only=True):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


class AdmissionResponse(msgspec.Struct):
    """The response: a patch, or the reason of a refusal, and warnings."""

    patch: list[dict[str, Any]] = []
    refusal: str = ""
    warnings: list[str] = []


def read_review(body: bytes | memoryview) -> AdmissionRequest:
    """Returns the request of a review; raises WireError if there is none."""
    text = bytes(body)
    if text.count(b"{") + text.count(b"[") > MAX_VALUES:
        raise WireError(f"the AdmissionReview has more than {MAX_VALUES} objects and lists")
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise WireError(f"not an AdmissionReview: {fault}") from None
    if review.kind != "AdmissionReview" or review.api_version != VERSION:
        raise WireError(f"expected an AdmissionReview of {VERSION}, not {review.kind!r} of {review.api_version!r}")
    if review.request is None or not review.request.uid:
        raise WireError("the AdmissionReview has no request with a uid")
    return review.request


def write_review(uid: str, response: AdmissionResponse) -> bytes:
    """Returns the AdmissionReview that answers the request with this uid."""
    value: dict[str, Any] = {"uid": uid, "allowed": not response.refusal}
    if response.refusal:
        value["status"] = {"code": 422, "reason": "Invalid", "message": response.refusal}
    elif response.patch:
        value["patchType"] = "JSONPatch"
        value["patch"] = base64.b64encode(msgspec.json.encode(response.patch)).decode()
    if response.warnings:
        value["warnings"] = [_short(f"muster: {text}") for text in dict.fromkeys(response.warnings)]
    return msgspec.json.encode({"apiVersion": VERSION, "kind": "AdmissionReview", "response": value})


def _short(text: str) -> str:
    return text if len(text) <= _MAX_WARNING_CHARS else f"{text[: _MAX_WARNING_CHARS - 1]}…"
