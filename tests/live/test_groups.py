"""Node group management on a real control plane: kube-scheduler asks the extender, the controllers do the rest."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from live.api import Api, Plain, Refused, place, until
from live.conftest import HOME, MakeNodes, served
from live.controlplane import ControlPlane
from live.node_groups import (
    BINDING,
    BOTH,
    DOMAIN,
    LEASE,
    REQUIRED,
    Controllers,
    Extender,
    Watcher,
    by_city,
    city_of,
    divided,
    path,
    pods,
    policy_path,
    ranges,
    reasons,
    registries,
    satisfied,
    template,
    thing,
    weights,
    workload,
)
from live.part_process import free_port
from muster.cli import main
from muster.cli.install import PARTS, Settings, installation
from muster.config.default import DEFAULT
from muster.model.crd import OURS

pytestmark = pytest.mark.usefixtures("crds")


@dataclass
class Site:
    """A control plane whose kube-scheduler asks an extender on that port."""

    plane: ControlPlane
    port: int

    def account(self, part: str) -> Path:
        return self.plane.kubeconfig_of(HOME, f"muster-{part}")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    port = free_port()
    with ControlPlane(extender=f"http://127.0.0.1:{port}") as plane:
        yield Site(plane, port)


@pytest.fixture(scope="module")
def control_plane(site: Site) -> ControlPlane:
    return site.plane


@pytest.fixture(scope="module")
def api(site: Site) -> Api:
    return site.plane.api


@pytest.fixture(scope="module")
def crds(api: Api) -> None:
    for definition in OURS:
        api.apply(definition.plain())
        path_ = f"/apis/{definition.api_version}/{definition.plural}"
        until(f"{path_} to be served", lambda path_=path_: served(api, path_))
    for one in installation(Settings(HOME, "muster:test", DEFAULT), list(PARTS.values())):
        if one["kind"] in ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"):
            api.apply(one)
    time.sleep(2)


@pytest.fixture
def cities(api: Api, make_nodes: MakeNodes) -> Iterator[None]:
    """The design's two groups: hangzhou with two nodes, beijing with three."""
    made = []
    for city, count in (("hangzhou", 2), ("beijing", 3)):
        make_nodes(count, prefix=f"{city}-", labels={"location": city}, resources={"pods": "500", "cpu": "64"})
        made.append(api.create(thing("NodeGroup", city, spec={"matchLabels": {"location": city}})))
    yield
    for group in made:
        with suppress(Refused):  # gone already, or gone at once
            api.delete(place(group))
            api.merge(place(group), {"metadata": {"finalizers": None}})


@pytest.fixture
def extender(site: Site, cities: None) -> Iterator[Extender]:
    with Extender(site.account("extender"), site.port, HOME) as part:
        yield part


@pytest.fixture
def controllers(site: Site, cities: None) -> Iterator[Controllers]:
    with Controllers(site.account("controllers"), HOME) as part:
        yield part


def test_the_designs_own_example(extender: Extender, controllers: Controllers, api: Api, namespace: str) -> None:
    """Five replicas are spread 3:2, then the policy wants 2:3; every image is the city's own afterwards."""
    api.create(workload("Deployment", namespace, 5, {}))
    until("5 pods", lambda: len([p for p in pods(api, namespace) if p["status"]["phase"] == "Running"]) == 5)
    # As in the design: 3 in Beijing, 2 in Hangzhou to begin with.
    api.create(weights(namespace, Beijing=3, Hangzhou=2))
    api.merge(path(namespace), {"metadata": {"labels": BOTH}})
    divided(api, namespace, beijing=3, hangzhou=2)
    api.create(registries(namespace))
    api.merge(policy_path(namespace), {"spec": weights(namespace, Beijing=2, Hangzhou=3)["spec"]})
    divided(api, namespace, beijing=2, hangzhou=3)

    def local(pod: Plain) -> bool:
        return bool(pod["spec"]["containers"][0]["image"] == f"{city_of(pod)}.registry.io/nginx:1.14")

    until("all images", lambda: all(local(pod) for pod in pods(api, namespace)))
    until("satisfied", lambda: satisfied(api, namespace) and satisfied(api, namespace, "overridepolicies", "op"))
    labels = api.get(path(namespace))["metadata"]["labels"]
    assert labels[BINDING] == "pp" and labels[f"{DOMAIN}/binding-overridepolicy"] == "op"
    said = reasons(api, namespace)
    assert said["GroupNameCase"] >= 2 and said["Bound"] == 2 and said["Evicted"] >= 1
    status = api.get(policy_path(namespace))["status"]["applications"][0]
    assert {g["name"]: (g["desired"], g["current"], g["ready"]) for g in status["groups"]} == {
        "beijing": (2, 2, 2), "hangzhou": (3, 3, 3),
    }  # fmt: skip


