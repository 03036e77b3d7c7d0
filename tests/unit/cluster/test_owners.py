"""Names look like Kubernetes' and depend on nothing but what they stand for."""

from __future__ import annotations

from msgspec.structs import replace

from builders.embedded import template
from muster.cluster.owners import generated, letters, template_hash


def test_letters_are_the_same_every_time() -> None:
    assert letters("a") == letters("a") != letters("b")
    assert len(letters("a", 9)) == 9


def test_a_long_name_is_cut_to_what_kubernetes_allows() -> None:
    assert len(generated("x" * 90, "seed")) == 63


def test_templates_differ_by_what_is_in_them_and_not_by_their_hash_or_the_order_of_labels() -> None:
    one = template()
    labels = {"pod-template-hash": "abc", "app": "web"}
    same = replace(one, metadata=replace(one.metadata, labels=labels))
    assert template_hash(one) == template_hash(same) != template_hash(template(cpu="2"))
