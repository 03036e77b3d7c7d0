"""Evictions with a brake: schedulers that do not obey, an extender that is down, fair turns, DaemonSets, restarts."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from live import node_groups as sample
from live.api import Api, Plain, until
from live.conftest import HOME
from live.controlplane import ControlPlane
from live.group_site import Site, Sited
from live.part_process import Part, free_port

FOREIGN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: kubeconfig}
leaderElection: {leaderElect: false}
profiles: [{schedulerName: foreign}]
"""
SHORT = ("--no-leader-elect", "--lease-duration", "4", "--lease-renew-deadline", "2", "--lease-retry-period", "0.5")
AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


class Lenient(ControlPlane):
    """Its kube-scheduler places pods without the extender while that is down."""

    def _kube_scheduler(self) -> list[str]:
        flags = super()._kube_scheduler()
        config = self.folder / "kube-scheduler.yaml"
        text = config.read_text(encoding="utf-8")
        assert "ignorable: false" in text
        config.write_text(text.replace("ignorable: false", "ignorable: true"), encoding="utf-8")
        return flags


@contextmanager
def foreign_scheduler(plane: ControlPlane) -> Iterator[None]:
    """A kube-scheduler for schedulerName foreign, which knows no extender."""
    (plane.folder / "foreign.yaml").write_text(FOREIGN, encoding="utf-8")
    command = [
        str(plane._program), "kube-scheduler", "--config=foreign.yaml", "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}", "--cert-dir=foreign-certificates",
        "--authentication-kubeconfig=kubeconfig", "--authorization-kubeconfig=kubeconfig",
    ]  # fmt: skip
    with (plane.folder / "foreign.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=plane.folder, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def drawn_to_beijing(app: Plain) -> Plain:
    """Whoever is free to choose puts its pods into Beijing."""
    wish = {"matchExpressions": [{"key": "location", "operator": "In", "values": ["beijing"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": wish}]}
    app["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": preferred}
    return app


def condition(api: Api, namespace: str, kind: str = "propagationpolicies", name: str = "pp") -> Plain:
    conditions = api.get(sample.policy_path(namespace, kind, name)).get("status", {}).get("conditions", ())
    return next((c for c in conditions if c["type"] == "Satisfied"), {"status": "", "reason": "", "message": ""})


def uids(api: Api, namespace: str, app: str = "nginx") -> set[str]:
    return {p["metadata"]["uid"] for p in sample.pods(api, namespace, app)}


def agent(namespace: str, policy: str, own: list[Plain] | None = None) -> Plain:
    made = sample.workload("DaemonSet", namespace, 0, {f"{sample.DOMAIN}/required-propagationpolicy": policy}, "agent")
    del made["spec"]["replicas"]
    made["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}
    if own is not None:
        made["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": {AFFINITY: {"nodeSelectorTerms": own}}}
    return made


def terms(api: Api, namespace: str) -> list[Plain] | None:
    spec = api.get(sample.path(namespace, "daemonsets", "agent"))["spec"]["template"]["spec"]
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get(AFFINITY)
    return None if required is None else required["nodeSelectorTerms"]


def rolled_out(api: Api, namespace: str, image: str, count: int) -> bool:
    found = api.get(sample.path(namespace, "daemonsets", "agent"))
    status, seen = found["status"], found["metadata"]["generation"]
    images = [p["spec"]["containers"][0]["image"] for p in sample.pods(api, namespace, "agent")]
    done = (status.get("desiredNumberScheduled"), status.get("updatedNumberScheduled"), status.get("numberReady"))
    return status.get("observedGeneration") == seen and done == (count,) * 3 and images == [image] * count


class TestGroupEvictions(Sited):
    """On a control plane whose kube-scheduler goes on without the extender."""

    plane_class = Lenient

    @pytest.fixture
    def extender(self, site: Site, cities: None) -> Iterator[sample.Extender]:
        with sample.Extender(site.account("extender"), site.port, HOME, *SHORT) as part:
            yield part

    def test_a_scheduler_that_does_not_obey_is_named_and_other_applications_have_their_turn(
        self, site: Site, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        api.create(sample.weights(namespace, "good", Beijing=1, Hangzhou=1))
        with foreign_scheduler(site.plane):
            # First in the order of names, and with capacity for more evictions than all others together.
            storm = drawn_to_beijing(sample.workload("Deployment", namespace, 30, sample.REQUIRED, "aaa"))
            storm["spec"]["template"]["spec"]["schedulerName"] = "foreign"
            api.create(storm)
            good = drawn_to_beijing(sample.workload("Deployment", namespace, 6, {}, "zzz"))
            api.create(good)
            until(
                "all to run",
                lambda: len([p for p in sample.pods(api, namespace, "zzz") if p["spec"].get("nodeName")]) == 6,
            )
            api.merge(
                sample.path(namespace, name="zzz"),
                {"metadata": {"labels": {f"{sample.DOMAIN}/required-propagationpolicy": "good"}}},
            )
            until("the cause", lambda: condition(api, namespace)["reason"] == "WrongGroup", 60)
            sample.divided(api, namespace, 60, "zzz", beijing=3, hangzhou=3)
            reported = condition(api, namespace)
            assert reported["status"] == "False" and "schedulerName foreign" in reported["message"]
            events = [e for e in api.list(f"/api/v1/namespaces/{namespace}/events") if e["reason"] == "Evicted"]
            of_storm = sum(e.get("count", 1) for e in events if e["involvedObject"]["name"] == "aaa")
            assert 1 <= of_storm <= 3  # one batch: a tenth of thirty
            before = uids(api, namespace, "aaa")
            time.sleep(20)
            controllers.stop()
            controllers.start()
            time.sleep(15)  # settled long ago: it must not begin anew
            assert uids(api, namespace, "aaa") == before
            assert controllers.metric("muster_controllers_evictions_paused") == 1
            assert controllers.metric("muster_controllers_placer_alive", 'part="extender"') == 1
            (aaa,) = [a for a in api.get(sample.policy_path(namespace))["status"]["applications"] if a["name"] == "aaa"]
            assert aaa["evictions"]["failures"] == 1 and aaa["evictions"]["reason"] == "WrongGroup"
            assert sample.reasons(api, namespace)["WrongGroup"] == 2  # on the application and on the policy

    def test_while_the_extender_is_down_nothing_is_evicted_for_its_place(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        until(
            "it to be seen", lambda: controllers.metric("muster_controllers_placer_alive", 'part="extender"') == 1, 30
        )
        extender.kill()
        until(
            "its end to be seen", lambda: any("no muster extender is alive" in e["msg"] for e in controllers.log()), 30
        )
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        api.create(drawn_to_beijing(sample.workload("Deployment", namespace, 5, sample.REQUIRED)))
        until("Beijing to have all", lambda: sample.by_city(sample.pods(api, namespace)) == {"beijing": 5})
        until("the report", lambda: condition(api, namespace)["reason"] == "NoExtender", 30)
        assert "schedulerName default-scheduler" in condition(api, namespace)["message"]
        before = uids(api, namespace)
        time.sleep(15)
        assert uids(api, namespace) == before and sample.reasons(api, namespace)["Evicted"] == 0
        extender.start()
        sample.divided(api, namespace, 90, beijing=2, hangzhou=3)
        until("satisfied", lambda: sample.satisfied(api, namespace))
        assert sample.reasons(api, namespace)["Evicted"] == 3

    def test_an_extender_that_dies_in_the_middle_costs_few_evictions(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        until(
            "it to be seen", lambda: controllers.metric("muster_controllers_placer_alive", 'part="extender"') == 1, 30
        )
        api.create(drawn_to_beijing(sample.workload("Deployment", namespace, 20, {})))
        until("Beijing to have all", lambda: sample.by_city(sample.pods(api, namespace)) == {"beijing": 20})
        api.create(sample.weights(namespace, Beijing=1, Hangzhou=3))
        extender.kill()
        api.merge(sample.path(namespace), {"metadata": {"labels": sample.REQUIRED}})
        time.sleep(30)
        assert sample.reasons(api, namespace)["Evicted"] <= 2  # a tenth, before its Lease had run out

    def test_pods_whose_template_names_their_node_are_not_evicted_for_ever(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        fixed = sample.workload("Deployment", namespace, 5, sample.REQUIRED)
        nodes = [n["metadata"]["name"] for n in api.list("/api/v1/nodes")]
        fixed["spec"]["template"]["spec"]["nodeName"] = next(name for name in nodes if name.startswith("beijing"))
        api.create(fixed)
        until("the cause", lambda: condition(api, namespace)["reason"] == "WrongGroup", 60)
        assert "the pod template sets nodeName" in condition(api, namespace)["message"]
        before = uids(api, namespace)
        time.sleep(15)
        assert uids(api, namespace) == before and sample.reasons(api, namespace)["Evicted"] == 1

    def test_an_override_of_the_node_name_is_named_and_does_not_evict_for_ever(
        self, site: Site, extender: sample.Extender, cities: None, api: Api, namespace: str
    ) -> None:
        api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {f"{sample.DOMAIN}/webhook": "enabled"}}})
        port, lease = free_port(), f"{HOME}/muster-webhook"
        where = ("--url", f"https://127.0.0.1:{port}", "--webhook-host", "127.0.0.1", "--webhook-port", str(port))
        privileged = "--allow-privileged-overrides"
        nodes = [n["metadata"]["name"] for n in api.list("/api/v1/nodes")]
        fixed = next(name for name in nodes if name.startswith("beijing"))
        rule = {"overriders": {"plaintext": [{"path": "/spec/nodeName", "operator": "add", "value": fixed}]}}
        with (
            Part("webhook", site.account("webhook"), *where, "--lease-name", lease, privileged) as webhook,
            sample.Controllers(site.account("controllers"), HOME, privileged, "--webhook-lease", lease),
        ):
            until("the webhook", lambda: webhook.probe("/readyz")[0] == 200, 60)
            api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
            api.create(sample.thing("OverridePolicy", "op", namespace, spec={"overrideRules": [rule]}))
            api.create(sample.workload("Deployment", namespace, 5, sample.BOTH))
            until("the cause", lambda: condition(api, namespace)["reason"] == "WrongGroup", 90)
            assert "OverridePolicy op sets nodeName" in condition(api, namespace)["message"]
            before = uids(api, namespace)
            time.sleep(15)
            assert uids(api, namespace) == before
            assert sample.reasons(api, namespace)["Evicted"] == 1

    def test_a_daemon_set_rolls_out_on_the_nodes_of_its_groups(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, "one", Beijing=1))
        api.create(agent(namespace, "one"))
        until("agents", lambda: rolled_out(api, namespace, "nginx:1.14", 3), 60)
        until("satisfied", lambda: sample.satisfied(api, namespace, name="one"), 30)
        (reported,) = api.get(sample.policy_path(namespace, name="one"))["status"]["applications"]
        assert reported["nodeAffinity"] == ["beijing"]
        newer = {"containers": [{"name": "nginx", "image": "nginx:1.15"}]}
        patch = {"spec": {"template": {"spec": newer}}}
        api.merge(sample.path(namespace, "daemonsets", "agent"), patch)
        until("the roll-out", lambda: rolled_out(api, namespace, "nginx:1.15", 3), 60)
        managers = api.get(sample.path(namespace, "daemonsets", "agent"))["metadata"]["managedFields"]
        assert ("muster-daemonset-affinity", "Apply") in {(m["manager"], m["operation"]) for m in managers}
        unlabel = {"metadata": {"labels": {f"{sample.DOMAIN}/required-propagationpolicy": None}}}
        api.merge(sample.path(namespace, "daemonsets", "agent"), unlabel)
        until("agents everywhere", lambda: rolled_out(api, namespace, "nginx:1.15", 5), 60)
        assert terms(api, namespace) is None
        found = api.get(sample.path(namespace, "daemonsets", "agent"))["metadata"]
        assert f"{sample.DOMAIN}/daemonset-affinity" not in found.get("annotations", {})
        assert "muster-daemonset-affinity" not in {m["manager"] for m in found["managedFields"]}

    def test_a_users_own_node_affinity_holds_beside_the_groups_and_comes_back(
        self, site: Site, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        names = sorted(n["metadata"]["name"] for n in api.list("/api/v1/nodes"))
        some = [names[0], names[1], next(name for name in names if name.startswith("hangzhou"))]
        assert [name.partition("-")[0] for name in some] == ["beijing", "beijing", "hangzhou"]
        own = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": some}]}]
        api.create(sample.weights(namespace, "one", Beijing=1))
        made = json.dumps(agent(namespace, "one", own))
        applied = site.plane.kubectl("apply", "--server-side", "-f", "-", given=made)
        assert applied.returncode == 0, applied.stderr
        until("agents", lambda: rolled_out(api, namespace, "nginx:1.14", 2), 60)
        assert {p["spec"]["nodeName"] for p in sample.pods(api, namespace, "agent")} == set(some[:2])
        (reported,) = api.get(sample.policy_path(namespace, name="one"))["status"]["applications"]
        assert "own required node affinity are kept" in reported["nodeAffinityMessage"]
        unlabel = {"metadata": {"labels": {f"{sample.DOMAIN}/required-propagationpolicy": None}}}
        api.merge(sample.path(namespace, "daemonsets", "agent"), unlabel)
        until("its own terms", lambda: terms(api, namespace) == own, 30)
        until("agents", lambda: rolled_out(api, namespace, "nginx:1.14", 3), 60)
        del (plain := json.loads(made))["metadata"]["labels"]
        again = site.plane.kubectl("apply", "--server-side", "-f", "-", given=json.dumps(plain))
        assert again.returncode == 0, again.stderr  # nobody else holds what the user writes

    def test_without_the_affinity_pending_pods_are_not_satisfied(
        self, site: Site, extender: sample.Extender, cities: None, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, "one", Beijing=1))
        with sample.Controllers(site.account("controllers"), HOME, "--daemonset-affinity=false"):
            api.create(agent(namespace, "one"))
            until("the report", lambda: condition(api, namespace, name="one")["reason"] == "Pending", 60)
            assert "is in no node group of PropagationPolicy one" in until(
                "the scheduler's message",
                lambda: "no node group" in (m := condition(api, namespace, name="one")["message"]) and m,
                60,
            )
            assert terms(api, namespace) is None

    def test_images_of_twenty_pods_change_two_by_two(
        self, site: Site, extender: sample.Extender, cities: None, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, Beijing=1, Hangzhou=1))
        api.create(sample.workload("Deployment", namespace, 20, sample.BOTH))
        with sample.Controllers(site.account("controllers"), HOME, "--rest", "30"):
            sample.divided(api, namespace, beijing=10, hangzhou=10)
            began = time.monotonic()
            api.create(sample.registries(namespace))
            sample.all_local(api, namespace)
            # One after the other, thirty seconds apart, would be ten minutes.
            assert time.monotonic() - began < 60

    def test_pods_get_their_template_back_from_controllers_that_were_not_there_when_the_label_went(
        self, site: Site, extender: sample.Extender, cities: None, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        api.create(sample.registries(namespace))
        with sample.Controllers(site.account("controllers"), HOME, "--revert-on-unbind") as controllers:
            api.create(sample.workload("Deployment", namespace, 5, sample.BOTH))
            sample.divided(api, namespace, beijing=2, hangzhou=3)
            sample.all_local(api, namespace)
            controllers.stop()
            api.merge(
                sample.path(namespace), {"metadata": {"labels": {f"{sample.DOMAIN}/required-overridepolicy": None}}}
            )
            api.delete(sample.policy_path(namespace, "overridepolicies", "op"))
            controllers.start()

            def plain() -> bool:
                return all(p["spec"]["containers"][0]["image"] == "nginx:1.14" for p in sample.pods(api, namespace))

            until("the template", plain, 60)
            gone = f"{sample.DOMAIN}/overridden-by"
            until("no note", lambda: gone not in api.get(sample.path(namespace))["metadata"].get("annotations", {}), 30)

    def test_a_pod_that_waits_for_a_group_without_nodes_names_it(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, Beijing=1, Shanghai=1))
        api.create(sample.workload("Deployment", namespace, 4, sample.REQUIRED))
        until("its share", lambda: sample.by_city(sample.pods(api, namespace)) == {"beijing": 2}, 60)

        def reported() -> bool:
            waiting = [p for p in sample.pods(api, namespace) if not p["spec"].get("nodeName")]
            message = [c.get("message", "") for p in waiting for c in p["status"].get("conditions", ())]
            return bool(waiting) and all("node group shanghai, which does not exist" in text for text in message)

        until("the pods to say so", reported, 60)
        until("the policy to say so", lambda: condition(api, namespace)["reason"] == "GroupUnknown", 30)
        assert "wait for node group shanghai, which does not exist" in condition(api, namespace)["message"]