def test_policies_may_come_first_and_pods_then_start_where_they_belong(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    api.create(registries(namespace))
    api.create(workload("Deployment", namespace, 5, BOTH))
    divided(api, namespace, beijing=2, hangzhou=3)
    assert reasons(api, namespace)["Evicted"] == 0


def test_labels_may_come_before_policies_and_groups(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(workload("Deployment", namespace, 5, BOTH))
    until("5 pods", lambda: len(pods(api, namespace)) == 5)
    time.sleep(1)
    assert by_city(pods(api, namespace)) == {}
    api.create(registries(namespace))
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    divided(api, namespace, beijing=2, hangzhou=3)


def test_a_changed_number_needs_no_evictions_either_way(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    """Seats are deletion costs: the real ReplicaSet controller takes those that the division of the rest lacks."""
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    api.create(workload("Deployment", namespace, 10, REQUIRED))
    divided(api, namespace, beijing=4, hangzhou=6)
    for replicas, beijing, hangzhou in ((5, 2, 3), (9, 4, 5), (3, 1, 2), (1, 0, 1), (6, 2, 4)):
        until("seats", lambda: all(f"{DOMAIN}/seat" in p["metadata"]["annotations"] for p in pods(api, namespace)))
        api.merge(path(namespace), {"spec": {"replicas": replicas}})
        divided(api, namespace, beijing=beijing, hangzhou=hangzhou)
    assert reasons(api, namespace)["Evicted"] == 0


def test_a_node_that_moves_to_another_group_takes_its_share_along(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(weights(namespace, Beijing=1, Hangzhou=1))
    api.create(workload("Deployment", namespace, 6, REQUIRED))
    found = divided(api, namespace, beijing=3, hangzhou=3)
    moved = next(pod["spec"]["nodeName"] for pod in found if city_of(pod) == "beijing")
    api.merge(f"/api/v1/nodes/{moved}", {"metadata": {"labels": {"location": "hangzhou"}}})

    def groups() -> dict[str, int]:
        node = {"beijing": "beijing", "hangzhou": "hangzhou"}
        return dict(Counter(
            "hangzhou" if p["spec"].get("nodeName") == moved else node[city_of(p)]
            for p in pods(api, namespace) if p["status"]["phase"] == "Running"
        ))  # fmt: skip

    until("3 and 3 again", lambda: groups() == {"beijing": 3, "hangzhou": 3}, 60)
    label = f"nodegroup.{DOMAIN}/hangzhou"
    until("its label", lambda: label in api.get(f"/api/v1/nodes/{moved}")["metadata"]["labels"])
    assert f"nodegroup.{DOMAIN}/beijing" not in api.get(f"/api/v1/nodes/{moved}")["metadata"]["labels"]
    group = api.get(f"/apis/{DOMAIN}/v1alpha1/nodegroups/hangzhou")
    assert moved in group["status"]["containedNodes"] and group["status"]["nodes"] == 3


def test_a_group_that_is_deleted_leaves_no_label_and_its_share_waits(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    label, path_ = f"nodegroup.{DOMAIN}/beijing", f"/apis/{DOMAIN}/v1alpha1/nodegroups/beijing"
    until("labels", lambda: sum(label in n["metadata"]["labels"] for n in api.list("/api/v1/nodes")) == 3)
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    api.delete(path_)
    until("the group to go", lambda: api.gone(path_))
    assert not any(label in n["metadata"]["labels"] for n in api.list("/api/v1/nodes"))
    api.create(workload("Deployment", namespace, 5, REQUIRED))
    until("3 in hangzhou", lambda: by_city(pods(api, namespace)) == {"hangzhou": 3})
    time.sleep(1)
    assert by_city(pods(api, namespace)) == {"hangzhou": 3}
    api.create(thing("NodeGroup", "beijing", spec={"matchLabels": {"location": "beijing"}}))
    divided(api, namespace, beijing=2, hangzhou=3)


def test_an_extender_that_is_killed_in_a_burst_never_lets_a_group_have_too_many(
    site: Site, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    seen = Watcher(site.plane, namespace)
    with Extender(site.account("extender"), site.port, HOME) as extender, seen:
        api.create(workload("Deployment", namespace, 500, REQUIRED))
        for share in (60, 180, 320):
            until(f"{share} on nodes", lambda share=share: sum(by_city(pods(api, namespace)).values()) >= share, 120)
            extender.kill()
            extender.start()
        divided(api, namespace, 180, beijing=200, hangzhou=300)
    assert seen.most == {"beijing": 200, "hangzhou": 300}
    assert reasons(api, namespace)["Evicted"] == 0


def test_of_two_extenders_one_answers_and_the_other_takes_over(
    site: Site, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    lease = ("--lease-name", f"{HOME}/muster-extender", *LEASE)
    with Extender(site.account("extender"), site.port, HOME, *lease) as first:
        second = Extender(site.account("extender"), free_port(), HOME, *lease)
        second.begin()
        try:
            until("it to be known", lambda: "another replica" in second.probe("/readyz")[1])
            first.stop()
            until("the other one", lambda: second.probe("/readyz")[0] == 200)
        finally:
            second.stop()
        first.start()
        api.create(workload("Deployment", namespace, 5, REQUIRED))
        divided(api, namespace, beijing=2, hangzhou=3)


def test_before_it_has_read_the_cluster_pods_without_a_policy_are_let_through(
    site: Site, cities: None, api: Api, namespace: str
) -> None:
    """The Lease is held by nobody who answers: the extender cannot count, and says so only where it would have to."""
    lease = ("--lease-name", f"{HOME}/muster-extender", "--lease-duration", "60", "--lease-renew-deadline", "50")
    holder = Extender(site.account("extender"), free_port(), HOME, *lease)
    holder.start()
    try:
        with Extender(site.account("extender"), site.port, HOME, *lease, wait=False):
            api.create(weights(namespace, Beijing=2, Hangzhou=3))
            bound = {**REQUIRED, BINDING: "pp"}
            api.create(workload("Deployment", namespace, 2, {}, "free"))
            api.create(workload("Deployment", namespace, 2, bound))
            until("2 free pods", lambda: sum(by_city(pods(api, namespace, "free")).values()) == 2)
            time.sleep(1)
            assert by_city(pods(api, namespace)) == {}
    finally:
        holder.stop()


def test_a_rolling_update_ends_where_it_should(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    api.create(workload("Deployment", namespace, 5, REQUIRED, strategy=strategy))
    divided(api, namespace, beijing=2, hangzhou=3)
    api.merge(path(namespace), {"spec": {"template": template("nginx", "nginx:1.15")}})

    def rolled() -> bool:
        return {p["spec"]["containers"][0]["image"] for p in pods(api, namespace)} == {"nginx:1.15"}

    until("the new image everywhere", rolled, 60)
    divided(api, namespace, beijing=2, hangzhou=3)


def test_ranges_are_kept_and_nobody_is_evicted_inside_them(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(ranges(namespace, Beijing=(1, 2), Hangzhou=(1, 4)))
    api.create(workload("Deployment", namespace, 7, REQUIRED))
    until("6 pods", lambda: by_city(pods(api, namespace)) == {"beijing": 2, "hangzhou": 4})
    time.sleep(2)
    assert by_city(pods(api, namespace)) == {"beijing": 2, "hangzhou": 4}
    assert reasons(api, namespace)["Evicted"] == 0


def test_a_stateful_set_a_daemon_set_and_a_job_are_held_to_their_policy(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    api.create(weights(namespace, "one", Beijing=1))
    api.create(workload("StatefulSet", namespace, 5, REQUIRED, "db", podManagementPolicy="Parallel", serviceName="db"))
    one = {f"{DOMAIN}/required-propagationpolicy": "one"}
    agent = workload("DaemonSet", namespace, 0, one, "agent")
    del agent["spec"]["replicas"]
    api.create(agent)
    meta = {"name": "job", "namespace": namespace, "labels": REQUIRED}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta}
    made = template("job")
    made["spec"]["restartPolicy"] = "Never"
    api.create({**job, "spec": {"parallelism": 5, "completions": 5, "template": made}})
    divided(api, namespace, app="db", beijing=2, hangzhou=3)
    divided(api, namespace, app="job", beijing=2, hangzhou=3)
    until("agents", lambda: by_city(pods(api, namespace, "agent")) == {"beijing": 3})
    time.sleep(1)
    assert by_city(pods(api, namespace, "agent")) == {"beijing": 3}


def test_a_dry_run_and_a_plan_say_what_would_happen_and_nothing_does(
    site: Site, extender: Extender, api: Api, namespace: str, tmp_path: Path
) -> None:
    api.create(weights(namespace, Beijing=3, Hangzhou=2))
    with Controllers(site.account("controllers"), HOME):
        api.create(workload("Deployment", namespace, 5, REQUIRED))
        before = {p["metadata"]["name"] for p in divided(api, namespace, beijing=3, hangzhou=2)}
    wanted = weights(namespace, Beijing=2, Hangzhou=3)
    (tmp_path / "pp.json").write_text(json.dumps(wanted))
    (tmp_path / "op.json").write_text(json.dumps(registries(namespace)))
    asked = ["controllers", "plan", "--kubeconfig", str(site.plane.kubeconfig), "-f", str(tmp_path), "-o", "json"]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.stderr
    steps = [(step["verb"], step["object"]) for step in json.loads(done.stdout)["steps"]]
    assert [verb for verb, name in steps if name.startswith(f"{namespace}/")] == ["evict"]
    api.merge(policy_path(namespace), {"spec": wanted["spec"]})
    with Controllers(site.account("controllers"), HOME, "--dry-run") as dry:
        until("it to be told", lambda: any(e["msg"] == "would evict" for e in dry.log()))
        time.sleep(1)
        assert sum(e["msg"] == "would evict" for e in dry.log()) == 1
    assert {p["metadata"]["name"] for p in pods(api, namespace)} == before
    assert reasons(api, namespace)["Evicted"] == 0


def test_a_budget_that_forbids_keeps_pods_where_they_are(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(weights(namespace, Beijing=3, Hangzhou=2))
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all", "namespace": namespace},
        "spec": {"minAvailable": 5, "selector": {"matchLabels": {"app": "nginx"}}},
    }  # fmt: skip
    api.create(budget)
    api.create(workload("Deployment", namespace, 5, REQUIRED))
    before = {p["metadata"]["name"] for p in divided(api, namespace, beijing=3, hangzhou=2)}
    api.merge(policy_path(namespace), {"spec": weights(namespace, Beijing=2, Hangzhou=3)["spec"]})
    time.sleep(4)
    assert {p["metadata"]["name"] for p in pods(api, namespace)} == before
    api.delete(place(budget))
    divided(api, namespace, beijing=2, hangzhou=3)


def test_a_kind_that_the_config_map_names_at_run_time_is_an_application(
    site: Site, extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    """Its definition comes last of all; the owner of the ReplicaSet is then the application."""
    named = {"name": "groupmanagement-config", "namespace": HOME}
    config: Plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}
    entry = "applications:\n- {group: apps.example.io, version: v1, kind: Rollout}\n"
    api.create({**config, "data": {"config.yaml": entry}})
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "rollouts", "singular": "rollout", "kind": "Rollout", "listKind": "RolloutList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "rollouts.apps.example.io"},
        "spec": {"group": "apps.example.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }  # fmt: skip
    may = {"apiGroups": ["apps.example.io"], "resources": ["rollouts"], "verbs": ["get", "list", "watch", "patch"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "rollouts"}}
    api.create({**role, "kind": "ClusterRole", "rules": [may]})
    accounts = [
        {"kind": "ServiceAccount", "name": f"muster-{part}", "namespace": HOME} for part in ("controllers", "extender")
    ]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rollouts"}
    api.create({**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": accounts})
    time.sleep(0.5)
    api.create(definition)
    until("it to be served", lambda: served(api, "/apis/apps.example.io/v1/rollouts"))
    time.sleep(2)
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    top = api.create({
        "apiVersion": "apps.example.io/v1", "kind": "Rollout",
        "metadata": {"name": "shop", "namespace": namespace, "labels": REQUIRED},
        "spec": {"replicas": 5, "template": template("shop")},
    })  # fmt: skip
    until("it to be bound", lambda: BINDING in api.get(place(top))["metadata"]["labels"])
    below = workload("ReplicaSet", namespace, 5, {}, "shop")
    owner = {"apiVersion": "apps.example.io/v1", "kind": "Rollout", "name": "shop", "uid": top["metadata"]["uid"]}
    below["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    api.create(below)
    divided(api, namespace, app="shop", beijing=2, hangzhou=3)
    api.merge(place(config), {"data": {"config.yaml": "applications: [{kind: 7}]"}})
    until("it to be told", lambda: reasons(api, HOME)["BadConfiguration"] >= 1)
    api.merge(policy_path(namespace), {"spec": weights(namespace, Beijing=3, Hangzhou=2)["spec"]})
    divided(api, namespace, app="shop", beijing=3, hangzhou=2)
    api.delete(place(config))
    until("it to be forgotten", lambda: any("by configuration: none" in e["msg"] for e in controllers.log()))
    api.delete(place(definition))


def test_a_cron_jobs_pods_are_divided_job_by_job(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    api.create(weights(namespace, Beijing=2, Hangzhou=3))
    made = template("nightly")
    made["spec"]["restartPolicy"] = "Never"
    job = {"parallelism": 5, "completions": 5, "template": made}
    meta = {"name": "nightly", "namespace": namespace, "labels": REQUIRED}
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": job}}
    cron = api.create({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta, "spec": spec})
    # What `kubectl create job --from=cronjob/nightly` does.
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": cron["metadata"]["uid"]}
    below = {"name": "nightly-1", "namespace": namespace, "ownerReferences": [{**owner, "controller": True}]}
    api.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": below, "spec": job})
    divided(api, namespace, app="nightly", beijing=2, hangzhou=3)


def test_a_node_in_two_groups_counts_for_the_one_the_policy_names_first(
    extender: Extender, controllers: Controllers, api: Api, namespace: str
) -> None:
    everywhere = [n["metadata"]["name"] for n in api.list("/api/v1/nodes")]
    group = api.create(thing("NodeGroup", "everywhere", spec={"nodes": everywhere}))
    try:
        api.create(weights(namespace, Beijing=1, everywhere=1))
        api.create(workload("Deployment", namespace, 6, REQUIRED))
        divided(api, namespace, beijing=3, hangzhou=3)
    finally:
        api.delete(place(group))


def test_plugins_score_pods_that_follow_no_policy(site: Site, cities: None, api: Api, namespace: str) -> None:
    fit = "resource-strategy-fit, arguments: {resourceStrategyFitWeight: 10, resources: {cpu: {type: MostAllocated}}}"
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        config.write(f"actions: allocate\ntiers:\n- plugins:\n  - {{name: {fit}}}\n")
        config.flush()
        arguments = ("--no-leader-elect", "--plugins", config.name)
        with Extender(site.account("extender"), site.port, HOME, *arguments) as extender:
            busy = next(n["metadata"]["name"] for n in api.list("/api/v1/nodes") if "beijing" in n["metadata"]["name"])
            first = workload("Deployment", namespace, 1, {}, "first")
            asking = {"resources": {"requests": {"cpu": "20"}}}
            first["spec"]["template"]["spec"]["containers"][0] |= asking
            first["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": busy}
            api.create(first)
            until("the first", lambda: sum(by_city(pods(api, namespace, "first")).values()) == 1)
            more = workload("Deployment", namespace, 2, {}, "more")
            more["spec"]["template"]["spec"]["containers"][0] |= {"resources": {"requests": {"cpu": "2"}}}
            api.create(more)
            until("the others", lambda: sum(by_city(pods(api, namespace, "more")).values()) == 2)
            assert {p["spec"]["nodeName"] for p in pods(api, namespace, "more")} == {busy}
            assert extender.metric("muster_extender_requests_total", 'verb="prioritize",code="200"') >= 2
