"""muster's own scheduler divides pods of kinds that only the ConfigMap names, from the first one on."""

from __future__ import annotations

import time

from builders.manifests import definition
from live.api import Api, Plain, place, until
from live.conftest import HOME, served
from live.group_site import Site, Sited
from live.muster_process import Scheduler
from live.node_groups import (
    BINDING,
    REQUIRED,
    Controllers,
    by_city,
    divided,
    pods,
    policy_path,
    template,
    weights,
    workload,
)

CONFIG = "actions: allocate, backfill\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: propagation}]\n"
KINDS = f"{HOME}/groupmanagement-config"


def define(api: Api) -> Plain:
    """The kind Rollout, and rights on it for the scheduler and the controllers."""
    rollouts = api.create(definition("apps.example.io", "Rollout"))
    may = {"apiGroups": ["apps.example.io"], "resources": ["rollouts"], "verbs": ["get", "list", "watch", "patch"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "rollouts"}}
    api.create({**role, "kind": "ClusterRole", "rules": [may]})
    parts = ("controllers", "scheduler")
    accounts = [{"kind": "ServiceAccount", "name": f"muster-{part}", "namespace": HOME} for part in parts]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "rollouts"}
    api.create({**role, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": accounts})
    until("it to be served", lambda: served(api, "/apis/apps.example.io/v1/rollouts"))
    time.sleep(2)  # the API server holds back creates for two seconds after a rollouts is established
    return rollouts


class TestGroupScheduler(Sited):
    def test_the_kinds_of_the_config_map_are_divided_before_and_after_a_restart(
        self, site: Site, cities: None, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        define(api)
        named = {"name": "groupmanagement-config", "namespace": HOME}
        entry = "applications:\n- {group: apps.example.io, version: v1, kind: Rollout}\n"
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": named, "data": {"config.yaml": entry}}
        api.create(config)
        api.create(weights(namespace, Beijing=2, Hangzhou=3))
        made = template("shop")
        made["spec"]["schedulerName"] = "muster"
        top = api.create({
            "apiVersion": "apps.example.io/v1", "kind": "Rollout",
            "metadata": {"name": "shop", "namespace": namespace, "labels": REQUIRED},
            "spec": {"replicas": 5, "template": made},
        })  # fmt: skip
        until("it to be bound", lambda: BINDING in api.get(place(top))["metadata"]["labels"], 60)
        below = workload("ReplicaSet", namespace, 5, {}, "shop")
        below["spec"]["template"] = made
        owner = {"apiVersion": "apps.example.io/v1", "kind": "Rollout", "name": "shop", "uid": top["metadata"]["uid"]}
        below["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        api.create(below)
        # The pods are there when it starts: it must know the kind before it decides for the first time.
        lease = f"{HOME}/muster-scheduler"
        arguments = ("--applications", KINDS)
        with Scheduler(site.account("scheduler"), *arguments, config=CONFIG, elect=True, lease=lease) as scheduler:
            divided(api, namespace, app="shop", beijing=2, hangzhou=3)
            # Its own Lease says to the controllers that replacements will be placed.
            api.merge(policy_path(namespace), {"spec": weights(namespace, Beijing=1, Hangzhou=0)["spec"]})
            divided(api, namespace, 90, app="shop", beijing=5)
            # A kind that is configured no more is forgotten: its pods go where they like.
            api.delete(place(config))
            until("it to be forgotten", lambda: any("configuration: none" in e["msg"] for e in scheduler.log()), 30)
            api.merge(policy_path(namespace), {"spec": weights(namespace, Nowhere=1)["spec"]})
            api.delete(f"/api/v1/namespaces/{namespace}/pods?labelSelector=app%3Dshop", {"gracePeriodSeconds": 0})
            until("pods again", lambda: sum(by_city(pods(api, namespace, "shop")).values()) == 5, 60)
