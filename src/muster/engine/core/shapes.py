"""Interns pod specs: pods whose specs are equal in everything but their node share one Shape.

The key of a spec is the encoded bytes of what is in it, which costs about a microsecond a pod; reading requests,
selectors and volumes happens once per shape.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from muster.engine.core.axis import Axis
from muster.engine.core.jobs import Shape
from muster.model.core import PodSpec, Volume
from muster.model.requests import nonzero, requests

_encode = msgspec.json.Encoder().encode


class Shapes:
    def __init__(self, axis: Axis) -> None:
        self._axis = axis
        self._known: dict[bytes, Shape] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Shape]:
        return iter(self._known.values())

    def of(self, spec: PodSpec) -> Shape:
        """The shape of a spec; QuantityError if a request cannot be read."""
        if spec.volumes and any(volume == Volume(name=volume.name) for volume in spec.volumes):
            # Every pod has a token volume with a name of its own; volumes without a say do not make pods different.
            spec = replace(spec, volumes=[v for v in spec.volumes if v != Volume(name=v.name)])
        key = _encode(spec)
        # The node is the one thing that equal pods differ in. It is the first field: cut it off.
        key = key.removeprefix(b'{"nodeName":"%b"' % spec.node_name.encode() if spec.node_name else b"{").lstrip(b",")
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = Shape(len(self._known), spec, requests(spec), nonzero(spec))
            self._axis.learn(shape.amounts)
        return shape


assert PodSpec.__struct_fields__[0] == "node_name"
