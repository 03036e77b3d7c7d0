"""`muster webhook` on a real API server: what it makes of pods, what it refuses, and what happens without it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator

import pytest

from live.api import Api, Plain, Refused, place, until
from live.conftest import MakeNodes
from live.controlplane import ControlPlane
from live.part_process import Part, free_port

DOMAIN = "groupmanagement.kubeedge.io"
ASSIGNED, EDITION, ADMITTED = f"{DOMAIN}/nodegroup", f"{DOMAIN}/edition", f"{DOMAIN}/admission"
REGISTERED = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/muster-webhook"
BOUND = {
    f"{DOMAIN}/{word}-{kind}policy": name
    for word in ("required", "binding")
    for kind, name in (("propagation", "pp"), ("override", "op"))
}

pytestmark = pytest.mark.usefixtures("crds")


@pytest.fixture
def webhook(control_plane: ControlPlane, api: Api) -> Iterator[Part]:
    port = free_port()
    part = Part(
        "webhook", control_plane.kubeconfig, "--url", f"https://127.0.0.1:{port}", "--webhook-host", "127.0.0.1",
        "--webhook-port", str(port), "--check-period", "0.5",
    )  # fmt: skip
    with part:
        yield part
    for kind in ("mutating", "validating"):
        api.delete(f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/muster-webhook")


@pytest.fixture
def cities(api: Api, namespace: str, make_nodes: MakeNodes) -> Iterator[str]:
    """The design's two groups with their nodes, and a namespace that has opted in."""
    api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {f"{DOMAIN}/webhook": "enabled"}}})
    made = []
    for city, count in (("hangzhou", 2), ("beijing", 3)):
        make_nodes(count, prefix=f"{city}-", labels={"location": city, f"nodegroup.{DOMAIN}/{city}": ""})
        made.append(api.create(thing("NodeGroup", city, spec={"matchLabels": {"location": city}})))
    yield namespace
    for group in made:
        api.delete(place(group))


def thing(kind: str, name: str, namespace: str = "", **parts: object) -> Plain:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{DOMAIN}/v1alpha1", "kind": kind, "metadata": meta, **parts}


def weights(namespace: str, beijing: int = 2, hangzhou: int = 3) -> Plain:
    entries = [{"nodeGroupNames": ["Beijing"], "weight": beijing}, {"nodeGroupNames": ["Hangzhou"], "weight": hangzhou}]
    spec = {"propagationStrategy": "StaticWeight", "staticWeightList": entries}
    return thing("PropagationPolicy", "pp", namespace, spec=spec)


def editions(namespace: str) -> Plain:
    """The design's registries, and a flag that no running pod could be given."""
    rules = [
        {
            "targetNodeGroup": [city],
            "imageOverrider": [{"component": "Registry", "operator": "replace", "value": registry}],
            "argsOverrider": [{"containerName": "nginx", "operator": "add", "value": ["--city={{nodegroup}}"]}],
        }
        for city, registry in (("Beijing", "beijing.registry.io"), ("Hangzhou", "hangzhou.registry.io"))
    ]
    return thing("OverridePolicy", "op", namespace, spec={"overrideRules": rules})


def deployment(namespace: str, replicas: int, labels: dict[str, str], name: str = "nginx") -> Plain:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "nginx", "image": "nginx:1.14"}], "terminationGracePeriodSeconds": 0},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def pods(api: Api, namespace: str) -> list[Plain]:
    return api.list(f"/api/v1/namespaces/{namespace}/pods")


def running(api: Api, namespace: str, count: int) -> list[Plain]:
    def all_run() -> list[Plain] | None:
        found = [p for p in pods(api, namespace) if p["status"]["phase"] == "Running"]
        return found if len(found) == count else None

    return until(f"{count} pods running", all_run, 40)


def by_city(found: list[Plain]) -> dict[str, int]:
    return dict(Counter(pod["spec"]["nodeName"].rpartition("-")[0] for pod in found))


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
    labels = {label: value for label, value in BOUND.items() if "propagation" in label}
    api.create(deployment(cities, 100, labels))
    found = until("100 pods", lambda: made if len(made := pods(api, cities)) == 100 else None, 60)
    assert Counter(pod["metadata"]["labels"].get(ASSIGNED) for pod in found) == {"beijing": 50, "hangzhou": 50}


