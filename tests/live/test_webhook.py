"""`muster webhook` on a real API server: what it makes of pods, what it refuses, and what happens without it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from builders.manifests import definition, group, queue
from live.accounts import account_in, let_read
from live.api import Api, Plain, Refused, place, until
from live.conftest import MakeNodes, served
from live.controlplane import ControlPlane
from live.node_groups import template
from live.part_process import Part, free_port
from live.second_webhook import SecondWebhook
from live.webhook_site import (
    ADMITTED,
    ASSIGNED,
    BOUND,
    DIVIDED,
    DOMAIN,
    EDITION,
    REGISTERED,
    alone,
    by_city,
    deployment,
    editions,
    groups,
    made,
    pods,
    ranges,
    running,
    thing,
    two_cities,
    unregister,
    webhook_part,
    weights,
)

pytestmark = pytest.mark.usefixtures("crds")


@pytest.fixture
def webhook(control_plane: ControlPlane, api: Api, namespace: str) -> Iterator[Part]:
    with webhook_part(account_in(control_plane, namespace, "webhook"), namespace, free_port()) as part:
        yield part
    unregister(api)


@pytest.fixture
def cities(api: Api, namespace: str, make_nodes: MakeNodes) -> Iterator[str]:
    with two_cities(api, namespace, make_nodes, hangzhou=2, beijing=3) as there:
        yield there


def test_every_pod_is_made_for_its_group_and_runs_there_in_its_edition(webhook: Part, cities: str, api: Api) -> None:
    api.create(weights(cities))
    api.create(editions(cities))
    time.sleep(0.3)
    api.create(deployment(cities, 10, BOUND))
    found = running(api, cities, 10)
    assert by_city(found) == {"beijing": 4, "hangzhou": 6}
    for pod in found:
        city = pod["spec"]["nodeName"].rpartition("-")[0]
        container = pod["spec"]["containers"][0]
        assert pod["metadata"]["labels"][ASSIGNED] == city
        assert container["image"] == f"{city}.registry.io/nginx:1.14"
        assert container["args"] == [f"--city={city}"]
        assert pod["metadata"]["annotations"][EDITION].startswith(f"op@1/{city}/")
    assert len({pod["metadata"]["annotations"][ADMITTED] for pod in found}) == 10
    until("no reservations left", lambda: webhook.metric("muster_webhook_reservations") == 0)
    assert webhook.metric("muster_webhook_requests_total", 'path="mutate",result="patched"') >= 10


def test_a_burst_never_gives_a_group_more_than_its_number(webhook: Part, cities: str, api: Api) -> None:
    api.create(weights(cities, 1, 1))
    time.sleep(0.3)
    api.create(deployment(cities, 100, DIVIDED))
    assert groups(made(api, cities, 100)) == {"beijing": 50, "hangzhou": 50}


def test_a_dry_run_shows_the_change_and_takes_no_slot(
    webhook: Part, cities: str, control_plane: ControlPlane, api: Api
) -> None:
    api.create(weights(cities))
    time.sleep(0.3)
    pod = alone(cities, "alone", DIVIDED)
    for _ in range(3):
        shown = api.create(pod, dry_run=True)
        assert shown["metadata"]["labels"][ASSIGNED] == "hangzhou"
        terms = shown["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        wanted = {"key": f"nodegroup.{DOMAIN}/hangzhou", "operator": "Exists"}
        assert terms == {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    message = control_plane.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", given=json.dumps(pod))
    assert message.returncode == 0, message.stderr
    assert json.loads(message.stdout)["metadata"]["labels"][ASSIGNED] == "hangzhou"
    assert webhook.metric("muster_webhook_reservations") == 0
    assert pods(api, cities) == []


def test_another_webhook_that_changes_the_pod_later_does_not_make_its_edition_twice(
    webhook: Part, cities: str, api: Api
) -> None:
    """The API server asks a second time when a webhook after ours has changed the pod."""
    api.create(weights(cities))
    api.create(editions(cities))
    time.sleep(0.3)
    with SecondWebhook(api, cities) as second:
        api.create(deployment(cities, 2, BOUND))
        found = running(api, cities, 2)
        assert second.asked == 2
    for pod in found:
        names = [container["name"] for container in pod["spec"]["containers"]]
        assert names == ["nginx", "sidecar"]
        assert len(pod["spec"]["containers"][0]["args"]) == 1
    assert groups(found) == {"beijing": 1, "hangzhou": 1}
    assert webhook.metric("muster_webhook_requests_total", 'path="mutate"') == 4
    until("no reservations left", lambda: webhook.metric("muster_webhook_reservations") == 0)


def test_where_no_group_lacks_a_pod_it_is_left_unassigned(webhook: Part, cities: str, api: Api) -> None:
    api.create(ranges(cities, (1, 2), (1, 4)))
    time.sleep(0.3)
    api.create(deployment(cities, 7, DIVIDED))
    assert groups(made(api, cities, 7)) == {"beijing": 2, "hangzhou": 4, None: 1}


def test_pods_of_a_kind_that_the_config_map_names_at_run_time_get_their_group(
    webhook: Part, cities: str, api: Api
) -> None:
    """The kind is defined last of all; by then the webhook has long been running."""
    config: Plain = {"apiVersion": "v1", "kind": "ConfigMap"}
    config["metadata"] = {"name": "groupmanagement-config", "namespace": cities}
    entry = "applications:\n- {group: apps.webhook.example, version: v1, kind: CloneSet}\n"
    let_read(api, cities, "webhook", "apps.webhook.example", "clonesets")
    api.create({**config, "data": {"config.yaml": entry}})
    clone_sets = api.create(definition("apps.webhook.example", "CloneSet"))
    until("it to be served", lambda: served(api, "/apis/apps.webhook.example/v1/clonesets"))
    time.sleep(2)
    api.create(weights(cities))
    try:
        until("it to be followed", lambda: any("CloneSet" in entry["msg"] for entry in webhook.log()), 20)
        top = api.create({
            "apiVersion": "apps.webhook.example/v1", "kind": "CloneSet",
            "metadata": {"name": "shop", "namespace": cities, "labels": DIVIDED},
            "spec": {"replicas": 5, "template": template("shop")},
        })  # fmt: skip
        owner = {"apiVersion": "apps.webhook.example/v1", "kind": "CloneSet", "name": "shop", "controller": True}
        owner["uid"] = top["metadata"]["uid"]
        for i in range(6):
            pod = alone(cities, f"shop-{i}", {"app": "shop"})
            pod["metadata"]["ownerReferences"] = [owner]
            api.create(pod)
        assert groups(pods(api, cities, "shop")) == {"beijing": 2, "hangzhou": 3, None: 1}
        stranger = alone(cities, "stranger", {"app": "other"})
        stranger["metadata"]["ownerReferences"] = [{**owner, "apiVersion": "apps.other.example/v1"}]
        assert ASSIGNED not in api.create(stranger)["metadata"]["labels"]
    finally:
        api.delete(place(clone_sets))


def test_pods_of_an_unbound_application_wait_and_are_released_with_group_and_edition(
    webhook: Part, cities: str, api: Api
) -> None:
    required = {label: value for label, value in BOUND.items() if "required" in label}
    top = api.create(deployment(cities, 5, required))
    waiting = made(api, cities, 5)
    assert all(pod["spec"]["schedulingGates"] == [{"name": f"{DOMAIN}/unbound"}] for pod in waiting)
    api.create(weights(cities))
    api.create(editions(cities))
    time.sleep(0.3)
    api.merge(place(top), {"metadata": {"labels": BOUND}})  # what the controllers do
    found = running(api, cities, 5)
    assert by_city(found) == {"beijing": 2, "hangzhou": 3}
    assert {tuple(pod["spec"]["containers"][0]["args"]) for pod in found} == {("--city=beijing",), ("--city=hangzhou",)}


    before = {pod["metadata"]["uid"] for pod in waiting}
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in found)


def test_where_only_images_differ_the_gate_is_taken_away_and_the_pods_stay(
    webhook: Part, cities: str, api: Api
) -> None:
    required = {label: value for label, value in BOUND.items() if "required" in label}
    top = api.create(deployment(cities, 5, required))
    before = {pod["metadata"]["uid"] for pod in made(api, cities, 5)}
    api.create(weights(cities))
    api.create(editions(cities, args=False))
    time.sleep(0.3)
    api.merge(place(top), {"metadata": {"labels": BOUND}})
    found = running(api, cities, 5)
    assert by_city(found) == {"beijing": 2, "hangzhou": 3}
    assert {pod["metadata"]["uid"] for pod in found} == before
    for pod in found:
        city = pod["spec"]["nodeName"].rpartition("-")[0]
        assert pod["spec"]["containers"][0]["image"] == f"{city}.registry.io/nginx:1.14"


def test_a_namespace_that_has_not_opted_in_is_left_alone(webhook: Part, cities: str, api: Api) -> None:
    api.merge(f"/api/v1/namespaces/{cities}", {"metadata": {"labels": {f"{DOMAIN}/webhook": None}}})
    api.create(weights(cities))
    api.create(deployment(cities, 2, BOUND))
    for pod in running(api, cities, 2):
        assert ASSIGNED not in pod["metadata"]["labels"]


def test_what_could_never_work_is_refused_with_the_field_and_what_to_do(webhook: Part, cities: str, api: Api) -> None:
    # Each entry is good by itself, so the definition's own rules let it pass.
    ranges = [{"nodeGroupNames": ["beijing"], "min": 3}, {"nodeGroupNames": ["Beijing"], "max": 1}]
    bad = thing("PropagationPolicy", "pp", cities, spec={"propagationStrategy": "NumRange", "numRange": ranges})
    with pytest.raises(Refused) as crossed:
        api.create(bad)
    assert "min 3 is more than max 1 (lower min or raise max)" in crossed.value.message
    assert f'admission webhook "objects.{DOMAIN}" denied' in crossed.value.message
    bad = editions(cities)
    bad["spec"]["overrideRules"][0]["plaintext"] = [{"path": "/spec/replicas", "operator": "replace", "value": 3}]
    with pytest.raises(Refused) as path:
        api.create(bad)
    assert "not part of the pod" in path.value.message


def test_chips_in_a_number_that_no_board_serves_are_refused(
    webhook: Part, cities: str, api: Api, make_nodes: MakeNodes
) -> None:
    make_nodes(1, prefix="ascend-", resources={"huawei.com/Ascend910": "8"})
    job: Plain = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": cities},
        "spec": {"template": {"spec": {
            "schedulerName": "muster", "restartPolicy": "Never",
            "containers": [{"name": "m", "image": "m", "resources": {"limits": {"huawei.com/Ascend910": "3"}}}],
        }}},
    }  # fmt: skip
    with pytest.raises(Refused) as three:
        api.create(job)
    assert "requests 3 chips, not 1, 2, 4, 8" in three.value.message
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["huawei.com/Ascend910"] = "4"
    api.create(job)


def test_a_queue_that_would_close_a_cycle_is_refused(webhook: Part, cities: str, api: Api) -> None:
    ring = []
    for name, parent in (("ring-a", "root"), ("ring-b", "ring-a")):
        ring.append(api.create(queue(name, parent=parent)))
    time.sleep(0.5)
    with pytest.raises(Refused) as cycle:
        api.merge(place(ring[0]), {"spec": {"parent": "ring-b"}})
    assert "form a cycle" in cycle.value.message
    for one in ring:
        api.delete(place(one))


def test_of_groups_too_what_may_become_valid_is_a_warning_and_what_cannot_is_refused(
    webhook: Part, cities: str, control_plane: ControlPlane, api: Api
) -> None:
    small = api.create(queue("small", capability={"cpu": 4}))

    def message(obj: Plain) -> str:
        done = control_plane.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(obj))
        assert done.returncode == 0, done.stderr
        return done.stderr

    try:
        time.sleep(0.5)
        assert "queue nowhere does not exist" in message(group("g", "nowhere", namespace=cities))
        more = group("g", "small", namespace=cities, minResources={"cpu": 5})
        assert "more than the capability 4 of queue small" in message(more)
        assert message(group("g", "small", namespace=cities, minResources={"cpu": 3})) == ""
        entries = [{"nodeGroupNames": ["nowhere"], "weight": 1}]
        far = thing("PropagationPolicy", "far", cities, spec={"staticWeightList": entries})
        assert "there is no node group nowhere" in message(far)
    finally:
        api.delete(place(small))


def test_without_the_webhook_pods_are_created_as_they_are_and_it_comes_back_by_itself(
    webhook: Part, cities: str, api: Api
) -> None:
    api.create(weights(cities))
    webhook.stop()
    api.create(deployment(cities, 2, BOUND, "first"))
    for pod in running(api, cities, 2):
        assert ASSIGNED not in pod["metadata"]["labels"]
    trusted = api.get(REGISTERED)["webhooks"][0]["clientConfig"]["caBundle"]
    webhook.start()
    assert api.get(REGISTERED)["webhooks"][0]["clientConfig"]["caBundle"] != trusted
    api.create(deployment(cities, 2, BOUND, "second"))
    assert groups(running(api, cities, 2, "second")) == {"beijing": 1, "hangzhou": 1}


def test_a_configuration_that_somebody_changed_is_corrected(webhook: Part, api: Api) -> None:
    hook = api.get(REGISTERED)["webhooks"][0]
    broken = {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": ""}, "failurePolicy": "Fail"}
    api.merge(REGISTERED, {"webhooks": [broken]})
    until("it to be put right", lambda: api.get(REGISTERED)["webhooks"][0]["failurePolicy"] == "Ignore")
    assert api.get(REGISTERED)["webhooks"][0]["clientConfig"]["caBundle"]


def test_certificates_are_renewed_before_they_end_without_a_gap(
    control_plane: ControlPlane, cities: str, api: Api
) -> None:
    arguments = ("--no-leader-elect", "--certificate-lifetime", "6", "--check-period", "0.3")
    part = webhook_part(account_in(control_plane, cities, "webhook"), cities, free_port(), *arguments)
    with part:
        api.create(weights(cities))
        for i in range(20):
            time.sleep(0.5)
            reported = api.create(alone(cities, f"alone-{i}", DIVIDED))
            assert ASSIGNED in reported["metadata"]["labels"], f"pod {i} was not seen"
        assert sum(1 for entry in part.log() if entry["msg"] == "certificate renewed") >= 2
    unregister(api)
