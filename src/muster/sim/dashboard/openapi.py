"""The OpenAPI 3.1 description of the JSON API, generated from the types of its answers."""

from __future__ import annotations

from typing import Any

import msgspec

from muster import __version__
from muster.sim.dashboard.access import REQUESTED_BY
from muster.sim.dashboard.answers import ANSWERS, Fault, Redecided, RedecideRequest, Status
from muster.sim.dashboard.updates import Update

Plain = dict[str, Any]
REF = "#/components/schemas/{name}"
_SUMMARIES = {
    "waiting": "The pods without a node, by cause.",
    "evictions": "The pods that were evicted, for whom and by which action.",
    "queues": "The queues with their amounts by resource.",
    "gangs": "The gangs: groups of which a minimum runs together, or nothing.",
    "nodes": "The nodes with their amounts by resource.",
    "groups": "The NodeGroups.",
    "policies": "The policies of node groups: desired and current pods of each application in each group.",
    "timeline": "The cycles with their decisions.",
    "decisions": "All decisions, as `muster simulate -o json` prints them.",
}
_FAULTS = {
    "400": "The request is malformed.",
    "401": "The token is missing or wrong.",
    "403": "The request is of another origin.",
    "404": "There is no such thing, or it is not kept any more.",
    "421": "The dashboard is not known by this host name.",
    "422": "The input cannot be used, or the work took too long.",
    "503": "Too many requests, or nothing is there yet.",
}


def description() -> Plain:
    """Returns the document."""
    typed = [Status, Fault, Redecided, RedecideRequest, Update, *(kind for _, kind in ANSWERS.values())]
    (*schemas,), components = msgspec.json.schema_components(typed, ref_template=REF)
    by_type = dict(zip(map(str, typed), schemas, strict=True))

    def schema(kind: Any) -> Plain:
        found: Plain = by_type[str(kind)]
        return found

    fault = _content(schema(Fault))
    faults = {status: {"description": text, "content": fault} for status, text in _FAULTS.items()}

    def operation(name: str, summary: str, kind: Any, parameters: tuple[str, ...] = (), **more: Any) -> Plain:
        content = _content(schema(kind)) if not isinstance(kind, dict) else kind
        return {
            "operationId": name, "summary": summary, **more,
            "parameters": [{"$ref": f"#/components/parameters/{one}"} for one in parameters],
            "responses": {"200": {"description": summary, "content": content}, **faults},
        }  # fmt: skip

    moments = ("at", "decision")
    paths: Plain = {
        f"/api/v1/{name}": {"get": operation(name, _SUMMARIES[name], kind, moments)}
        for name, (_, kind) in ANSWERS.items()
    }
    anything = _content({"type": "object"})
    stream = {"text/event-stream": {"schema": {"type": "string", "description": "events `update` with an Update"}}}
    redecide = "Decides again by another configuration, and compares the decisions."
    body = {"required": True, "content": _content(schema(RedecideRequest))}
    paths |= {
        "/api/v1/status": {"get": operation("status", "What is shown.", Status)},
        "/api/v1/openapi.json": {"get": operation("openapi", "This description.", anything)},
        "/api/v1/events": {"get": operation("events", "A stream of updates.", stream)},
        "/api/v1/explain": {
            "get": operation("explain", "As `muster explain --sets -o json`.", anything, ("pod", *moments))
        },
        "/api/v1/redecide": {
            "post": operation("redecide", redecide, Redecided, ("requestedBy",), requestBody=body)
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "muster dashboard", "version": __version__, "description": "Read-only."},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": components,
            "parameters": {
                "at": _parameter("at", "The state after this cycle; 0 is before the first.", {"type": "integer"}),
                "decision": _parameter("decision", "The `id` of a decision of /api/v1/redecide.", {"type": "string"}),
                "pod": _parameter("pod", "The pod as NAMESPACE/NAME.", {"type": "string"}, required=True),
                "requestedBy": {
                    **_parameter(REQUESTED_BY, "Any value.", {"type": "string"}, required=True), "in": "header"
                },
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }  # fmt: skip


def _content(schema: Plain) -> Plain:
    return {"application/json": {"schema": schema}}


def _parameter(name: str, text: str, schema: Plain, *, required: bool = False) -> Plain:
    return {"name": name, "in": "query", "description": text, "required": required, "schema": schema}
