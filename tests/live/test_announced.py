"""Which configuration the running scheduler uses: on its Lease, in snapshots, and in the answers about them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from builders.manifests import node
from live.api import Api, Plain, until
from live.conftest import HOME, MakeNodes
from live.controlplane import ControlPlane
from live.muster_process import Scheduler, muster_pod, stays_unplaced
from live.part_process import Part
from live.test_configuration import ONLY_ENQUEUE, config_map
from live.test_scheduler import EVICTS
from live.webhook_site import unregister
from muster.cli import main

pytestmark = pytest.mark.usefixtures("crds", "namespaces_deleted")

LEASE = f"{HOME}/muster-scheduler"
SOURCE = f"configmap:{HOME}/muster-scheduler"
HASH = "muster.io/configuration-hash"


def lease(api: Api) -> Plain:
    return api.get(f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/muster-scheduler")


def forget(api: Api) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases/muster-scheduler"
    if not api.gone(path):
        api.delete(path)


@pytest.fixture
def configured(api: Api, rights: None) -> Iterator[Plain]:
    forget(api)
    made = api.apply(config_map(ONLY_ENQUEUE))
    yield made
    api.delete(f"/api/v1/namespaces/{HOME}/configmaps/muster-scheduler")
    forget(api)


class Asking:
    def __init__(self, plane: ControlPlane) -> None:
        self.access = ["--kubeconfig", str(plane.kubeconfig)]

    def __call__(self, *arguments: str) -> Result:
        done = CliRunner().invoke(main, list(arguments))
        assert done.exit_code == 0, done.output
        return done

    def configuration(self, *arguments: str) -> Plain:
        answer: Plain = json.loads(self(*arguments, "-o", "json").stdout)
        return answer.get("configuration") or answer["summary"]["configuration"]


def test_the_lease_names_the_configuration_and_everything_that_asks_uses_it(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path,
    configured: Plain, tmp_path: Path,
) -> None:  # fmt: skip
    make_nodes(1)
    ask = Asking(control_plane)
    file, mine = str(tmp_path / "cluster.ndjson.gz"), tmp_path / "mine.yaml"
    mine.write_text(EVICTS, encoding="utf-8")
    with Scheduler(scheduler_kubeconfig, "-c", SOURCE, elect=True, lease=LEASE) as muster:
        notes = until("the annotations", lambda: lease(api)["metadata"].get("annotations"))
        assert notes["muster.io/configuration"] == SOURCE and notes["muster.io/scheduler-names"] == "muster"
        assert lease(api)["metadata"]["labels"]["app.kubernetes.io/part-of"] == "muster"
        api.create(muster_pod(namespace, "one"))
        stays_unplaced(api, namespace, ["one"])
        # By the running scheduler's configuration the pod waits; by the default one, or by another, it would be bound.
        live = ("explain", f"{namespace}/one", "--live", *ask.access)
        wanted = {"source": SOURCE, "hash": notes[HASH], "lease": LEASE, "running": True}
        assert ask.configuration(*live) == wanted
        assert json.loads(ask(*live, "-o", "json").stdout)["decision"]["node"] is None
        assert ask(*live).stdout.splitlines()[0] == (
            f"configuration: {SOURCE} (hash {notes[HASH]}), of the running scheduler (Lease {LEASE})"
        )
        won = json.loads(ask(*live, "-c", str(mine), "-o", "json").stdout)
        assert won["decision"]["node"] is not None and won["configuration"]["source"] == str(mine)

        taken = json.loads(ask("snapshot", file, *ask.access, "-o", "json").stdout)
        assert taken["schedulers"] == [
            {"lease": LEASE, "running": True, "configuration": SOURCE, "hash": notes[HASH]}
        ]  # fmt: skip
        for command in (("simulate",), ("explain", f"{namespace}/one"), ("validate",)):
            assert ask.configuration(*command, "-f", file) == wanted, command
        ran = json.loads(ask("simulate", "-f", file, "-o", "json").stdout)
        assert f"{namespace}/one" in ran["pending"]
        with_mine = json.loads(ask("simulate", "-f", file, "-c", str(mine), "-o", "json").stdout)
        assert f"{namespace}/one" in with_mine["binds"]

        api.apply(config_map(EVICTS))
        until("another hash", lambda: lease(api)["metadata"]["annotations"][HASH] != notes[HASH], 30)
        assert muster.running
    # It was given back: the last configuration is still known.
    gone = CliRunner().invoke(main, ["snapshot", file, *ask.access])
    assert gone.exit_code == 0 and f"the scheduler of the Lease {LEASE} does not run" in gone.stderr
    assert ask.configuration("simulate", "-f", file)["running"] is False
    forget(api)
    none = CliRunner().invoke(main, ["snapshot", file, *ask.access])
    assert none.exit_code == 0 and "no scheduler of muster runs in this cluster" in none.stderr
    assert none.stdout.splitlines()[-1] == "configuration: none"
    ran_without = CliRunner().invoke(main, ["simulate", "-f", file])
    assert "no scheduler runs there; the built-in default is used" in ran_without.stderr
    assert ran_without.stdout.splitlines()[0] == "configuration: built-in default"


def test_a_configuration_that_the_scheduler_refused_is_not_passed_off_as_its_own(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes, scheduler_kubeconfig: Path,
    configured: Plain, tmp_path: Path,
) -> None:  # fmt: skip
    make_nodes(1)
    ask, file = Asking(control_plane), str(tmp_path / "cluster.ndjson.gz")
    with Scheduler(scheduler_kubeconfig, "-c", SOURCE, elect=True, lease=LEASE) as muster:
        before = until("the annotations", lambda: lease(api)["metadata"].get("annotations"))[HASH]
        muster.kill()  # it never sees the change
        api.apply(config_map(EVICTS))
        ask("snapshot", file, *ask.access)
        reported = ask("simulate", "-f", file).stderr
    assert f"but the scheduler of the Lease {LEASE} uses {before}" in reported


def test_a_configmap_of_the_cluster_can_be_given_to_every_command(
    control_plane: ControlPlane, api: Api, namespace: str, make_nodes: MakeNodes, configured: Plain, tmp_path: Path
) -> None:
    make_nodes(1)
    ask, manifests = Asking(control_plane), tmp_path / "pods.json"
    items = [node("a", cpu=4), muster_pod("ns", "p")]
    manifests.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    files = ("-f", str(manifests), *ask.access)
    assert ask.configuration("simulate", "-c", SOURCE, *files)["source"] == SOURCE
    assert ask.configuration("explain", "ns/p", "-c", SOURCE, *files)["source"] == SOURCE
    assert ask.configuration("validate", "-c", f"{SOURCE}/volcano-scheduler.conf", *files)["hash"]
    compared = json.loads(ask("simulate", "--compare", SOURCE, *files, "-o", "json").stdout)
    assert [one["source"] for one in compared["configurations"]] == ["built-in default", SOURCE]
    printed = json.loads(ask("manifests", "-c", SOURCE, *ask.access, "--part", "scheduler", "-o", "json").stdout)
    (conf,) = (one for one in printed["items"] if one["kind"] == "ConfigMap")
    assert "actions: enqueue\n" in conf["data"]["muster-scheduler.conf"]
    for verb, option, more in (
        ("extender", "--plugins", ("--port", "0")),
        ("webhook", "-c", ("--url", "https://127.0.0.1:1", "--webhook-host", "127.0.0.1", "--webhook-port", "0")),
    ):
        part = Part(verb, control_plane.kubeconfig, "--no-leader-elect", *more, option, SOURCE)
        if verb == "extender":  # it has its metrics where it answers
            part._command = [one for one in part._command if one != "--metrics-port"]
            part._command.remove("0")
        with part:
            assert part.running
    unregister(api)
    absent = CliRunner().invoke(main, ["simulate", "-c", f"configmap:{HOME}/nothing", *files])
    assert absent.exit_code == 2 and "there is no such ConfigMap" in absent.stderr
    wrong = CliRunner().invoke(main, ["simulate", "-c", "configmap:a/b/c/d", *files])
    assert wrong.exit_code == 2 and "configmap:NAMESPACE/NAME" in wrong.stderr
