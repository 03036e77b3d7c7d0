"""Writes deploy/crds and the Helm chart from the same code that `muster crds` and `muster manifests` print from.

Run it after a change of a type, a right or a part: python deploy/write.py [FOLDER]. A test holds the files to it.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from muster import __version__
from muster.cli.install import ACCOUNTS, PARTS, Part, Settings, default_queue, part_objects
from muster.cli.install.parts import PLACES, PRIORITY_CLASS, Values, value_key
from muster.config.loader import DEFAULT
from muster.model.crd import OURS, PEERS
from muster.model.yamltext import dump

HERE = Path(__file__).parent
CHART = "helm/muster"

_REPLICAS = 424242
_OUTSIDE = ("extender",)  # may run beside kube-scheduler, with nothing but its account in the chart
_SAID = (
    "# An empty tag is the chart's appVersion. nodeSelector, tolerations, affinity and priorityClassName at the top\n"
    "# are the defaults of all parts; the same key of a part replaces them. defaultQueue: the queue `default` is\n"
    "# created if the cluster has none; one that is there already stays as it is, also after `helm uninstall`.\n"
    "# controllers.overrideMetadata: labels and annotations that OverridePolicies may change on running pods.\n"
    "# extender and edgeGate need a Secret with their certificate first: docs/tasks/install.md. extender.accountOnly:\n"
    "# true where it runs beside kube-scheduler. webhook.apiServerCIDRs: where the API server's requests come from;\n"
    "# the NetworkPolicy lets nobody else reach the webhook. webhook.clientCASecret: docs/tasks/webhook-and-gate.md.\n"
)
_IMAGE = '{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}'

# A queue that is there already and is not of this release stays out of it: helm would refuse it, or delete it later.
_QUEUE = (
    '{{- $queue := lookup "scheduling.volcano.sh/v1beta1" "Queue" "" "default" }}\n'
    '{{- $release := dig "metadata" "annotations" "meta.helm.sh/release-name" "" $queue }}\n'
    "{{- if or (not $queue) (eq $release .Release.Name) }}"
)


def files() -> dict[str, str]:
    """Path below deploy/ → text."""
    written = {f"crds/{one.name}.yaml": dump(one.plain()) for one in (*OURS, *PEERS)}
    written[f"{CHART}/Chart.yaml"] = dump({
        "apiVersion": "v2",
        "name": "muster",
        "description": "Gathers pods onto the right group of nodes.",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.32.0-0",
    })  # fmt: skip
    written[f"{CHART}/values.yaml"] = _values()
    for part in PARTS.values():
        written[f"{CHART}/templates/{part.verb}.yaml"] = _template(part)
    return written


def _values() -> str:
    empty = {key: kind() for key, kind in PLACES.items()}
    values: dict[str, object] = {"image": {"repository": "muster", "tag": ""}, **empty}
    values["priorityClassName"] = PRIORITY_CLASS
    for part in PARTS.values():
        more: dict[str, object] = {"defaultQueue": True, "configuration": DEFAULT} if part.configured else {}
        more |= {"overrideMetadata": []} if part.verb == "controllers" else {}
        more |= {key: json.loads(value) for _, key, value in part.values}
        if part.guarded:
            more |= {"apiServerCIDRs": [], "clientCASecret": ""}
        if part.verb in _OUTSIDE:
            more["accountOnly"] = False
        resources = {"requests": dict(part.requests), "limits": dict(part.limits)}
        sized = {"enabled": part.by_default, "replicas": part.replicas, "resources": resources}
        values[value_key(part)] = {**sized, **empty, **more}
    return _SAID + dump(values)


def _template(part: Part) -> str:
    """The part's objects, with what the values decide in place of the default."""
    settings = Settings(
        namespace="@namespace@", image="@image@", configuration="@configuration@", api_servers=("@cidr@",),
        webhook_client_ca="@client-ca@", override_metadata="@override-metadata@",
        values=Values({"priorityClassName": "@placement@"}),
    )  # fmt: skip
    values = tuple((option, key, f"@{key}@") for option, key, _ in part.values)
    marked = replace(part, replicas=_REPLICAS, requests=(("cpu", "@resources@"),), limits=(), values=values)
    own = f".Values.{value_key(part)}"
    texts = []
    for one in (*part_objects(marked, settings), *((default_queue(),) if part.configured else ())):
        text = dump(one).strip()
        if one["kind"] == "PodDisruptionBudget":
            text = f"{{{{- if gt (int {own}.replicas) 1 }}}}\n---\n{text}\n{{{{- end }}}}"
        elif one["kind"] == "Queue":
            text = f"{{{{- if {own}.defaultQueue }}}}\n{_QUEUE}\n---\n{text}\n{{{{- end }}}}\n{{{{- end }}}}"
        elif part.verb in _OUTSIDE and one["kind"] not in ACCOUNTS:
            text = f"{{{{- if not {own}.accountOnly }}}}\n---\n{text}\n{{{{- end }}}}"
        else:
            text = f"---\n{text}"
        texts.append(text)
    body = "\n".join(texts)
    for _, key, mark in values:
        body = body.replace(mark, f"{{{{ {own}.{key} }}}}")
    return f"{{{{- if {own}.enabled }}}}\n{_filled(body, own)}\n{{{{- end }}}}\n"


def _filled(text: str, own: str) -> str:
    resources = dump({"resources": {"requests": {"cpu": "@resources@"}, "limits": {}}}).splitlines()
    marks = {
        "'@namespace@'": "{{ .Release.Namespace }}",
        "@namespace@": "{{ .Release.Namespace }}",  # a part of a longer text
        "'@image@'": _IMAGE,
        "'@configuration@'": f"{{{{ {own}.configuration | toJson }}}}",
        "'@override-metadata@'": f"{{{{ {own}.overrideMetadata | toJson | quote }}}}",
        str(_REPLICAS): f"{{{{ {own}.replicas }}}}",
        "    - ipBlock:\n        cidr: '@cidr@'": (
            f"    {{{{- range {own}.apiServerCIDRs }}}}\n    - ipBlock:\n        cidr: {{{{ . | quote }}}}\n"
            "    {{- end }}"
        ),
        "      priorityClassName: '@placement@'": "\n".join(_place(key, own) for key in PLACES),
        "\n".join(" " * 8 * bool(line) + line for line in resources): (
            f"        resources: {{{{- toYaml {own}.resources | nindent 10 }}}}"
        ),
    }
    for mark, value in marks.items():
        text = text.replace(mark, value)
    # Only with a Secret for it: the flag, the mount and the volume.
    for lines in (
        "        - --client-ca-file\n        - /etc/muster/ca.crt\n",
        "        - name: certificate\n          mountPath: /etc/muster\n          readOnly: true\n",
        "      - name: certificate\n        secret:\n          secretName: '@client-ca@'\n",
    ) if "@client-ca@" in text else ():
        filled = lines.replace("'@client-ca@'", f"{{{{ {own}.clientCASecret }}}}")
        text = text.replace(lines, f"        {{{{- if {own}.clientCASecret }}}}\n{filled}        {{{{- end }}}}\n")
    if "@" in text:
        raise ValueError("a mark was not filled in")
    return text


def _place(key: str, own: str) -> str:
    """A field of the pod's spec: the part's own value, else the default of all parts, else left out."""
    value = f"      {key}: {{{{ . }}}}" if PLACES[key] is str else f"      {key}: {{{{- toYaml . | nindent 8 }}}}"
    return f"      {{{{- with ({own}.{key} | default .Values.{key}) }}}}\n{value}\n      {{{{- end }}}}"


def main() -> None:
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    for name, text in files().items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
