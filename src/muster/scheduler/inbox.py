"""What the event loop tells the cycle thread, through the cache's inbox."""

from __future__ import annotations

from dataclasses import dataclass

from muster.model.meta import Object


@dataclass(frozen=True, slots=True)
class Observed:
    """A watch or a look at the API server showed the object so; None: it is gone."""

    kind: str
    key: str
    object: Object | None
    looked: bool = False  # we asked, and this was the answer


@dataclass(frozen=True, slots=True)
class CallResult:
    """What became of a call about a pod: a binding or an eviction was accepted, or it surely was not."""

    key: str
    uid: str
    node: str  # "" = it was an eviction
    done: bool


@dataclass(frozen=True, slots=True)
class CommitFinished:
    """The binder is through with a gang's commit, one way or the other."""

    group: str


@dataclass(frozen=True, slots=True)
class BindRefused:
    """A binding was refused and would be again: the pod is left alone for a while."""

    key: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class EvictionRefused:
    """A claim for room came to nothing: its victims (pod → uid) are left alone for a while, the claimer is told why."""

    claimer: str
    victims: dict[str, str]
    why: str


Message = Observed | CallResult | CommitFinished | BindRefused | EvictionRefused
