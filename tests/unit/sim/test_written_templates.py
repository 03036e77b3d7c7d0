"""Overrides of fields that the model has not, in the simulator: the template counts as it is written."""

from __future__ import annotations

import pytest

from muster.cluster.embedded import EmbeddedCluster
from muster.cluster.manifests import read
from muster.model.groups import OverridePolicy
from muster.sim.group_controllers import GroupControllers

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n, labels: {location: here}}
status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
---
apiVersion: groupmanagement.kubeedge.io/v1alpha1
kind: NodeGroup
metadata: {name: here}
spec: {matchLabels: {location: here}}
---
apiVersion: groupmanagement.kubeedge.io/v1alpha1
kind: PropagationPolicy
metadata: {name: pp}
spec: {staticWeightList: [{nodeGroupNames: [here], weight: 1}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: groupmanagement-config}
data:
  config.yaml: |
    applications: [{group: shop.example.io, version: v1, kind: Shop, podTemplatePath: spec.run.pods}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels:
    groupmanagement.kubeedge.io/required-propagationpolicy: pp
    groupmanagement.kubeedge.io/required-overridepolicy: op
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: n
      dnsConfig: {searches: [a.local]}
      containers: [{name: web, image: "web:1", lifecycle: {preStop: {sleep: {seconds: 5}}}}]
---
apiVersion: shop.example.io/v1
kind: Shop
metadata:
  name: shop
  labels:
    groupmanagement.kubeedge.io/required-propagationpolicy: pp
    groupmanagement.kubeedge.io/required-overridepolicy: op
spec:
  replicas: 1
  run:
    pods:
      metadata: {labels: {app: web}}
      spec:
        nodeName: n
        dnsConfig: {searches: [a.local]}
        containers: [{name: web, image: "web:1", lifecycle: {preStop: {sleep: {seconds: 5}}}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: shop-0
  ownerReferences: [{apiVersion: shop.example.io/v1, kind: Shop, name: shop, controller: true}]
spec:
  nodeName: n
  containers: [{name: web, image: "web:1"}]
status: {phase: Running}
---
apiVersion: groupmanagement.kubeedge.io/v1alpha1
kind: OverridePolicy
metadata: {name: op}
spec:
  overrideRules:
  - plaintext:
    - PATCH
"""


@pytest.mark.parametrize(
    ("patch", "outdated"),
    [
        ('{path: /spec/dnsConfig/searches/-, operator: add, value: "b"}', {"shop": 1, "web": 1}),
        ("{path: /spec/containers/0/lifecycle/preStop/sleep/seconds, operator: replace, value: 7}",
         {"shop": 1, "web": 1}),
        # A path in the Shop is none in a Deployment: that one is not bound.
        ("{path: /spec/run/pods/spec/containers/0/lifecycle, operator: replace, value: {stopSignal: TERM}}",
         {"shop": 1}),
        ("{path: /spec/containers/0/lifecycle/postStart/sleep, operator: remove}", None),
        ("{path: /spec/other/pods/spec/dnsConfig, operator: remove}", None),
    ],
)  # fmt: skip
def test_paths_that_the_model_does_not_know_lead_where_they_are_written(
    patch: str, outdated: dict[str, int] | None
) -> None:
    manifests = read([("cluster.yaml", CLUSTER.replace("PATCH", patch).encode())])
    assert not [f for f in manifests.findings if f.severity == "error"]
    cluster = EmbeddedCluster(manifests.objects, 1000.0)
    cluster.join(GroupControllers(cluster))
    for _ in range(20):
        cluster.step()
    status = cluster.store.get(OverridePolicy, "default/op").status
    reported = {c.type: (c.status, c.reason) for c in status.conditions}
    if outdated is None:
        assert reported["Resolved"] == ("False", "Invalid")
    else:
        assert reported == {"Resolved": ("True", "RulesUsable"), "Satisfied": ("False", "WebhookRequired")}
        assert {app.name.partition(".")[0]: app.outdated for app in status.applications} == outdated
