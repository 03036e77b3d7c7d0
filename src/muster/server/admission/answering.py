"""Questions over HTTP: read, answered, counted; one that cannot be read never stops the rest."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from muster.live.logs import Log
from muster.server.admission.metrics import Metrics
from muster.server.admission.wire import AdmissionRequest, Verdict, WireError, read_review, write_review

LARGEST_BODY = 8 << 20

Ask = Callable[[AdmissionRequest], Awaitable[Verdict]]
Handler = Callable[[web.Request], Awaitable[web.Response]]


def answering(path: str, ask: Ask, can_answer: Callable[[], bool], metrics: Metrics, log: Log) -> Handler:
    """A handler for `path`. As long as it cannot answer, everything is let through."""

    async def answer(request: web.Request) -> web.Response:
        began = time.perf_counter()
        result, body, status = "error", b"", 200
        try:
            asked = read_review(await request.read())
            if can_answer():
                verdict = await ask(asked)
            else:
                verdict = Verdict(warnings=["muster has not read the cluster yet: nothing was done"])
            body = write_review(asked.uid, verdict)
            result = "refused" if verdict.refusal else "patched" if verdict.patch else "allowed"
        except WireError as fault:
            status, body = 400, str(fault).encode()
        except web.HTTPRequestEntityTooLarge:
            status, body = 413, f"a body above the limit of {LARGEST_BODY} bytes".encode()
        except Exception as fault:  # one bad object never stops the rest
            status, body = 500, f"unexpected {type(fault).__name__}: {fault}".encode()
            log(0, f"{path}: unexpected {type(fault).__name__}: {fault}")
        metrics.requests.labels(path, result).inc()
        metrics.seconds.labels(path).observe(time.perf_counter() - began)
        return web.Response(body=body, status=status, content_type="application/json")

    return answer
