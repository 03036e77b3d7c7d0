"""Schedulers by their Leases: which configuration each announces, and whether it runs."""

from __future__ import annotations

from typing import Any

from fakes.faulty_api import FaultyApi, listed, refuse, reply, run
from muster.config import DEFAULT
from muster.config.announced_config import BUILT_IN, AnnouncedConfig, announced_configs_in, lease_annotations
from muster.kube.snapshot import announced

LEASES, MAP = "/apis/coordination.k8s.io/v1/leases", "/api/v1/namespaces/home/configmaps/conf"
RENEWED = "2026-01-01T00:00:00.000000Z"
NOW = 1767225600.0  # the same


def lease(source: str, holder: str = "one", **notes: str) -> dict[str, Any]:
    meta = {"name": "muster-scheduler", "namespace": "home", "resourceVersion": "1",
            "annotations": {**lease_annotations(source, "abc", ["muster"]), **notes}}  # fmt: skip
    return {"metadata": meta, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": RENEWED}}


def look(plan: Any, now: float = NOW) -> list[AnnouncedConfig]:
    async def story(api: FaultyApi) -> list[AnnouncedConfig]:
        plan(api)
        async with api.client(tries=1) as client:
            return await announced(client, api.report.append, lambda: now)

    return run(story)


def found(source: str, now: float = NOW, holder: str = "one", map_: Any = None) -> AnnouncedConfig:
    def plan(api: FaultyApi) -> None:
        api.plan("GET", LEASES, reply(listed([lease(source, holder)], 5)))
        if map_ is not None:
            api.plan("GET", MAP, map_)

    (one,) = look(plan, now)
    return one


def config_map(**data: str) -> Any:
    return reply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf", "namespace": "home"},
                 "data": data})  # fmt: skip


def test_the_configmap_that_a_lease_names_is_read() -> None:
    one = found("configmap:home/conf", map_=config_map(**{"a.conf": "actions: allocate\n", "b": "other"}))
    assert (one.lease, one.running, one.hash, one.names) == ("home/muster-scheduler", True, "abc", ("muster",))
    assert one.text == "actions: allocate\n"


def test_a_key_of_the_configmap_may_be_named() -> None:
    assert found("configmap:home/conf/b", map_=config_map(**{"a.conf": "1", "b": "2"})).text == "2"


def test_a_configmap_that_is_gone_or_forbidden_is_a_fault() -> None:
    for answer in (refuse(404, "NotFound", "no such thing"), refuse(403, "Forbidden", "no such thing")):
        one = found("configmap:home/conf", map_=answer)
        assert one.text is None and "no such thing" in one.fault


def test_the_built_in_configuration_needs_no_configmap_and_a_file_is_not_in_the_cluster() -> None:
    assert found(BUILT_IN).text == DEFAULT
    one = found("/etc/scheduler.yaml")
    assert one.text is None and "file" in one.fault


def test_a_lease_that_was_given_back_or_has_expired_is_nobodys() -> None:
    assert not found(BUILT_IN, holder="").running
    assert found(BUILT_IN, NOW + 15).running
    assert not found(BUILT_IN, NOW + 25).running


def test_without_a_lease_it_is_reported_that_there_is_no_scheduler() -> None:
    assert look(lambda api: api.plan("GET", LEASES, reply(listed([], 5)))) == [AnnouncedConfig()]


def test_only_labelled_leases_are_asked_for() -> None:
    async def story(api: FaultyApi) -> str:
        api.plan("GET", LEASES, reply(listed([], 5)))
        async with api.client(tries=1) as client:
            await announced(client, api.report.append)
        return str(api.asked[0].query)

    assert "app.kubernetes.io/component=scheduler" in run(story)


def test_a_snapshot_says_the_same() -> None:
    for one in (AnnouncedConfig("home/l", True, "configmap:home/conf", "abc", ("a", "b"), "text"), AnnouncedConfig(),
                AnnouncedConfig("home/l", False, "/etc/file", "abc", ("a",))):  # fmt: skip
        written = one.config_map()
        key = f"{written.metadata.namespace}/{written.metadata.name}"
        assert announced_configs_in({"ConfigMap": {key: written}}) == [one]
