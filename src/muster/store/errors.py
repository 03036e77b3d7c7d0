"""The errors of the Kubernetes API: one family for the API server and for the in-memory store.

There is one type for each way in which a caller may react.
"""

from __future__ import annotations

import re
from typing import NamedTuple, Self

import msgspec

from muster.model.meta import Partial


class StatusCause(Partial, kw_only=True):
    """One of several causes of a refusal."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Partial, kw_only=True):
    """The object that the error is about, and when to retry."""

    name: str = ""
    kind: str = ""
    causes: list[StatusCause] = []
    retry_after_seconds: int = 0


class ApiStatus(Partial, kw_only=True):
    """Kubernetes' Status object."""

    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: StatusDetails | None = None


class ApiError(Exception):
    """A failed call; `code` is the HTTP status, or 0 if there was no answer."""

    def __init__(
        self, what: str, message: str, *, code: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(f"{what}: {message}" if what else message)
        self.what = what
        self.message = message
        self.code = code
        self.reason = reason
        self.retry_after = retry_after
        self.lost_before = False  # an earlier try of the same call may have taken effect

    @property
    def maybe_done(self) -> bool:
        """Whether the call may have taken effect: there was no response, or the server failed."""
        return self.lost_before or self.code == 0 or self.code >= 500


class BadRequest(ApiError):
    """400: the request is malformed."""


class Unauthorized(ApiError):
    """401: the server does not accept our credentials."""


class Permission(NamedTuple):
    """A verb on a resource (`pods/binding`) of an API group, perhaps only on one object."""

    verb: str
    resource: str
    group: str = ""
    name: str = ""

    def __str__(self) -> str:
        of = f" of {self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{of}{f' {self.name}' if self.name else ''}"


class Forbidden(ApiError):
    """403: our account, a quota or an admission plugin does not permit the call."""

    @property
    def permission(self) -> Permission | None:
        """The permission that our account lacks; None if something else refused the call, such as a quota."""
        found = _LACKS.search(self.message)
        return None if found is None else Permission(found[1], found[2], found[3])

    @property
    def namespace(self) -> str:
        """The namespace in which the permission is missing; empty for all namespaces and for cluster-scoped kinds."""
        found = _LACKS.search(self.message)
        return (found[4] or "") if found is not None else ""


class NotFound(ApiError):
    """404: there is no such object, or no such kind."""

    @classmethod
    def of(cls, kind: str, key: str) -> Self:
        return cls("", f"{kind} {key} does not exist", code=404, reason="NotFound")


class Conflict(ApiError):
    """409: the object has changed since it was read, or its state does not permit the call."""

    @classmethod
    def of(cls, kind: str, key: str, why: str) -> Self:
        return cls(f"{kind} {key}", why, code=409, reason="Conflict")


class AlreadyExists(ApiError):
    """409: an object of this name exists already."""

    @classmethod
    def of(cls, kind: str, key: str) -> Self:
        return cls("", f"{kind} {key} exists already", code=409, reason="AlreadyExists")


class Gone(ApiError):
    """410: the resourceVersion or the continue token is too old; list again."""

    @classmethod
    def since(cls, resource_version: str) -> Self:
        text = f"events since resourceVersion {resource_version} are no longer kept; list again"
        return cls("", text, code=410, reason="Expired")


class TooLarge(ApiError):
    """A body exceeds the limit: our request (413) or the server's answer."""


class Invalid(ApiError):
    """422: the object is invalid; the message names the field."""


class TooManyRequests(ApiError):
    """429: the server asks us to retry later."""


class BudgetRefused(TooManyRequests):
    """429 of an eviction: a PodDisruptionBudget does not allow it."""


class ServerFault(ApiError):
    """5xx: the server failed."""


class Unreachable(ApiError):
    """No answer: the connection failed. `sent` is False if the call was certainly not sent."""

    sent = True

    @property
    def maybe_done(self) -> bool:
        return self.lost_before or self.sent


class TimedOut(Unreachable):
    """There was no answer within the time limit."""


class BadAnswer(ApiError):
    """The answer does not follow the API."""


class GateClosed(ApiError):
    """The call was not sent because this process may not write: it is no longer the leader."""

    @property
    def maybe_done(self) -> bool:
        return self.lost_before


# The API server words every authorizer's refusal like this.
_LACKS = re.compile(r'cannot (\S+) resource "([^"]+)" in API group "([^"]*)"(?: in the namespace "([^"]+)")?')

_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
}


def from_status(what: str, status: ApiStatus, retry_after: float | None = None) -> ApiError:
    """Returns the error that a Status object describes."""
    details = status.details or StatusDetails()
    kind = _BY_CODE.get(status.code, ServerFault if status.code >= 500 else ApiError)
    if status.reason == "AlreadyExists":
        kind = AlreadyExists
    elif status.reason == "Expired":
        kind = Gone
    elif kind is Invalid and any(cause.field == "metadata.uid" for cause in details.causes):
        # The patch names a uid and the object has another: the patch is valid, but the object was replaced.
        kind = Conflict
    elif kind is TooManyRequests and any(cause.reason == "DisruptionBudget" for cause in details.causes):
        kind = BudgetRefused
    if retry_after is None and details.retry_after_seconds > 0:
        retry_after = float(details.retry_after_seconds)
    message = status.message or status.reason or f"status {status.code}"
    if kind is BudgetRefused:
        message = " ".join([message, *(cause.message for cause in details.causes)])
    return kind(what, message, code=status.code, reason=status.reason, retry_after=retry_after)


def from_answer(what: str, code: int, body: bytes, retry_after: float | None = None) -> ApiError:
    """Returns the error for an answer that is not 2xx; the body of a proxy need not be a Status object."""
    try:
        status = msgspec.json.decode(body, type=ApiStatus)
    except (msgspec.DecodeError, RecursionError):
        status = ApiStatus()
    if status.kind != "Status":
        text = " ".join(body[:200].decode("utf-8", "replace").split())
        status = ApiStatus(message=text)
    status.code = code
    return from_status(what, status, retry_after)
