"""Node group management on a real control plane: kube-scheduler asks the extender, the controllers do the rest."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from pathlib import Path

from click.testing import CliRunner

from live import node_groups as sample
from live.api import Api, until
from live.conftest import HOME
from live.group_site import Site, Sited
from live.part_process import free_port
from muster.cli import main


class TestGroups(Sited):
    """One Deployment, divided; what changes around it; an extender that comes and goes."""

    def test_the_designs_own_example(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        """Five replicas are spread 3:2, then the policy wants 2:3; every image is the city's own afterwards."""
        api.create(sample.workload("Deployment", namespace, 5, {}))
        until("5 pods", lambda: len([p for p in sample.pods(api, namespace) if p["status"]["phase"] == "Running"]) == 5)
        # As in the design: 3 in Beijing, 2 in Hangzhou to begin with.
        api.create(sample.weights(namespace, Beijing=3, Hangzhou=2))
        api.merge(sample.path(namespace), {"metadata": {"labels": sample.BOTH}})
        sample.divided(api, namespace, beijing=3, hangzhou=2)
        api.create(sample.registries(namespace))
        api.merge(sample.policy_path(namespace), {"spec": sample.weights(namespace, Beijing=2, Hangzhou=3)["spec"]})
        sample.divided(api, namespace, beijing=2, hangzhou=3)

        sample.all_local(api, namespace)
        until(
            "satisfied",
            lambda: sample.satisfied(api, namespace) and sample.satisfied(api, namespace, "overridepolicies", "op"),
        )
        labels = api.get(sample.path(namespace))["metadata"]["labels"]
        assert labels[sample.BINDING] == "pp" and labels[f"{sample.DOMAIN}/binding-overridepolicy"] == "op"
        message = sample.reasons(api, namespace)
        assert message["GroupNameCase"] >= 2 and message["Bound"] == 2 and message["Evicted"] >= 1
        status = api.get(sample.policy_path(namespace))["status"]["applications"][0]
        assert {g["name"]: (g["desired"], g["current"], g["ready"]) for g in status["groups"]} == {
            "beijing": (2, 2, 2), "hangzhou": (3, 3, 3),
        }  # fmt: skip

    def test_policies_may_come_first_and_pods_then_start_where_they_belong(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        api.create(sample.registries(namespace))
        api.create(sample.workload("Deployment", namespace, 5, sample.BOTH))
        sample.divided(api, namespace, beijing=2, hangzhou=3)
        sample.all_local(api, namespace)
        assert sample.reasons(api, namespace)["Evicted"] == 0

    def test_labels_may_come_before_policies_and_groups(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        api.create(sample.workload("Deployment", namespace, 5, sample.BOTH))
        until("5 pods", lambda: len(sample.pods(api, namespace)) == 5)
        time.sleep(1)
        assert sample.by_city(sample.pods(api, namespace)) == {}
        api.create(sample.registries(namespace))
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        sample.divided(api, namespace, beijing=2, hangzhou=3)
        sample.all_local(api, namespace)

    def test_a_changed_number_needs_no_evictions_either_way(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        """The real ReplicaSet controller removes by deletion cost the pods that the division of the rest lacks."""
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        api.create(sample.workload("Deployment", namespace, 10, sample.REQUIRED))
        sample.divided(api, namespace, beijing=4, hangzhou=6)
        for replicas, beijing, hangzhou in ((5, 2, 3), (9, 4, 5), (3, 1, 2), (1, 0, 1), (6, 2, 4)):
            until(
                "seats",
                lambda: all(
                    f"{sample.DOMAIN}/seat" in p["metadata"]["annotations"] for p in sample.pods(api, namespace)
                ),
            )
            api.merge(sample.path(namespace), {"spec": {"replicas": replicas}})
            sample.divided(api, namespace, beijing=beijing, hangzhou=hangzhou)
        assert sample.reasons(api, namespace)["Evicted"] == 0

    def test_a_node_that_moves_to_another_group_takes_its_share_along(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, Beijing=1, Hangzhou=1))
        api.create(sample.workload("Deployment", namespace, 6, sample.REQUIRED))
        found = sample.divided(api, namespace, beijing=3, hangzhou=3)
        moved = next(pod["spec"]["nodeName"] for pod in found if sample.city_of(pod) == "beijing")
        api.merge(f"/api/v1/nodes/{moved}", {"metadata": {"labels": {"location": "hangzhou"}}})

        def groups() -> dict[str, int]:
            node = {"beijing": "beijing", "hangzhou": "hangzhou"}
            return dict(Counter(
                "hangzhou" if p["spec"].get("nodeName") == moved else node[sample.city_of(p)]
                for p in sample.pods(api, namespace) if p["status"]["phase"] == "Running"
            ))  # fmt: skip

        until("3 and 3 again", lambda: groups() == {"beijing": 3, "hangzhou": 3}, 60)
        label = f"nodegroup.{sample.DOMAIN}/hangzhou"
        until("its label", lambda: label in api.get(f"/api/v1/nodes/{moved}")["metadata"]["labels"])
        assert f"nodegroup.{sample.DOMAIN}/beijing" not in api.get(f"/api/v1/nodes/{moved}")["metadata"]["labels"]
        group = api.get(f"/apis/{sample.DOMAIN}/v1alpha1/nodegroups/hangzhou")
        assert moved in group["status"]["containedNodes"] and group["status"]["nodes"] == 3

    def test_a_group_that_is_deleted_leaves_no_label_and_its_share_waits(
        self, extender: sample.Extender, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        label, path_ = f"nodegroup.{sample.DOMAIN}/beijing", f"/apis/{sample.DOMAIN}/v1alpha1/nodegroups/beijing"
        until("labels", lambda: sum(label in n["metadata"]["labels"] for n in api.list("/api/v1/nodes")) == 3)
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        api.delete(path_)
        until("the group to go", lambda: api.gone(path_))
        assert not any(label in n["metadata"]["labels"] for n in api.list("/api/v1/nodes"))
        api.create(sample.workload("Deployment", namespace, 5, sample.REQUIRED))
        until("3 in hangzhou", lambda: sample.by_city(sample.pods(api, namespace)) == {"hangzhou": 3})
        time.sleep(1)
        assert sample.by_city(sample.pods(api, namespace)) == {"hangzhou": 3}
        api.create(sample.thing("NodeGroup", "beijing", spec={"matchLabels": {"location": "beijing"}}))
        sample.divided(api, namespace, beijing=2, hangzhou=3)

    def test_an_extender_that_is_killed_in_a_burst_never_lets_a_group_have_too_many(
        self, site: Site, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        seen = sample.Watcher(site.plane, namespace)
        with sample.Extender(site.account("extender"), site.port, HOME) as extender, seen:
            api.create(sample.workload("Deployment", namespace, 500, sample.REQUIRED))
            for share in (60, 180, 320):
                until(
                    f"{share} on nodes",
                    lambda n=share: sum(sample.by_city(sample.pods(api, namespace)).values()) >= n,
                    120,
                )
                extender.kill()
                extender.start()
            sample.divided(api, namespace, 180, beijing=200, hangzhou=300)
        assert seen.most == {"beijing": 200, "hangzhou": 300}
        assert sample.reasons(api, namespace)["Evicted"] == 0

    def test_of_two_extenders_one_answers_and_the_other_takes_over(
        self, site: Site, controllers: sample.Controllers, api: Api, namespace: str
    ) -> None:
        api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
        lease = ("--lease-name", f"{HOME}/muster-extender", *sample.LEASE)
        with sample.Extender(site.account("extender"), site.port, HOME, *lease) as first:
            second = sample.Extender(site.account("extender"), free_port(), HOME, *lease)
            second.start(wait=False)
            try:
                until("it to be known", lambda: "another replica" in second.probe("/readyz")[1])
                first.stop()
                until("the other one", lambda: second.probe("/readyz")[0] == 200)
            finally:
                second.stop()
            first.start()
            api.create(sample.workload("Deployment", namespace, 5, sample.REQUIRED))
            sample.divided(api, namespace, beijing=2, hangzhou=3)

    def test_before_it_has_read_the_cluster_pods_without_a_policy_are_let_through(
        self, site: Site, cities: None, api: Api, namespace: str
    ) -> None:
        """Another one holds the Lease: the extender cannot count, and says so only where it would have to."""
        lease = ("--lease-name", f"{HOME}/muster-extender", "--lease-duration", "60", "--lease-renew-deadline", "50")
        holder = sample.Extender(site.account("extender"), free_port(), HOME, *lease)
        holder.start()
        try:
            with sample.Extender(site.account("extender"), site.port, HOME, *lease, wait=False):
                api.create(sample.weights(namespace, Beijing=2, Hangzhou=3))
                bound = {**sample.REQUIRED, sample.BINDING: "pp"}
                api.create(sample.workload("Deployment", namespace, 2, {}, "free"))
                api.create(sample.workload("Deployment", namespace, 2, bound))
                until("2 free pods", lambda: sum(sample.by_city(sample.pods(api, namespace, "free")).values()) == 2)
                time.sleep(1)
                assert sample.by_city(sample.pods(api, namespace)) == {}
        finally:
            holder.stop()

    def test_a_dry_run_and_a_plan_say_what_would_happen_and_nothing_does(
        self, site: Site, extender: sample.Extender, api: Api, namespace: str, tmp_path: Path
    ) -> None:
        api.create(sample.weights(namespace, Beijing=3, Hangzhou=2))
        with sample.Controllers(site.account("controllers"), HOME):
            api.create(sample.workload("Deployment", namespace, 5, sample.REQUIRED))
            before = {p["metadata"]["name"] for p in sample.divided(api, namespace, beijing=3, hangzhou=2)}
        wanted = sample.weights(namespace, Beijing=2, Hangzhou=3)
        (tmp_path / "pp.json").write_text(json.dumps(wanted))
        (tmp_path / "op.json").write_text(json.dumps(sample.registries(namespace)))
        asked = ["controllers", "plan", "--kubeconfig", str(site.plane.kubeconfig), "-f", str(tmp_path), "-o", "json"]
        done = CliRunner().invoke(main, asked)
        assert done.exit_code == 0, done.stderr
        steps = [(step["verb"], step["object"]) for step in json.loads(done.stdout)["steps"]]
        assert [verb for verb, name in steps if name.startswith(f"{namespace}/")] == ["evict"]
        api.merge(sample.policy_path(namespace), {"spec": wanted["spec"]})
        with sample.Controllers(site.account("controllers"), HOME, "--dry-run") as dry:
            until("the report", lambda: any(e["msg"] == "would evict" for e in dry.log()))
            time.sleep(1)
            assert sum(e["msg"] == "would evict" for e in dry.log()) == 1
        assert {p["metadata"]["name"] for p in sample.pods(api, namespace)} == before
        assert sample.reasons(api, namespace)["Evicted"] == 0

    def test_plugins_score_pods_that_follow_no_policy(self, site: Site, cities: None, api: Api, namespace: str) -> None:
        arguments = "{resourceStrategyFitWeight: 10, resources: {cpu: {type: MostAllocated}}}"
        fit = f"resource-strategy-fit, arguments: {arguments}"
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            config.write(f"actions: allocate\ntiers:\n- plugins:\n  - {{name: {fit}}}\n")
            config.flush()
            given = ("--no-leader-elect", "--plugins", config.name)
            with sample.Extender(site.account("extender"), site.port, HOME, *given) as extender:
                named = [n["metadata"]["name"] for n in api.list("/api/v1/nodes")]
                busy = next(name for name in named if name.startswith("beijing"))
                first = sample.workload("Deployment", namespace, 1, {}, "first")
                asking = {"resources": {"requests": {"cpu": "20"}}}
                first["spec"]["template"]["spec"]["containers"][0] |= asking
                first["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": busy}
                api.create(first)
                until("the first", lambda: sum(sample.by_city(sample.pods(api, namespace, "first")).values()) == 1)
                more = sample.workload("Deployment", namespace, 2, {}, "more")
                more["spec"]["template"]["spec"]["containers"][0] |= {"resources": {"requests": {"cpu": "2"}}}
                api.create(more)
                until("the others", lambda: sum(sample.by_city(sample.pods(api, namespace, "more")).values()) == 2)
                assert {p["spec"]["nodeName"] for p in sample.pods(api, namespace, "more")} == {busy}
                assert extender.metric("muster_extender_requests_total", 'code="200",verb="prioritize"') >= 2
