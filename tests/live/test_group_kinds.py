"""Node group management of every kind of application, and what may not be done to them."""

from __future__ import annotations

import time

from builders.manifests import definition
from live.api import Api, Plain, place, until
from live.conftest import HOME, served
from live.group_site import Site, Sited
from live.node_groups import (
    BINDING,
    BOTH,
    DOMAIN,
    REQUIRED,
    Controllers,
    Extender,
    all_local,
    by_city,
    divided,
    path,
    pods,
    policy_path,
    ranges,
    reasons,
    registries,
    template,
    thing,
    weights,
    workload,
)


class TestGroupKinds(Sited):
    """Roll-outs, ranges, StatefulSets, DaemonSets, Jobs, CronJobs, kinds that are configured; budgets; overlaps."""

    def test_a_rolling_update_ends_where_it_should(
        self, extender: Extender, controllers: Controllers, api: Api, namespace: str
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
        self, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        api.create(ranges(namespace, Beijing=(1, 2), Hangzhou=(1, 4)))
        api.create(workload("Deployment", namespace, 7, REQUIRED))
        until("6 pods", lambda: by_city(pods(api, namespace)) == {"beijing": 2, "hangzhou": 4})
        time.sleep(2)
        assert by_city(pods(api, namespace)) == {"beijing": 2, "hangzhou": 4}
        assert reasons(api, namespace)["Evicted"] == 0

    def test_a_stateful_set_a_daemon_set_and_a_job_follow_their_policy(
        self, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        api.create(weights(namespace, Beijing=2, Hangzhou=3))
        api.create(weights(namespace, "one", Beijing=1))
        at_once = {"podManagementPolicy": "Parallel", "serviceName": "db"}
        api.create(workload("StatefulSet", namespace, 5, REQUIRED, "db", **at_once))
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

    def test_a_budget_that_forbids_keeps_pods_where_they_are(
        self, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        api.create(weights(namespace, Beijing=3, Hangzhou=2))
        meta = {"name": "all", "namespace": namespace}
        budget = {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta,
            "spec": {"minAvailable": 5, "selector": {"matchLabels": {"app": "nginx"}}},
        }  # fmt: skip
        api.create(budget)
        api.create(workload("Deployment", namespace, 5, REQUIRED))
        before = {p["metadata"]["name"] for p in divided(api, namespace, beijing=3, hangzhou=2)}
        api.merge(policy_path(namespace), {"spec": weights(namespace, Beijing=2, Hangzhou=3)["spec"]})
        time.sleep(4)
        assert {p["metadata"]["name"] for p in pods(api, namespace)} == before
        assert not [p for p in pods(api, namespace) if "muster.io/evicted-by" in p["metadata"].get("annotations", {})]
        assert reasons(api, namespace)["EvictionBlocked"] == 1
        (reported,) = api.get(policy_path(namespace))["status"]["applications"]
        assert "PodDisruptionBudget" in reported["warnings"][0]
        api.delete(place(budget))
        divided(api, namespace, beijing=2, hangzhou=3)

    def test_a_kind_that_the_config_map_names_at_run_time_is_an_application(
        self, site: Site, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        """Its rollouts comes last of all; the owner of the ReplicaSet is then the application."""
        named = {"name": "groupmanagement-config", "namespace": HOME}
        config: Plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named}
        where = "podTemplatePath: spec.run.pods, replicasPath: spec.run.number"
        entry = f"applications:\n- {{group: apps.example.io, version: v1, kind: Rollout, {where}}}\n"
        api.create({**config, "data": {"config.yaml": entry}})
        rollouts = definition("apps.example.io", "Rollout")
        may = {"apiGroups": ["apps.example.io"], "resources": ["rollouts"], "verbs": ["get", "list", "watch", "patch"]}
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "rollouts"}}
        api.create({**role, "kind": "ClusterRole", "rules": [may]})
        accounts = [
            {"kind": "ServiceAccount", "name": f"muster-{part}", "namespace": HOME}
            for part in ("controllers", "extender")
        ]
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rollouts"}
        api.create({**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": accounts})
        time.sleep(0.5)
        api.create(rollouts)
        until("it to be served", lambda: served(api, "/apis/apps.example.io/v1/rollouts"))
        time.sleep(2)
        api.create(weights(namespace, Beijing=2, Hangzhou=3))
        api.create(registries(namespace))
        top = api.create({
            "apiVersion": "apps.example.io/v1", "kind": "Rollout",
            "metadata": {"name": "shop", "namespace": namespace, "labels": BOTH},
            "spec": {"run": {"number": 5, "pods": template("shop")}},
        })  # fmt: skip
        until("it to be bound", lambda: BINDING in api.get(place(top))["metadata"]["labels"])
        below = workload("ReplicaSet", namespace, 5, {}, "shop")
        owner = {"apiVersion": "apps.example.io/v1", "kind": "Rollout", "name": "shop", "uid": top["metadata"]["uid"]}
        below["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        api.create(below)
        divided(api, namespace, app="shop", beijing=2, hangzhou=3)
        all_local(api, namespace, "shop")
        # One that the Rollout makes itself: its edition comes from where podTemplatePath says.
        lone: Plain = {"apiVersion": "v1", "kind": "Pod", **template("shop")}
        own = {"name": "shop-alone", "namespace": namespace, "ownerReferences": [{**owner, "controller": True}]}
        lone["metadata"] = {**lone["metadata"], **own}
        lone["spec"]["nodeName"] = next(n["metadata"]["name"] for n in api.list("/api/v1/nodes"))
        alone = place(api.create(lone))
        all_local(api, namespace, "shop")
        api.delete(alone)
        api.merge(place(config), {"data": {"config.yaml": "applications: [{kind: 7}]"}})
        until("the report", lambda: reasons(api, HOME)["BadConfiguration"] >= 1)
        api.merge(policy_path(namespace), {"spec": weights(namespace, Beijing=3, Hangzhou=2)["spec"]})
        divided(api, namespace, app="shop", beijing=3, hangzhou=2)
        api.delete(place(config))
        until("it to be forgotten", lambda: any("by configuration: none" in e["msg"] for e in controllers.log()))
        api.delete(place(rollouts))

    def test_a_cron_jobs_pods_are_divided_job_by_job(
        self, extender: Extender, controllers: Controllers, api: Api, namespace: str
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
        self, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        everywhere = [n["metadata"]["name"] for n in api.list("/api/v1/nodes")]
        group = api.create(thing("NodeGroup", "everywhere", spec={"nodes": everywhere}))
        try:
            api.create(weights(namespace, Beijing=1, everywhere=1))
            api.create(workload("Deployment", namespace, 6, REQUIRED))
            divided(api, namespace, beijing=3, hangzhou=3)
        finally:
            api.delete(place(group))
