"""Editions that no running pod can be given: the webhook makes them, the controllers have pods made anew."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from live.api import Api, Plain, until
from live.conftest import HOME
from live.group_site import Site, Sited
from live.node_groups import (
    BOTH,
    DOMAIN,
    LEASE,
    Controllers,
    Extender,
    city_of,
    divided,
    path,
    pods,
    policy_path,
    reasons,
    satisfied,
    thing,
    weights,
    workload,
)
from live.part_process import Part, free_port

SERVED_BY = f"{HOME}/muster-webhook"


def flags(namespace: str, word: str, *patches: Plain) -> Plain:
    """An argument with the city in it, and the city's registry."""
    registry = {"component": "Registry", "operator": "replace", "value": "{{nodegroup}}.registry.io"}
    added = {"containerName": "nginx", "operator": "add", "value": [f"--{word}={{{{nodegroup}}}}"]}
    rule = {"imageOverrider": [registry], "argsOverrider": [added], "plaintext": list(patches)}
    return thing("OverridePolicy", "op", namespace, spec={"overrideRules": [{"overriders": rule}]})


def condition(api: Api, namespace: str) -> tuple[str, str]:
    found = api.get(policy_path(namespace, "overridepolicies", "op")).get("status", {}).get("conditions", ())
    return next(((c["status"], c["reason"]) for c in found if c["type"] == "Satisfied"), ("", ""))


def first(pod: Plain) -> Plain:
    container: Plain = pod["spec"]["containers"][0]
    return container


def all_have(api: Api, namespace: str, word: str, app: str = "nginx") -> bool:
    found = [p for p in pods(api, namespace, app) if p["spec"].get("nodeName")]
    return bool(found) and all(first(p).get("args") == [f"--{word}={city_of(p)}"] for p in found)


