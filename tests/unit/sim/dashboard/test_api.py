"""The JSON API of the dashboard: what it answers, and that the OpenAPI description says so."""

from __future__ import annotations

import gzip
import json
from typing import Any

import jsonschema
import pytest

from fakes.dashboard_site import Site
from muster.sim.dashboard.access import Access
from muster.sim.dashboard.answers import ANSWERS
from muster.sim.dashboard.display import VIEWS
from muster.sim.dashboard.openapi import description
from muster.sim.dashboard.server import Server

DESCRIPTION = description()


def check(path: str, status: int, value: Any, method: str = "get") -> None:
    """Validates an answer against the description."""
    content = DESCRIPTION["paths"][path][method]["responses"][str(status)]["content"]
    schema = {**content["application/json"]["schema"], "components": DESCRIPTION["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_every_route_is_described_and_no_other(site: Site) -> None:
    server = Server(site.source.display, Access("127.0.0.1"))
    routes = {
        (route.method.lower(), route.resource.canonical)
        for route in server.application.router.routes()
        if route.method != "HEAD" and route.resource is not None and route.resource.canonical.startswith("/api/")
    }
    server.close()
    described = {(method, path) for path, methods in DESCRIPTION["paths"].items() for method in methods}
    assert routes == described


def test_the_description_is_valid_and_served(site: Site) -> None:
    served = site.get("/api/v1/openapi.json")
    assert served == json.loads(json.dumps(DESCRIPTION))
    assert served["openapi"] == "3.1.0"
    for schema in served["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", ["status", *ANSWERS])
def test_answers_are_as_described(site: Site, name: str) -> None:
    check(f"/api/v1/{name}", 200, site.get(f"/api/v1/{name}"))


def test_waiting_pods_are_grouped_by_cause(site: Site) -> None:
    causes = site.get("/api/v1/waiting")["causes"]
    assert {pod for cause in causes for pod in cause["pods"]} == {"default/huge", "default/asks"}
    assert all(cause["reason"].startswith("0/2 nodes are available") for cause in causes)


def test_gangs_queues_and_nodes_have_their_numbers(site: Site) -> None:
    (gang,) = site.get("/api/v1/gangs")["gangs"]
    assert gang == {"name": "default/g", "queue": "a", "phase": "Running", "minimum": 3, "pods": 3, "placed": 3}
    queues = {one["name"]: one for one in site.get("/api/v1/queues")["queues"]}
    assert queues["a"]["allocated"]["cpu"] == "6"
    nodes = {one["name"]: one["resources"]["cpu"] for one in site.get("/api/v1/nodes")["nodes"]}
    assert nodes["n1"]["allocatable"] == "4"


def test_the_state_before_the_first_cycle_and_after_each_can_be_asked_for(site: Site) -> None:
    first = site.get("/api/v1/timeline")["cycles"][0]
    assert (first["number"], first["binds"]) == (1, 3)
    assert site.get("/api/v1/gangs?at=0")["gangs"][0]["placed"] == 0
    assert site.get("/api/v1/gangs?at=1")["gangs"][0]["placed"] == 3


def test_a_pod_is_explained(site: Site) -> None:
    found = site.get("/api/v1/explain?pod=default/huge")
    check("/api/v1/explain", 200, found)
    assert set(found["nodes"]) == {"n1", "n2"}
    assert not found["nodes"]["n1"]["feasible"]


def test_a_pod_that_is_not_there_is_one_clear_line(site: Site) -> None:
    response, body = site.ask("GET", "/api/v1/explain?pod=default/hug")
    assert response.status == 422
    check("/api/v1/explain", 422, json.loads(body))
    assert json.loads(body)["error"].startswith("there is no pod default/hug")
    assert json.loads(body)["error"].endswith("did you mean default/huge?")


def test_another_configuration_decides_again(site: Site) -> None:
    status, found = site.post("/api/v1/redecide", {"configuration": "spread.yaml"})
    check("/api/v1/redecide", status, found, "post")
    assert status == 200
    assert found["comparison"]["differences"]["placements"] == {}
    check("/api/v1/waiting", 200, site.get(f"/api/v1/waiting?decision={found['id']}"))
    text = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'
    status, found = site.post("/api/v1/redecide", {"configuration": "mine", "text": text, "cycle": 0})
    assert status == 200, found
    assert found["comparison"]["differences"]["configurations"][1] == "mine"
    explained = site.get(f"/api/v1/explain?pod=default/asks&decision={found['id']}")
    assert explained["configuration"]["source"] == "mine"
    assert explained["nodes"]["n1"]["scores"] == {}


@pytest.mark.parametrize(
    ("value", "status", "why"),
    [
        ({"configuration": "no.yaml"}, 400, "no such configuration"),
        ({"text": "actions: nonsense"}, 422, "cannot be used"),
        ({"text": "a: [" * 5000}, 422, "cannot be used"),
        ({"cycle": "x"}, 400, "Expected `int | null`"),
        ({"unknown": 1}, 400, "unknown field"),
        ([], 400, "Expected `object`"),
    ],
)
def test_bad_requests_to_decide_again_are_refused(site: Site, value: object, status: int, why: str) -> None:
    answered, found = site.post("/api/v1/redecide", value)
    assert (answered, why in found["error"]) == (status, True), found
    check("/api/v1/redecide", status, found, "post")


@pytest.mark.parametrize("path", ["/api/v1/nope", "/views/nope", "/views/..%2fx", "/static/..%2f..%2fserver.py",
                                  "/static/server.py", "/api/v1/waiting?decision=nope"])  # fmt: skip
def test_what_is_not_there_is_not_found(site: Site, path: str) -> None:
    response, body = site.ask("GET", path)
    assert response.status == 404
    assert set(json.loads(body)) == {"error"}


@pytest.mark.parametrize("path", ["/api/v1/waiting?at=-1", "/api/v1/waiting?at=x", "/api/v1/waiting?at=9999999999",
                                  "/api/v1/explain", "/api/v1/explain?pod=" + "x" * 700])  # fmt: skip
def test_malformed_parameters_are_refused(site: Site, path: str) -> None:
    assert site.ask("GET", path)[0].status == 400


@pytest.mark.parametrize("name", VIEWS)
def test_views_escape_every_text(site: Site, name: str) -> None:
    response, body = site.ask("GET", f"/views/{name}")
    assert response.status == 200
    page = body.decode()
    for tag in ("<img", "<script", "onerror=alert(1)>", " style="):
        assert tag not in page


def test_an_explanation_escapes_every_text(site: Site) -> None:
    for pod in ("default/asks", "default/huge"):
        page = site.ask("GET", f"/views/explain?pod={pod}")[1].decode()
        assert "<table" in page and "<img" not in page and "<script" not in page


def test_a_view_that_did_not_change_is_not_sent_again_and_others_are_compressed(site: Site) -> None:
    response, body = site.ask("GET", "/api/v1/decisions", Accept_Encoding="gzip")
    assert response.headers["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(body)) == site.get("/api/v1/decisions")
    again, nothing = site.ask("GET", "/api/v1/decisions", If_None_Match=response.headers["ETag"])
    assert (again.status, nothing) == (304, b"")
