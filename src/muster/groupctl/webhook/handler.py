"""Handles AdmissionReviews over HTTP.

Requests arrive in threads of the listener. They are answered in the event loop one after the other, so that no two
pods get the same slot of a group.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import TimeoutError as Late
from http import HTTPStatus

from muster.groupctl.webhook.metrics import Metrics
from muster.groupctl.webhook.review import AdmissionRequest, AdmissionResponse, WireError, read_review, write_review
from muster.process.listener.http_listener import TEXT, Request, Response
from muster.process.listener.limits import MIB
from muster.process.logs import Log

MAX_BODY_BYTES = 8 * MIB

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
        except WireError as fault:
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