class TestGroupEditions(Sited):
    """Policies that are edited, a webhook that is not there, one that comes back, revisions, and a way back."""

    @pytest.fixture
    def webhook(self, site: Site, api: Api, namespace: str, cities: None) -> Iterator[Part]:
        api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {f"{DOMAIN}/webhook": "enabled"}}})
        port = free_port()
        where = ("--url", f"https://127.0.0.1:{port}", "--webhook-host", "127.0.0.1", "--webhook-port", str(port))
        with Part("webhook", site.account("webhook"), *where, "--lease-name", SERVED_BY, *LEASE) as part:
            yield part

    @pytest.fixture
    def controllers(self, site: Site, cities: None) -> Iterator[Controllers]:
        arguments = ("--webhook-lease", SERVED_BY, "--revert-on-unbind")
        with Controllers(site.account("controllers"), HOME, *arguments) as part:
            yield part

    def test_pods_are_made_anew_in_their_group_when_the_policy_is_edited(
        self, webhook: Part, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        until("it to be seen", lambda: any(e["msg"] == "a webhook is alive" for e in controllers.log()), 30)
        api.create(weights(namespace, Beijing=2, Hangzhou=3))
        search = {"path": "/spec/dnsConfig", "operator": "add", "value": {"searches": ["{{nodegroup}}.local"]}}
        api.create(flags(namespace, "city"))
        until("both", lambda: webhook.probe("/readyz")[0] == 200)
        time.sleep(0.5)
        api.create(workload("Deployment", namespace, 5, BOTH))
        divided(api, namespace, beijing=2, hangzhou=3)
        assert all_have(api, namespace, "city")
        until("satisfied", lambda: satisfied(api, namespace, "overridepolicies", "op"))
        assert reasons(api, namespace)["Evicted"] == 0
        changed = flags(namespace, "town", search)["spec"]
        api.merge(policy_path(namespace, "overridepolicies", "op"), {"spec": changed})
        until("all anew", lambda: all_have(api, namespace, "town"), 90)
        for pod in divided(api, namespace, beijing=2, hangzhou=3):
            assert pod["spec"]["dnsConfig"] == {"searches": [f"{city_of(pod)}.local"]}
            assert first(pod)["image"] == f"{city_of(pod)}.registry.io/nginx:1.14"
        until("satisfied", lambda: satisfied(api, namespace, "overridepolicies", "op"))
        assert reasons(api, namespace)["Evicted"] == 5

    def test_while_the_webhook_is_down_nobody_is_evicted_and_the_status_gives_the_reason(
        self, webhook: Part, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        until("it to be seen", lambda: any(e["msg"] == "a webhook is alive" for e in controllers.log()), 30)
        seen = len(controllers.log())
        webhook.stop()
        ended = "no webhook is alive: pods keep their edition"
        until("its end to be seen", lambda: any(e["msg"] == ended for e in controllers.log()[seen:]), 30)
        api.create(weights(namespace, Beijing=2, Hangzhou=3))
        api.create(flags(namespace, "city"))
        api.create(workload("Deployment", namespace, 5, BOTH))
        before = {p["metadata"]["name"] for p in divided(api, namespace, beijing=2, hangzhou=3)}
        until("the report", lambda: condition(api, namespace) == ("False", "WebhookRequired"), 30)
        until("images", lambda: all("registry.io" in first(p)["image"] for p in pods(api, namespace)), 30)
        time.sleep(3)
        assert {p["metadata"]["name"] for p in pods(api, namespace)} == before
        assert reasons(api, namespace)["Evicted"] == 0
        webhook.start()
        until("all anew", lambda: all_have(api, namespace, "city"), 90)
        until("satisfied", lambda: satisfied(api, namespace, "overridepolicies", "op"), 30)

    def test_a_stateful_set_in_two_revisions_has_the_images_of_both(
        self, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        """The partition keeps the first pods at the old template for good; each gets its own edition."""
        api.create(weights(namespace, Beijing=2, Hangzhou=3))
        at_once = {"podManagementPolicy": "Parallel", "serviceName": "db"}
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 3}}
        api.create(workload("StatefulSet", namespace, 5, BOTH, "db", updateStrategy=strategy, **at_once))
        api.create(thing("OverridePolicy", "op", namespace, spec={"overrideRules": []}))
        divided(api, namespace, app="db", beijing=2, hangzhou=3)
        newer = {"containers": [{"name": "nginx", "image": "nginx:1.15"}], "terminationGracePeriodSeconds": 0}
        api.merge(path(namespace, "statefulsets", "db"), {"spec": {"template": {"spec": newer}}})

        def tags() -> list[str]:
            found = sorted(pods(api, namespace, "db"), key=lambda p: str(p["metadata"]["name"]))
            return [first(p)["image"] for p in found if p["spec"].get("nodeName")]

        until("two revisions", lambda: tags() == ["nginx:1.14"] * 3 + ["nginx:1.15"] * 2, 60)
        rule = {"imageOverrider": [{"component": "Registry", "operator": "replace", "value": "local.io"}]}
        api.merge(policy_path(namespace, "overridepolicies", "op"), {"spec": {"overrideRules": [rule]}})
        wanted = ["local.io/nginx:1.14"] * 3 + ["local.io/nginx:1.15"] * 2
        until("both", lambda: tags() == wanted, 60)

    def test_pods_get_their_template_back_when_the_label_is_taken_away(
        self, webhook: Part, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        api.create(weights(namespace, Beijing=2, Hangzhou=3))
        api.create(flags(namespace, "city"))
        time.sleep(0.5)
        api.create(workload("Deployment", namespace, 5, BOTH))
        divided(api, namespace, beijing=2, hangzhou=3)
        until("satisfied", lambda: satisfied(api, namespace, "overridepolicies", "op"), 30)
        api.merge(path(namespace), {"metadata": {"labels": {f"{DOMAIN}/required-overridepolicy": None}}})

        def plain() -> bool:
            found = [first(p) for p in pods(api, namespace)]
            return len(found) == 5 and all(c["image"] == "nginx:1.14" and "args" not in c for c in found)

        until("the template", plain, 90)
        divided(api, namespace, beijing=2, hangzhou=3)

    def test_without_a_propagation_policy_the_node_selector_may_say_the_group(
        self, webhook: Part, extender: Extender, controllers: Controllers, api: Api, namespace: str
    ) -> None:
        until("it to be seen", lambda: any(e["msg"] == "a webhook is alive" for e in controllers.log()), 30)
        until("it to serve", lambda: webhook.probe("/readyz")[0] == 200)
        api.create(flags(namespace, "city"))
        chosen, anywhere = (
            workload("Deployment", namespace, 2, {f"{DOMAIN}/required-overridepolicy": "op"}, name)
            for name in ("chosen", "anywhere")
        )
        chosen["spec"]["template"]["spec"]["nodeSelector"] = {"location": "beijing"}
        api.create(chosen)
        until("its edition", lambda: all_have(api, namespace, "city", "chosen"))
        until("satisfied", lambda: satisfied(api, namespace, "overridepolicies", "op"))
        api.merge(policy_path(namespace, "overridepolicies", "op"), {"spec": flags(namespace, "town")["spec"]})
        until("all anew", lambda: all_have(api, namespace, "town", "chosen"), 90)
        api.create(anywhere)
        until("the report", lambda: condition(api, namespace) == ("False", "NeedsPropagationPolicy"), 30)
