"""An edition does not gain privileges over its template, whatever override gives them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec
import pytest

from muster.groups.override import OverrideError, edition
from muster.model.groups import OverridePolicySpec

Plain = dict[str, Any]

OURS = "groupmanagement.kubeedge.io"
SAFE: Plain = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
TEMPLATE: Plain = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {
        "containers": [{"name": "web", "image": "nginx:1.25"}, {"name": "side", "image": "side"}],
        "initContainers": [{"name": "init", "image": "init:1"}],
        "volumes": [
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "key", "secret": {"secretName": "db", "items": [{"key": "user", "path": "user"}]}},
            {"name": "logs", "hostPath": {"path": "/var/log"}},
        ],
    },
}
TEMPLATE["spec"]["containers"][0]["volumeMounts"] = [
    {"name": "data", "mountPath": "/data", "readOnly": True},
    {"name": "logs", "mountPath": "/logs", "subPath": "app"},
]
LIMITED = deepcopy(TEMPLATE)
for one in (*LIMITED["spec"]["containers"], *LIMITED["spec"]["initContainers"]):
    one["securityContext"] = deepcopy(SAFE)


def rule(operator: str, path: str, value: Any = None) -> OverridePolicySpec:
    given = {} if operator == "remove" else {"value": value}
    entry = {"path": path, "operator": operator, **given}
    return msgspec.convert({"overrideRules": [{"plaintext": [entry]}]}, OverridePolicySpec)


def refused(template: Plain, operator: str, path: str, value: Any = None) -> str:
    spec = rule(operator, path, value)
    with pytest.raises(OverrideError) as caught:
        edition(spec, ["g"], template)
    text = str(caught.value)
    assert caught.value.path == "spec.overrideRules[0].plaintext[0]"
    assert "(spec.overrideRules[0].plaintext[0])" in text and "--allow-privileged-overrides" in text
    assert edition(spec, ["g"], template, privileged=True).template != template
    return text


def accepted(template: Plain, operator: str, path: str, value: Any = None) -> Plain:
    made = edition(rule(operator, path, value), ["g"], template).template
    assert made != template
    return made


def volume(kind: str, **source: Any) -> Plain:
    return {"name": "more", kind: source}


def token(**source: Any) -> Plain:
    return volume("projected", sources=[{"serviceAccountToken": {"path": "t", **source}}])


def probe(**action: Any) -> Plain:
    return {"httpGet": {"port": 80, **action}}


_WEB, _INIT, _POD = "/spec/containers/0", "/spec/initContainers/0", "/spec"


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        (f"{_POD}/serviceAccountName", "admin", "the pod: Service account: admin in place of default"),
        (f"{_POD}/serviceAccount", "admin", "the pod: Service account: admin in place of default"),
        (f"{_POD}/automountServiceAccountToken", True, "the pod: Service account: automountServiceAccountToken"),
        (f"{_POD}/hostNetwork", True, "the pod: Host Namespaces: hostNetwork"),
        (f"{_POD}/hostPID", True, "the pod: Host Namespaces: hostPID"),
        (f"{_POD}/hostIPC", True, "the pod: Host Namespaces: hostIPC"),
        (f"{_POD}/hostUsers", True, "the pod: User namespace: hostUsers"),
        (f"{_POD}/nodeName", "n1", "the pod: nodeName: n1"),
        (f"{_POD}/schedulerName", "mine", "the pod: schedulerName: mine in place of default-scheduler"),
        (f"{_POD}/runtimeClassName", "open", "the pod: runtimeClassName: open in place of none"),
        (f"{_POD}/schedulingGates", [{"name": f"{OURS}/unbound"}], f"scheduling gate {OURS}/unbound"),
        (f"{_POD}/securityContext", {"runAsUser": 0}, "the pod: Running as Non-root user: runAsUser is 0"),
        (f"{_POD}/securityContext", {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}, "Sysctls: net.ipv4."),
        (f"{_POD}/securityContext", {"windowsOptions": {"hostProcess": True}}, "the pod: HostProcess: hostProcess"),
        (f"{_POD}/securityContext", {"seLinuxOptions": {"role": "sysadm_r"}}, "the pod: SELinux: role sysadm_r"),
        ("/metadata/labels", {"app": "a", f"{OURS}/nodegroup": "g"}, f"Labels of muster: label {OURS}/nodegroup"),
        ("/metadata/labels", {"app": "a", f"nodegroup.{OURS}/g": ""}, f"label nodegroup.{OURS}/g"),
        ("/metadata/annotations", {f"{OURS}/edition": "x"}, f"annotation {OURS}/edition"),
        ("/metadata/annotations", {"muster.io/commit": "x"}, "annotation muster.io/commit"),
        (
            "/metadata/annotations",
            {"container.apparmor.security.beta.kubernetes.io/web": "unconfined"},
            "the pod: AppArmor: annotation container.apparmor.security.beta.kubernetes.io/web: unconfined",
        ),
        (f"{_POD}/volumes/-", volume("hostPath", path="/"), "the pod: HostPath Volumes: volume of type hostPath"),
        (f"{_POD}/volumes/-", volume("nfs", server="s", path="/"), "the pod: Volume Types: volume of type nfs"),
        (f"{_POD}/volumes/-", volume("image", reference="a"), "the pod: Volume Types: volume of type image"),
        (f"{_POD}/volumes/-", volume("secret", secretName="root"), "the pod: References: Secret root"),
        (f"{_POD}/volumes/-", volume("secret", secretName="db"), "the pod: References: Secret db"),
        (f"{_POD}/volumes/-", volume("projected", sources=[{"secret": {"name": "root"}}]), "References: Secret root"),
        (f"{_POD}/volumes/-", token(audience="vault"), "References: projected token for vault"),
        (f"{_POD}/volumes/-", volume("projected", sources=[{"podCertificate": {"signerName": "s"}}]), "certificate s"),
        (f"{_POD}/volumes/-", volume("persistentVolumeClaim", claimName="x"), "References: PersistentVolumeClaim x"),
        (f"{_POD}/volumes/-", volume("ephemeral", volumeClaimTemplate={"spec": {}}), "ephemeral volume claim"),
        (f"{_POD}/volumes/-", volume("csi", driver="d"), 'References: CSI volume {"driver": "d"}'),
        (f"{_POD}/volumes/-", volume("csi", driver="d", nodePublishSecretRef={"name": "s"}), "References: Secret s"),
        (f"{_POD}/volumes/-", {"name": "more", "emptyDir": {}, "hostPath": {"path": "/"}}, "volume of type hostPath"),
        (f"{_WEB}/env", [{"name": "P", "valueFrom": {"secretKeyRef": {"name": "db", "key": "pw"}}}], "db, key pw"),
        (f"{_INIT}/envFrom", [{"secretRef": {"name": "db"}}], "the pod: References: Secret db"),
        (f"{_WEB}/volumeMounts/-", {"name": "data", "mountPath": "/w"}, "writable mount of PersistentVolumeClaim data"),
        (f"{_WEB}/volumeMounts/-", {"name": "logs", "mountPath": "/w"}, "writable mount of hostPath /var/log"),
        (f"{_WEB}/ports", [{"containerPort": 1, "hostPort": 80}], "container web: Host Ports: hostPort *:80/TCP"),
        (f"{_WEB}/livenessProbe", probe(host="10.0.0.1"), "container web: Host Probes / Lifecycle Hooks"),
        (f"{_WEB}/lifecycle", {"preStop": {"tcpSocket": {"port": 1, "host": "h"}}}, "preStop.tcpSocket.host h"),
        (f"{_WEB}/securityContext", {"privileged": True}, "container web: Privileged Containers: privileged"),
        (f"{_WEB}/securityContext", {"procMount": "Unmasked"}, "container web: /proc Mount Type: procMount Unmasked"),
        (f"{_WEB}/securityContext", {"runAsUser": 0}, "container web: Running as Non-root user: runAsUser is 0"),
        (f"{_WEB}/securityContext", {"capabilities": {"add": ["SYS_ADMIN"]}}, "Capabilities: adds SYS_ADMIN"),
        (f"{_WEB}/securityContext", {"capabilities": {"add": ["NET_BIND_SERVICE"]}}, "adds NET_BIND_SERVICE"),
        (f"{_WEB}/securityContext", {"seccompProfile": {"type": "Unconfined"}}, "Seccomp: seccompProfile Unconfined"),
        (f"{_WEB}/securityContext", {"appArmorProfile": {"type": "Unconfined"}}, "appArmorProfile Unconfined"),
        (f"{_INIT}/securityContext", {"seLinuxOptions": {"type": "spc_t"}}, "container init: SELinux: type spc_t"),
        (f"{_INIT}/securityContext", {"windowsOptions": {"hostProcess": True}}, "container init: HostProcess"),
        (f"{_POD}/containers/-", {"name": "n", "image": "n"}, "new container n: Capabilities: does not drop ALL"),
        (f"{_POD}/initContainers/-", {"name": "n", "image": "n"}, "new container n: Privilege Escalation"),
        (f"{_POD}/ephemeralContainers", [{"name": "n", "image": "n"}], "new container n: Seccomp"),
    ],
)  # fmt: skip
def test_what_the_template_has_not_is_refused_with_control_container_and_override(
    path: str, value: Any, text: str
) -> None:
    assert text in refused(TEMPLATE, "add", path, value)


@pytest.mark.parametrize(
    ("operator", "path", "value", "text"),
    [
        ("replace", _WEB, {"name": "other", "image": "nginx"}, "new container other: Capabilities: does not drop ALL"),
        ("remove", f"{_WEB}/securityContext", None, "container web: Capabilities: does not drop ALL"),
        ("remove", f"{_INIT}/securityContext/runAsNonRoot", None, "container init: Running as Non-root"),
        ("remove", f"{_WEB}/securityContext/seccompProfile", None, "container web: Seccomp"),
        ("replace", f"{_WEB}/securityContext/allowPrivilegeEscalation", True, "container web: Privilege Escalation"),
    ],
)
def test_what_limits_the_template_limits_the_edition(operator: str, path: str, value: Any, text: str) -> None:
    assert text in refused(LIMITED, operator, path, value)


def test_an_edition_that_becomes_a_windows_pod_keeps_the_limits_of_its_template() -> None:
    entries = [
        {"path": "/spec/os", "operator": "add", "value": {"name": "windows"}},
        {"path": f"{_WEB}/securityContext/seccompProfile", "operator": "remove"},
    ]
    spec = msgspec.convert({"overrideRules": [{"plaintext": entries}]}, OverridePolicySpec)
    with pytest.raises(OverrideError, match="container web: Seccomp"):
        edition(spec, ["g"], LIMITED)


@pytest.mark.parametrize(
    ("field", "value", "operator", "change"),
    [
        ("runtimeClassName", "gvisor", "remove", None),
        ("serviceAccountName", "few-rights", "remove", None),
        ("hostUsers", False, "remove", None),
        ("automountServiceAccountToken", False, "remove", None),
        ("schedulerName", "muster", "replace", "default-scheduler"),
    ],
)
def test_a_limit_that_is_taken_away_is_a_gain(field: str, value: Any, operator: str, change: Any) -> None:
    limited = deepcopy(TEMPLATE)
    limited["spec"][field] = value
    refused(limited, operator, f"/spec/{field}", change)


def test_a_limit_of_the_pod_that_containers_inherit_stays() -> None:
    limited = deepcopy(TEMPLATE)
    limited["spec"]["securityContext"] = {"runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    text = refused(limited, "remove", "/spec/securityContext")
    for name in ("web", "side", "init"):
        assert f"container {name}: Running as Non-root: may run as root" in text
        assert f"container {name}: Seccomp" in text


def test_a_capability_that_is_dropped_by_name_stays_dropped() -> None:
    limited = deepcopy(TEMPLATE)
    limited["spec"]["containers"][0]["securityContext"] = {"capabilities": {"drop": ["NET_RAW"]}}
    assert "does not drop NET_RAW" in refused(limited, "remove", "/spec/containers/0/securityContext")
    assert accepted(limited, "replace", "/spec/containers/0/securityContext/capabilities/drop", ["ALL"])


def test_an_empty_directory_that_hides_the_token_stays() -> None:
    hidden = deepcopy(TEMPLATE)
    hidden["spec"]["volumes"].append({"name": "none", "emptyDir": {}})
    at = "/var/run/secrets/kubernetes.io/serviceaccount/"
    hidden["spec"]["containers"][1]["volumeMounts"] = [{"name": "none", "mountPath": at}]
    assert "container side: Service account" in refused(hidden, "remove", "/spec/containers/1/volumeMounts/0")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"{_POD}/tolerations", [{"operator": "Exists"}]),
        (f"{_POD}/nodeSelector", {"disk": "ssd"}),
        (f"{_POD}/terminationGracePeriodSeconds", 5),
        (f"{_POD}/priorityClassName", "high"),
        (f"{_POD}/imagePullSecrets", [{"name": "registry"}]),
        (f"{_POD}/hostUsers", False),
        (f"{_POD}/automountServiceAccountToken", False),
        (f"{_POD}/serviceAccountName", "default"),
        (f"{_POD}/schedulerName", "default-scheduler"),
        (f"{_POD}/volumes/-", volume("emptyDir")),
        (f"{_POD}/volumes/-", volume("configMap", name="c")),
        (f"{_POD}/volumes/-", volume("downwardAPI", items=[])),
        (f"{_POD}/volumes/-", volume("secret", secretName="db", items=[{"key": "user", "path": "u"}])),
        (f"{_WEB}/env", [{"name": "U", "valueFrom": {"secretKeyRef": {"name": "db", "key": "user"}}}]),
        (f"{_WEB}/volumeMounts/-", {"name": "logs", "mountPath": "/w", "subPath": "app/x", "readOnly": True}),
        (f"{_WEB}/ports", [{"containerPort": 80}]),
        (f"{_WEB}/livenessProbe", probe()),
        (f"{_WEB}/resources", {"limits": {"cpu": "1"}}),
        (f"{_WEB}/securityContext", SAFE),
        (f"{_POD}/containers/-", {"name": "n", "image": "n", "securityContext": SAFE}),
        ("/metadata/labels/tier", "edge"),
        ("/metadata/annotations", {"example.com/a": "b"}),
    ],
)
def test_other_fields_are_free(path: str, value: Any) -> None:
    accepted(TEMPLATE, "add", path, value)


def test_what_the_template_has_already_may_stay() -> None:
    host = deepcopy(TEMPLATE)
    host["spec"] |= {"hostNetwork": True, "serviceAccountName": "admin", "nodeName": "n"}
    host["spec"]["containers"][0]["securityContext"] = {"privileged": True, "capabilities": {"add": ["SYS_ADMIN"]}}
    assert accepted(host, "replace", "/spec/containers/0/image", "nginx:2")
    at = "/spec/containers/0/securityContext/capabilities/add/-"
    assert "adds NET_ADMIN" in refused(host, "add", at, "NET_ADMIN")


def test_each_gain_names_the_override_that_gave_it() -> None:
    entries = [
        {"path": "/spec/hostPID", "operator": "add", "value": True},
        {"path": "/spec/hostPID", "operator": "remove"},
        {"path": "/spec/nodeSelector", "operator": "add", "value": {"a": "b"}},
        {"path": "/spec/hostIPC", "operator": "add", "value": True},
        {"path": "/spec/hostPID", "operator": "add", "value": True},
    ]
    spec = msgspec.convert({"overrideRules": [{"plaintext": entries}]}, OverridePolicySpec)
    with pytest.raises(OverrideError) as caught:
        edition(spec, ["g"], TEMPLATE)
    assert "hostIPC (spec.overrideRules[0].plaintext[3])" in str(caught.value)
    assert "hostPID (spec.overrideRules[0].plaintext[4])" in str(caught.value)
