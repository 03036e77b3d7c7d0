"""A part may read what it follows, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from muster.cli.install import PARTS
from muster.controllers import applications
from muster.kube.resources import SOURCES
from muster.live import service
from muster.model.meta import Object
from muster.server.extender import scoring, view

FOLLOWED: dict[str, Iterable[type[Object]]] = {
    "scheduler": (*service.KINDS, *service.OWNERS),
    "controllers": applications.KINDS,
    "extender": {*view.KINDS, *scoring.KINDS},
}


@pytest.mark.parametrize("part", list(PARTS))
def test_the_rights_to_read_are_those_of_the_kinds_it_follows(part: str) -> None:
    readable = {
        (right.group, resource)
        for right in PARTS[part].rights
        if "watch" in right.verbs
        for resource in right.resources
    }
    followed = {(source[0].group, source[0].plural) for kind in FOLLOWED[part] for source in SOURCES[kind]}
    assert sorted(readable) == sorted(followed)


@pytest.mark.parametrize("part", list(PARTS))
def test_nothing_is_granted_twice(part: str) -> None:
    single = [(r.group, resource, verb) for r in PARTS[part].rights for resource in r.resources for verb in r.verbs]
    assert len(single) == len(set(single))
