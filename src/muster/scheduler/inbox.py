"""The messages from the event loop to the cycle thread; they are queued in the inbox of the cache."""

from __future__ import annotations

from msgspec import Struct

from muster.model.meta import Object


class Observed(Struct, frozen=True):
    """The object as a watch or a GET showed it; None: it is gone."""

    kind: str
    key: str
    object: Object | None
    polled: bool = False  # from a GET
    uid: str = ""  # of the pod that the GET asked for


class CallResult(Struct, frozen=True):
    """The result of a binding or an eviction: it was accepted, or it certainly was not."""

    key: str
    uid: str
    node: str  # "" = it was an eviction
    accepted: bool
    urgent: bool = True  # the capacity of a call that was not accepted is free again: a cycle should run at once


class CommitFinished(Struct, frozen=True):
    """The binder has finished a gang's commit, successfully or not."""

    group: str
    journal: str = ""  # of a commit that bound some of its pods and not the others


class BindRefused(Struct, frozen=True):
    """A binding was refused and would be refused again: the pod is backed off."""

    key: str
    uid: str
    why: str


class EvictionRefused(Struct, frozen=True):
    """Evictions for a claimer were refused: their victims (pod → uid) are backed off, the claimer gets the reason."""

    claimer: str
    victims: dict[str, str]
    why: str


Message = Observed | CallResult | CommitFinished | BindRefused | EvictionRefused
