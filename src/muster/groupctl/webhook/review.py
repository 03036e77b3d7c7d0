"""Reads, answers and writes AdmissionReviews (admission.k8s.io/v1) over HTTP.

Requests arrive in threads of the listener. They are answered in the event loop one after the other, so that no two
pods get the same slot of a group.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import TimeoutError as Late
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import field

from muster.groupctl.webhook.metrics import Metrics
from muster.model.meta import Partial
from muster.process.listener.http_listener import TEXT, Request, Response
from muster.process.listener.limits import MIB
from muster.process.logs import Log

VERSION = "admission.k8s.io/v1"
MAX_BODY_BYTES = 8 * MIB
# A decoded object or list takes up to a kilobyte, and two bytes of JSON are enough for one.
MAX_VALUES = 100_000
_MAX_WARNING_CHARS = 256  # the API server truncates longer warnings


class BadReview(ValueError):
    """The request is not an AdmissionReview; the text has the reason."""


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
    """Returns the request of a review; raises BadReview if there is none."""
    text = bytes(body)
    if text.count(b"{") + text.count(b"[") > MAX_VALUES:
        raise BadReview(f"the AdmissionReview has more than {MAX_VALUES} objects and lists")
    try:
        review = msgspec.json.decode(body, type=_Review)
    except (msgspec.DecodeError, RecursionError) as fault:
        raise BadReview(f"not an AdmissionReview: {fault}") from None
    if review.kind != "AdmissionReview" or review.api_version != VERSION:
        raise BadReview(f"expected an AdmissionReview of {VERSION}, not {review.kind!r} of {review.api_version!r}")
    if review.request is None or not review.request.uid:
        raise BadReview("the AdmissionReview has no request with a uid")
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


Reviewer = Callable[[AdmissionRequest], Awaitable[AdmissionResponse]]


class ReviewHandler:
    """The listener's handler. While the informers have not synced, every object is allowed."""

    def __init__(
        self,
        reviewers: Mapping[str, Reviewer],
        can_answer: Callable[[], bool],
        metrics: Metrics,
        log: Log,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Takes the reviewer of each path (without its slash)."""
        self._reviewers = reviewers
        self._can_answer = can_answer
        self._metrics = metrics
        self._log = log
        self._loop = loop

    def __call__(self, request: Request) -> Response:
        path = request.path.strip("/")
        reviewer = self._reviewers.get(path)
        if reviewer is None:
            return Response(HTTPStatus.NOT_FOUND, f"there is no /{path} here\n".encode(), TEXT)
        if request.method != "POST":
            return Response(HTTPStatus.METHOD_NOT_ALLOWED, b"use POST\n", TEXT)
        began = time.perf_counter()
        result, status = "error", HTTPStatus.OK
        try:
            asked = read_review(request.body)
            response = self._review(reviewer, asked, request.deadline)
            body = write_review(asked.uid, response)
            result = "refused" if response.refusal else "patched" if response.patch else "allowed"
        except BadReview as fault:
            status, body = HTTPStatus.BAD_REQUEST, str(fault).encode()
        except Late:
            status, body = HTTPStatus.SERVICE_UNAVAILABLE, b"no answer in time"
        except Exception as fault:  # one bad object must not stop the others
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, f"unexpected {type(fault).__name__}: {fault}".encode()
            self._log(0, f"{path}: unexpected {type(fault).__name__}: {fault}")
        self._metrics.requests.labels(path, result).inc()
        self._metrics.seconds.labels(path).observe(time.perf_counter() - began)
        return Response(status, body)

    def _review(self, reviewer: Reviewer, asked: AdmissionRequest, deadline: float) -> AdmissionResponse:
        if not self._can_answer():
            return AdmissionResponse(warnings=["muster has not read the cluster yet: nothing was done"])

        async def answer() -> AdmissionResponse:
            return await reviewer(asked)

        answering = asyncio.run_coroutine_threadsafe(answer(), self._loop)
        try:
            return answering.result(max(deadline - time.monotonic(), 0.0))
        except Late:
            answering.cancel()
            raise
