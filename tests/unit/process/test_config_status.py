"""What became of a configuration is reported on the ConfigMap and on our own pod; where it is found in a ConfigMap."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from builders.scheduler_objects import EVICTS
from fakes.faulty_api import FaultyApi, reply, run, until
from muster.kube import Client, Recorder
from muster.model.core import ConfigMap
from muster.model.meta import Object, ObjectMeta
from muster.process import config_sources as sources
from muster.process.config_sources import ConfigContent, ConfigFile, ConfigMapKey, InvalidConfig
from muster.process.config_watcher import CONDITION, ConfigMetrics, ConfigWatcher
from muster.process.logs import Log
from muster.process.own_pod import OwnPod
from muster.scheduler.configuration import LoadedConfig, load_config

POD = "/api/v1/namespaces/home/pods/me"
MAP = "/api/v1/namespaces/home/configmaps/conf"
EVENTS = "/api/v1/namespaces/home/events"
GOOD = ConfigContent("here", EVICTS.encode())
BAD = ConfigContent("here", b"actions: alocate\n")


class Given:
    """A source that finds what it is given."""

    def __init__(self, *found: ConfigContent, of: Object | None = None) -> None:
        self._found = found
        self.object = of

    async def read(self) -> ConfigContent:
        return self._found[0]

    async def watch(self) -> AsyncGenerator[ConfigContent, None]:
        for one in self._found:
            await asyncio.sleep(0.05)
            yield one
        await asyncio.sleep(60)


def me(*conditions: dict[str, str]) -> dict[str, Any]:
    meta = {"name": "me", "namespace": "home", "uid": "u1", "resourceVersion": "7"}
    return {"metadata": meta, "status": {"conditions": list(conditions)}}


def watcher(client: Client, source: Given, recorder: Recorder | None = None) -> ConfigWatcher[LoadedConfig]:
    recorder = recorder or Recorder(client, "muster", "me")
    metrics = ConfigMetrics(CollectorRegistry())
    return ConfigWatcher(source, load_config, OwnPod(client, "home/me"), recorder, metrics, Log(-1))


async def followed(api: FaultyApi, source: Given, written: int) -> list[dict[str, Any]]:
    """The conditions that were written to our pod, in turn."""
    api.plan("POST", EVENTS, reply({}))
    async with api.client() as client:
        recorder = Recorder(client, "muster", "me")
        watching = watcher(client, source, recorder)
        sending = asyncio.create_task(recorder.run())
        working = asyncio.create_task(watching.run(load_config(GOOD), lambda loaded: None))
        await until(lambda: api.count("PATCH", f"{POD}/status") >= written)
        await asyncio.sleep(0.1)
        for task in (working, sending):
            task.cancel()
        await asyncio.gather(working, sending, return_exceptions=True)
    return [one.body["status"]["conditions"][0] for one in api.asked if one.path == f"{POD}/status"]


def test_a_refusal_is_a_condition_of_our_pod_and_an_event_of_it() -> None:
    async def story(api: FaultyApi) -> None:
        api.plan("GET", POD, reply(me()))
        api.plan("PATCH", f"{POD}/status", reply(me()))
        message = await followed(api, Given(GOOD, BAD, GOOD), 3)
        assert [(one["type"], one["status"], one["reason"]) for one in message] == [
            (CONDITION, "True", "ConfigurationUsed"),
            (CONDITION, "False", "ConfigurationRefused"),
            (CONDITION, "True", "ConfigurationUsed"),
        ]
        assert "here:1" in message[1]["message"] and f"version {GOOD.version} stays in use" in message[1]["message"]
        reported = [one.body for one in api.asked if one.path == EVENTS]
        assert [(e["type"], e["reason"], e["involvedObject"]["name"]) for e in reported] == [
            ("Warning", "ConfigurationRefused", "me"), ("Normal", "ConfigurationUsed", "me"),
        ]  # fmt: skip

    run(story)


def test_the_event_is_about_the_configmap_where_there_is_one() -> None:
    async def story(api: FaultyApi) -> None:
        api.plan("GET", POD, reply(me()))
        api.plan("PATCH", f"{POD}/status", reply(me()))
        about = ConfigMap(metadata=ObjectMeta(name="conf", namespace="home", uid="u2"))
        await followed(api, Given(GOOD, BAD, of=about), 2)
        assert [one.body["involvedObject"]["kind"] for one in api.asked if one.path == EVENTS] == ["ConfigMap"]

    run(story)


def test_a_condition_that_stays_keeps_its_time() -> None:
    async def story(api: FaultyApi) -> None:
        old = {"type": CONDITION, "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
        api.plan("GET", POD, reply(me(old)))
        api.plan("PATCH", f"{POD}/status", reply(me(old)))
        same, changed = await followed(api, Given(BAD), 2)
        assert same["lastTransitionTime"] == "2020-01-01T00:00:00Z" < changed["lastTransitionTime"]

    run(story)


def test_a_pod_that_is_not_ours_to_see_stops_nothing() -> None:
    async def story(api: FaultyApi) -> list[LoadedConfig]:
        used: list[LoadedConfig] = []
        other = ConfigContent("here", EVICTS.replace("preempt, ", "").encode())
        async with api.client() as client:
            watching = watcher(client, Given(other))
            task = asyncio.create_task(watching.run(load_config(GOOD), used.append))
            await until(lambda: used)
            task.cancel()
        return used

    assert len(run(story)) == 1


def test_one_that_is_bad_from_the_start_is_reported_before_the_end() -> None:
    async def story(api: FaultyApi) -> str:
        api.plan("GET", POD, reply(me()))
        api.plan("PATCH", f"{POD}/status", reply(me()))
        async with api.client() as client:
            watching = watcher(client, Given(BAD))
            with pytest.raises(InvalidConfig, match="here:1"):
                await watching.first()
        (patched,) = [one.body for one in api.asked if one.method == "PATCH"]
        return str(patched["status"]["conditions"][0]["status"])

    assert run(story) == "False"


# --- where it is found


def config_map(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "conf", "namespace": "home", "uid": "u2", "resourceVersion": "7"}, **fields}


@pytest.mark.parametrize(
    ("place", "fields", "content", "fault"),
    [
        ("home/conf", {"data": {"a.txt": "x", "volcano-scheduler.conf": "y"}}, b"y", ""),
        ("home/conf/a.txt", {"data": {"a.txt": "x", "volcano-scheduler.conf": "y"}}, b"x", ""),
        ("home/conf", {"binaryData": {"b.conf": base64.b64encode(b"\xff").decode()}}, b"\xff", ""),
        ("home/conf/none", {"data": {"b": "x", "a": "x"}}, b"", "has no key none: it has a, b"),
        ("home/conf", {"data": {"a": "x"}}, b"", "no key that ends in .conf"),
        ("home/conf", {}, b"", "it is empty"),
    ],
)
def test_a_key_of_a_configmap(place: str, fields: dict[str, Any], content: bytes, fault: str) -> None:
    async def story(api: FaultyApi) -> ConfigContent:
        api.plan("GET", MAP, reply(config_map(**fields)))
        async with api.client() as client:
            return await ConfigMapKey(client, place, api.report.append).read()

    found = run(story)
    assert found.data == content and fault in found.error and bool(fault) == bool(found.error)
    assert found.source == f"configmap:{place}"


def test_a_configmap_that_is_not_there_is_reported() -> None:
    async def story(api: FaultyApi) -> ConfigContent:
        async with api.client() as client:
            return await ConfigMapKey(client, "home/conf", api.report.append).read()

    assert run(story).error == "there is no such ConfigMap"


def test_a_file_is_looked_at_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "FILE_POLL_PERIOD_S", 0.01)
    path = tmp_path / "scheduler.yaml"

    async def story() -> list[ConfigContent]:
        path.write_text("one")
        changes = ConfigFile(str(path)).watch()
        first = await anext(changes)
        path.write_text("two")
        return [first, await anext(changes)]

    assert [found.data for found in asyncio.run(story())] == [b"one", b"two"]