def test_a_dry_run_shows_the_change_and_keeps_no_seat(webhook: Part, cities: str, api: Api) -> None:
    api.create(weights(cities))
    time.sleep(0.3)
    labels = {label: value for label, value in BOUND.items() if "propagation" in label}
    pod = deployment(cities, 1, {})["spec"]["template"] | {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {"name": "alone", "namespace": cities, "labels": labels}
    for _ in range(3):
        shown = api.create(pod, dry_run=True)
        assert shown["metadata"]["labels"][ASSIGNED] == "hangzhou"
        terms = shown["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        wanted = {"key": f"nodegroup.{DOMAIN}/hangzhou", "operator": "Exists"}
        assert terms == {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
    assert webhook.metric("muster_webhook_reservations") == 0
    assert pods(api, cities) == []


def test_pods_of_an_unbound_application_wait_and_are_let_go_with_group_and_edition(
    webhook: Part, cities: str, api: Api
) -> None:
    required = {label: value for label, value in BOUND.items() if "required" in label}
    made = api.create(deployment(cities, 5, required))
    waiting = until("5 pods", lambda: found if len(found := pods(api, cities)) == 5 else None)
    assert all(pod["spec"]["schedulingGates"] == [{"name": f"{DOMAIN}/unbound"}] for pod in waiting)
    api.create(weights(cities))
    api.create(editions(cities))
    time.sleep(0.3)
    api.merge(place(made), {"metadata": {"labels": BOUND}})  # what the controllers do
    found = running(api, cities, 5)
    assert by_city(found) == {"beijing": 2, "hangzhou": 3}
    assert {tuple(pod["spec"]["containers"][0]["args"]) for pod in found} == {("--city=beijing",), ("--city=hangzhou",)}


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
    job = {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "namespace": cities},
        "spec": {"template": {"spec": {
            "schedulerName": "muster", "restartPolicy": "Never",
            "containers": [{"name": "m", "image": "m", "resources": {"limits": {"huawei.com/Ascend910": "3"}}}],
        }}},
    }  # fmt: skip
    with pytest.raises(Refused) as three:
        api.create(job)
    assert "3 chips in all, not 1, 2, 4, 8" in three.value.message
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["huawei.com/Ascend910"] = "4"
    api.create(job)


def test_a_queue_that_would_close_a_circle_is_refused(webhook: Part, cities: str, api: Api) -> None:
    made = []
    for name, parent in (("ring-a", "root"), ("ring-b", "ring-a")):
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        made.append(api.create({**queue, "spec": {"parent": parent}}))
    time.sleep(0.5)
    with pytest.raises(Refused) as circle:
        api.merge(place(made[0]), {"spec": {"parent": "ring-b"}})
    assert "goes in a circle" in circle.value.message
    for queue in made:
        api.delete(place(queue))


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
    found = [pod for pod in running(api, cities, 4) if pod["metadata"]["labels"]["app"] == "second"]
    assert Counter(pod["metadata"]["labels"].get(ASSIGNED) for pod in found) == {"beijing": 1, "hangzhou": 1}


def test_a_configuration_that_somebody_changed_is_put_right(webhook: Part, api: Api) -> None:
    hook = api.get(REGISTERED)["webhooks"][0]
    broken = {**hook, "clientConfig": {**hook["clientConfig"], "caBundle": ""}, "failurePolicy": "Fail"}
    api.merge(REGISTERED, {"webhooks": [broken]})
    until("it to be put right", lambda: api.get(REGISTERED)["webhooks"][0]["failurePolicy"] == "Ignore")
    assert api.get(REGISTERED)["webhooks"][0]["clientConfig"]["caBundle"]


def test_certificates_are_renewed_before_they_end_without_a_gap(
    control_plane: ControlPlane, cities: str, api: Api
) -> None:
    port = free_port()
    part = Part(
        "webhook", control_plane.kubeconfig, "--url", f"https://127.0.0.1:{port}", "--webhook-host", "127.0.0.1",
        "--webhook-port", str(port), "--check-period", "0.3", "--certificate-lifetime", "6",
    )  # fmt: skip
    labels = {label: value for label, value in BOUND.items() if "propagation" in label}
    with part:
        api.create(weights(cities))
        for i in range(20):
            time.sleep(0.5)
            pod = deployment(cities, 1, {})["spec"]["template"] | {"apiVersion": "v1", "kind": "Pod"}
            pod["metadata"] = {"name": f"alone-{i}", "namespace": cities, "labels": labels}
            assert ASSIGNED in api.create(pod)["metadata"]["labels"], f"pod {i} was not seen"
        assert sum(1 for entry in part.log() if entry["msg"] == "certificate renewed") >= 2
    for kind in ("mutating", "validating"):
        api.delete(f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/muster-webhook")
