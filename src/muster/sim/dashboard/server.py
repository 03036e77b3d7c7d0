"""The HTTP server of the dashboard: the page, its views, the JSON API and the stream of updates."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import Any

import msgspec
from aiohttp import web

from muster.model.finding import InputError
from muster.process.component import Handler
from muster.sim.dashboard import openapi
from muster.sim.dashboard.access import COOKIE, HEADERS, SESSION_S, Access, Refused
from muster.sim.dashboard.answers import ANSWERS, Fault, Redecided, RedecideRequest, encoded
from muster.sim.dashboard.display import VIEWS, Display, RenderedPart, Rendering
from muster.sim.dashboard.listener import MAX_BODY_BYTES
from muster.sim.dashboard.worker import Busy, Failed, Task, Worker
from muster.sim.inputs import ConfigText
from muster.sim.report.frame import stylesheet

BODY_TIMEOUT_S = 10.0
MAX_RENDERINGS = 8
"""Earlier cycles and other decisions that are kept."""
MAX_EXPLANATIONS = 64
NOT_KEPT = "this decision is not kept any more: decide again"
STATIC = {"app.js": "text/javascript", "app.css": "text/css", "report.css": "text/css", "icon.svg": "image/svg+xml"}
_JSON = "application/json"


class Server:
    """Answers requests about a display; `application` is served by a Listener."""

    def __init__(self, display: Display, access: Access, ready: Callable[[], str] = lambda: "") -> None:
        self.display = display
        self.access = access
        self._ready = ready
        self._deciding, self._explaining = Worker(), Worker()
        self._renderings: OrderedDict[str, Rendering] = OrderedDict()  # of other decisions and earlier cycles
        self._decisions: OrderedDict[str, Task] = OrderedDict()  # how they were made
        self._explained: OrderedDict[tuple[object, ...], dict[str, RenderedPart]] = OrderedDict()
        self._description = RenderedPart.of(encoded(openapi.description()))
        self._static = {name: RenderedPart.of(_file(name)) for name in (*STATIC, "index.html", "login.html")}
        self.application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guarded])
        add = self.application.router
        add.add_get("/", self._page("index.html"))
        add.add_get("/login", self._page("login.html"))
        add.add_post("/login", self._login)
        add.add_get("/healthz", self._healthz)
        add.add_get("/readyz", self._readyz)
        add.add_get("/static/{name}", self._file)
        add.add_get("/views/{name}", self._view)
        add.add_get("/api/v1/openapi.json", self._openapi)
        add.add_get("/api/v1/status", self._status)
        add.add_get("/api/v1/events", self._events)
        add.add_get("/api/v1/explain", self._explain)
        add.add_post("/api/v1/redecide", self._redecide)
        for name in ANSWERS:
            add.add_get(f"/api/v1/{name}", self._answer(name))
        self.application.on_shutdown.append(self._end_streams)

    async def warm_up(self) -> None:
        """Starts the process for explanations, which people wait for."""
        await self._explaining.warm_up()

    def close(self) -> None:
        """Ends the worker processes."""
        self._deciding.close()
        self._explaining.close()

    async def _end_streams(self, _: web.Application) -> None:
        self.display.updates.close()

    # --- every request

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self.access.check(request)
            response = await handler(request)
        except Refused as why:
            response = self._refusal(request, why)
        except web.HTTPException as fault:
            response = _fault(fault.status, fault.text or fault.reason, fault.headers.get("Retry-After"))
        except Busy:
            response = _fault(503, "too many requests are being computed: try again", "5")
        except (Failed, InputError) as why:
            response = _fault(422, str(why))
        except LookupError as why:
            response = _fault(404, str(why.args[0]) if why.args else "not found")
        if not response.prepared:
            response.headers.update(HEADERS)
            response.headers.setdefault("Cache-Control", "no-store")
        return response

    def _refusal(self, request: web.Request, why: Refused) -> web.StreamResponse:
        if why.status == 401 and request.path == "/" and request.method == "GET":
            return web.Response(status=303, headers={"Location": "/login"})
        response = _fault(why.status, str(why))
        if why.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _sent(self, request: web.Request, part: RenderedPart, kind: str) -> web.Response:
        """Sends a part, compressed if the client can read that, or 304 if it has it."""
        headers = {"ETag": part.etag, "Cache-Control": "private, no-cache", "Vary": "Accept-Encoding, Cookie"}
        if request.headers.get("If-None-Match") == part.etag:
            return web.Response(status=304, headers=headers)
        body = part.body
        if part.compressed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
            body, headers["Content-Encoding"] = part.compressed, "gzip"
        return web.Response(body=body, content_type=kind, charset=None if kind == _JSON else "utf-8", headers=headers)

    # --- what is there

    def _page(self, name: str) -> Handler:
        async def page(request: web.Request) -> web.StreamResponse:
            return self._sent(request, self._static[name], "text/html")

        return page

    async def _file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in STATIC:
            raise LookupError("there is no such file")
        return self._sent(request, self._static[name], STATIC[name])

    async def _openapi(self, request: web.Request) -> web.StreamResponse:
        return self._sent(request, self._description, _JSON)

    async def _healthz(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok")

    async def _readyz(self, request: web.Request) -> web.StreamResponse:
        wrong = self._ready() or ("" if self.display.rendering is not None else "the first result is being computed")
        return web.Response(text=wrong or "ok", status=503 if wrong else 200)

    async def _login(self, request: web.Request) -> web.StreamResponse:
        given = await _form(request)
        session = self.access.login(given.get("token", ""))
        response = web.Response(status=303, headers={"Location": "/"})
        response.set_cookie(
            COOKIE, session, max_age=int(SESSION_S), httponly=True, samesite="Strict", secure=self.access.secure
        )
        return response

    # --- what is shown

    async def _status(self, request: web.Request) -> web.StreamResponse:
        if self.display.status is None:
            raise web.HTTPServiceUnavailable(text="the first result is being computed", headers={"Retry-After": "1"})
        return self._sent(request, RenderedPart.of(encoded(self.display.status)), _JSON)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await self.display.updates.stream(request)

    async def _view(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name == "explain":
            return self._sent(request, (await self._explanation(request))["views/explain"], "text/html")
        if name not in VIEWS and name != "comparison":
            raise LookupError("there is no such view")
        return self._sent(request, await (await self._rendering(request)).part(f"views/{name}"), "text/html")

    def _answer(self, name: str) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            return self._sent(request, await (await self._rendering(request)).part(f"api/{name}"), _JSON)

        return answer

    async def _rendering(self, request: web.Request) -> Rendering:
        """Returns the rendering that a request asks for: after a cycle, of another decision, else the latest."""
        decision, cycle = request.query.get("decision"), _cycle(request)
        if decision is not None:
            found = self._renderings.get(f"decision {decision}")
            if found is None:
                raise LookupError(NOT_KEPT)
            return found
        if cycle is None:
            if self.display.rendering is None:
                raise web.HTTPServiceUnavailable(text="the first result is being computed",
                                                 headers={"Retry-After": "1"})  # fmt: skip
            return self.display.rendering
        version, known, inner = self.display.input_at(cycle)
        key = f"cycle {version} {cycle}"
        found = self._renderings.get(key)
        if found is None:
            task = Task("parts", self._config(), inner, version=version, input=known)
            found = self._keep(key, Rendering(version, await self._deciding.run(task)))
        return found

    def _keep(self, key: str, rendering: Rendering) -> Rendering:
        self._renderings[key] = rendering
        while len(self._renderings) > MAX_RENDERINGS:
            self._renderings.popitem(last=False)
        return rendering

    def _config(self) -> ConfigText:
        return self.display.configurations[0]

    # --- what is computed on request

    async def _explain(self, request: web.Request) -> web.StreamResponse:
        return self._sent(request, (await self._explanation(request))["api/explain"], _JSON)

    async def _explanation(self, request: web.Request) -> dict[str, RenderedPart]:
        pod = request.query.get("pod", "")
        if not pod or len(pod) > 600:
            raise web.HTTPBadRequest(text="give the pod as ?pod=NAMESPACE/NAME")
        decision = request.query.get("decision")
        if decision is not None:
            if decision not in self._decisions:
                raise LookupError(NOT_KEPT)
            task = replace(self._decisions[decision], kind="explain", pod=pod)
        else:
            version, known, cycle = self.display.input_at(_cycle(request))
            task = Task("explain", self._config(), cycle, pod, version=version, input=known)
        key = (task.version, task.cycle, pod, decision)
        found = self._explained.get(key)
        if found is None:
            found = self._explained[key] = await self._explaining.run(task)
            while len(self._explained) > MAX_EXPLANATIONS:
                self._explained.popitem(last=False)
        return found

    async def _redecide(self, request: web.Request) -> web.StreamResponse:
        try:
            asked = msgspec.json.decode(await _body(request), type=RedecideRequest)
        except msgspec.DecodeError as fault:  # ValidationError is one
            raise web.HTTPBadRequest(text=f"the request is not as /api/v1/openapi.json says: {fault}") from None
        if asked.text:
            other = ConfigText(asked.text, asked.configuration or "uploaded configuration")
        else:
            chosen = [text for text in self.display.configurations if text.source == asked.configuration]
            if not chosen:
                raise web.HTTPBadRequest(text="there is no such configuration: give one of /api/v1/status, or a text")
            other = chosen[0]
        version, known, cycle = self.display.input_at(asked.cycle)
        task = Task("compare", self._config(), cycle, other=other, version=version, input=known)
        found = await self._deciding.run(task)
        comparison: dict[str, Any] = found.pop("comparison")
        made = secrets.token_urlsafe(9)
        self._keep(f"decision {made}", Rendering(version, found))
        self._decisions[made] = task
        while len(self._decisions) > MAX_RENDERINGS:
            self._decisions.popitem(last=False)
        return web.Response(body=encoded(Redecided(made, comparison)), content_type=_JSON)


def _cycle(request: web.Request) -> int | None:
    given = request.query.get("at")
    if given is None:
        return None
    if not given.isascii() or not given.isdigit() or len(given) > 9:
        raise web.HTTPBadRequest(text="`at` is the number of a cycle")
    return int(given)


async def _body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="the body of the request did not arrive") from None


async def _form(request: web.Request) -> dict[str, str]:
    if request.content_type != "application/x-www-form-urlencoded":
        raise web.HTTPUnsupportedMediaType(text="send the form")
    from urllib.parse import parse_qsl

    return dict(parse_qsl((await _body(request)).decode("utf-8", "replace"), max_num_fields=8))


def _fault(status: int, text: str | None, retry: str | None = None) -> web.Response:
    made = web.Response(status=status, body=encoded(Fault(text or "")), content_type=_JSON)
    if retry is not None:
        made.headers["Retry-After"] = retry
    return made


def _file(name: str) -> bytes:
    if name == "report.css":
        return stylesheet().encode()
    return files("muster.sim.dashboard").joinpath("static", name).read_bytes()
