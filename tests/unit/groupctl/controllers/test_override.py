"""OverridePolicyController: running pods get their group's images, and the status reports what cannot be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import pytest

from builders import node_groups as sample
from muster.cluster.memory import MemoryStore, VirtualClock
from muster.groupctl.controllers.editions import MARK
from muster.groupctl.controllers.eviction_queue import EvictionQueue
from muster.groupctl.controllers.override import OverridePolicyController
from muster.groupctl.controllers.policy_controller import OBSERVED
from muster.model.batch import Deployment
from muster.model.core import Pod
from muster.model.groups import OverridePolicy
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store.errors import Invalid

T = TypeVar("T", bound=Object)
BOTH = {sample.REQUIRED: "pp", sample.BINDING: "pp", sample.REQUIRED_OVERRIDE: "op"}


def run(store: MemoryStore) -> int:
    """Runs the controller until it writes nothing more; returns how many runs wrote something."""
    controller = OverridePolicyController(store, EvictionQueue(store))
    return sum(1 for _ in iter(controller.run, False))


def cluster(
    policy: Object, *more: Object, labels: dict[str, str] = BOTH, on: dict[str, int] | None = None
) -> MemoryStore:
    running = sample.pods({"node-a": 2, "node-c": 1} if on is None else on)
    return sample.store_of(
        *sample.nodes(), *sample.groups(), sample.weights(), policy, *sample.deployment(labels), *running, *more
    )


def images(store: MemoryStore) -> dict[str, str]:
    return {key.partition("/")[2]: p.spec.containers[0].image for key, p in store.of(Pod).items()}


def set_ready(store: MemoryStore, name: str, status: str) -> None:
    conditions = [{"type": "Ready", "status": status}]
    store.patch(Pod, f"default/{name}", {"status": {"conditions": conditions}}, status=True)


def satisfied(store: MemoryStore) -> tuple[str, str]:
    conditions = store.get(OverridePolicy, "default/op").status.conditions
    return next((c.status, c.reason) for c in conditions if c.type == "Satisfied")


def test_every_pod_on_a_node_gets_its_groups_registry_one_after_the_other() -> None:
    store = cluster(
        sample.overrides(sample.registry("Beijing"), sample.registry("Hangzhou")), sample.nginx_pod("waits")
    )
    controller = OverridePolicyController(store, EvictionQueue(store))
    controller.run()
    assert sum(1 for image in images(store).values() if "registry" in image) == 1
    while controller.run():
        pass
    assert images(store) == {
        "p-node-a-0": "hangzhou.registry.io/nginx:1.14",
        "p-node-a-1": "hangzhou.registry.io/nginx:1.14",
        "p-node-c-0": "beijing.registry.io/nginx:1.14",
        "waits": "nginx:1.14",
    }
    (reported,) = store.get(OverridePolicy, "default/op").status.applications
    assert (reported.editions, reported.outdated) == ({"beijing": 1, "hangzhou": 2}, 0)
    assert satisfied(store) == ("True", "AsDesired")
    version = store.version
    assert run(store) == 0 and store.version == version


def test_pending_pods_are_tried_again_when_their_application_is_bound_and_only_then() -> None:
    store = cluster(sample.overrides(sample.registry("Hangzhou")), sample.nginx_pod("waits"), on={"node-a": 1})
    run(store)
    mark = store.get(Pod, "default/waits").metadata.labels[OBSERVED]
    assert OBSERVED not in store.get(Pod, "default/p-node-a-0").metadata.labels
    store.patch(OverridePolicy, "default/op", {"spec": {"overrideRules": [sample.registry("Beijing")]}})
    run(store)
    assert store.get(Pod, "default/waits").metadata.labels[OBSERVED] == mark


def test_the_next_pod_waits_until_the_last_one_is_ready_again() -> None:
    store = cluster(sample.overrides(sample.registry("Hangzhou")), on={"node-a": 2})
    controller = OverridePolicyController(store, EvictionQueue(store))
    controller.run()
    (first,) = [name for name, image in images(store).items() if "registry" in image]
    set_ready(store, first, "False")
    for _ in range(3):
        controller.run()
    assert sum(1 for image in images(store).values() if "registry" in image) == 1
    set_ready(store, first, "True")
    controller.run()
    assert sum(1 for image in images(store).values() if "registry" in image) == 2


@pytest.mark.parametrize("value", ['{"x": ' + "[" * 100_000, '{"policy": "op", "spec": 5}', "no"])
def test_a_record_that_somebody_else_wrote_stops_nothing(value: str) -> None:
    store = cluster(sample.overrides(sample.registry("Hangzhou")), on={"node-a": 1})
    run(store)
    (app,) = store.of(Deployment).values()
    without = {"labels": {sample.REQUIRED_OVERRIDE: None}, "annotations": {MARK: value}}
    store.patch(Deployment, key_of(app), {"metadata": without})
    run(store)  # of a controller that has restarted
    assert MARK not in store.get(Deployment, key_of(app)).metadata.annotations


def changed(store: MemoryStore) -> list[str]:
    return sorted(name for name, image in images(store).items() if "registry" in image)


def test_a_tenth_of_the_application_restarts_at_a_time_and_the_next_when_these_are_ready() -> None:
    store = cluster(sample.overrides(sample.registry("Hangzhou")), on={"node-a": 25})
    controller = OverridePolicyController(store, EvictionQueue(store), rest=10.0)
    while controller.run():
        pass
    first = changed(store)
    assert len(first) == 2
    # One kubelet has restarted its pod and counts that; the other is on its way.
    counted = {"status": {"containerStatuses": [{"restartCount": 1}]}}
    store.patch(Pod, f"default/{first[0]}", counted, status=True)
    set_ready(store, first[1], "False")
    while controller.run():
        pass
    assert len(changed(store)) == 3
    set_ready(store, first[1], "True")
    store.patch(Pod, f"default/{first[1]}", counted, status=True)
    while controller.run():
        pass
    assert len(changed(store)) == 4
    # A kubelet that does not count has ten seconds.
    clock = store.clock
    assert isinstance(clock, VirtualClock) and controller.next_time() == clock.now() + 10.0
    clock.advance(clock.now() + 10.0)
    while controller.run():
        pass
    assert len(changed(store)) == 6


def test_adding_is_done_once_however_often_it_is_looked_at() -> None:
    suffix = {"imageOverrider": [{"component": "Tag", "operator": "add", "value": "-x"}]}
    store = cluster(sample.overrides(suffix), on={"node-a": 1})
    run(store)
    run(store)
    assert images(store) == {"p-node-a-0": "nginx:1.14-x"}


def test_a_changed_policy_starts_from_the_template_again() -> None:
    store = cluster(sample.overrides(sample.registry("Hangzhou")), on={"node-a": 1})
    run(store)
    store.update(sample.overrides({**sample.registry("Hangzhou"), "targetNodeGroup": ["beijing"]}))
    run(store)
    assert images(store) == {"p-node-a-0": "nginx:1.14"}


def test_labels_of_an_edition_are_written_and_taken_away() -> None:
    patches = [
        {"path": "/metadata/labels/city", "operator": "add", "value": "{{nodegroup}}"},
        {"path": "/metadata/labels/app", "operator": "remove"},
    ]
    store = cluster(sample.overrides({"plaintext": patches}), on={"node-a": 1})
    run(store)
    assert store.get(Pod, "default/p-node-a-0").metadata.labels == {"city": "hangzhou"}


def test_labels_that_the_api_server_does_not_permit_keep_nothing_else_back() -> None:
    class Guarded(MemoryStore):
        def patch(self, kind: type[T], key: str, merge: Mapping[str, Any], *, status: bool = False) -> T:
            if kind is Pod and "city" in str(merge):
                raise Invalid("PATCH pods", "may not change the labels city", code=422)
            return super().patch(kind, key, merge, status=status)

    label = {"path": "/metadata/labels/city", "operator": "add", "value": "x"}
    store = cluster(sample.overrides({**sample.registry("Hangzhou"), "plaintext": [label]}), on={"node-a": 2})
    store.__class__ = Guarded
    run(store)
    assert set(images(store).values()) == {"hangzhou.registry.io/nginx:1.14"}
    assert satisfied(store) == ("False", "MetadataRefused")


def test_an_edition_that_differs_in_more_needs_a_replacement_and_the_status_reports_it() -> None:
    rule = {"argsOverrider": [{"containerName": "nginx", "operator": "add", "value": ["-v"]}]}
    store = cluster(sample.overrides({**rule, **sample.registry("Hangzhou")}))
    run(store)
    assert images(store)["p-node-a-0"] == "hangzhou.registry.io/nginx:1.14"
    assert satisfied(store) == ("False", "WebhookRequired")


def test_an_edition_that_cannot_be_made_changes_nothing_and_gives_the_reason() -> None:
    rule = {"plaintext": [{"path": "/spec/nodeSelector/x", "operator": "replace", "value": "y"}]}
    store = cluster(sample.overrides({**sample.registry("Hangzhou"), **rule}))
    run(store)
    assert set(images(store).values()) == {"nginx:1.14"}
    conditions = store.get(OverridePolicy, "default/op").status.conditions
    (resolved,) = [c for c in conditions if c.type == "Resolved"]
    assert resolved.status == "False" and "/spec/nodeSelector is not there" in resolved.message


def test_an_edition_that_gains_privileges_is_reported_in_the_status_and_in_an_event() -> None:
    rule = {"plaintext": [{"path": "/spec/containers/0/securityContext", "operator": "add", "value": {"runAsUser": 0}}]}
    store = cluster(sample.overrides({**sample.registry("Hangzhou"), **rule}))
    run(store)
    assert set(images(store).values()) == {"nginx:1.14"}
    conditions = store.get(OverridePolicy, "default/op").status.conditions
    text = "container nginx: Running as Non-root user: runAsUser is 0 (spec.overrideRules[0].plaintext[0])"
    (resolved,) = [c for c in conditions if c.type == "Resolved"]
    assert resolved.status == "False" and text in resolved.message
    (event,) = [note.message for note in store.events if text in note.message]
    assert event.startswith("Deployment nginx: the edition must not gain privileges over its template")


def test_a_policy_that_cannot_be_used_is_not_bound() -> None:
    empty = {"imageOverrider": [{"component": "Registry", "operator": "replace", "value": ""}]}
    store = cluster(sample.overrides(empty))
    run(store)
    assert sample.BINDING_OVERRIDE not in store.get(Deployment, "default/nginx").metadata.labels
    assert set(images(store).values()) == {"nginx:1.14"}
    assert "must not be empty" in next(n.message for n in store.events if n.reason == "PolicyInvalid")


def test_without_a_propagation_policy_all_groups_of_the_node_count() -> None:
    rules = [
        {"targetNodeGroup": [name], "imageOverrider": [{"component": "Tag", "operator": "add", "value": f"-{name}"}]}
        for name in ("arm", "hangzhou")
    ]
    store = cluster(
        sample.overrides(*rules),
        sample.node_group("arm", "node-a"),
        labels={sample.REQUIRED_OVERRIDE: "op"},
        on={"node-a": 1},
    )
    run(store)
    assert images(store) == {"p-node-a-0": "nginx:1.14-arm-hangzhou"}
    assert store.get(Deployment, "default/nginx").metadata.labels[sample.BINDING_OVERRIDE] == "op"
