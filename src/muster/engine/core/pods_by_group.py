"""An index of pods by the group or object that they name."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


class PodsByGroup(dict[Name, dict[str, None]]):
    """Group → the keys of its pods, in the order in which they came; without groups that have none."""

    def put(self, group: Name, pod: str) -> None:
        self.setdefault(group, {})[pod] = None

    def discard(self, group: Name, pod: str) -> None:
        pods = self.get(group, {})
        pods.pop(pod, None)
        if not pods:
            self.pop(group, None)
