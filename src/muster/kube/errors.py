"""What the API server answers instead of an object, one type for each thing a caller may want to do about it.

Those that the store knows too (muster.store) are the store's own errors as well, so that code over a Store needs no
other names.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from muster import store
from muster.model.meta import Partial


class StatusCause(Partial, kw_only=True):
    """One of several causes of a refusal."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Partial, kw_only=True):
    """Which object was meant, and when to come back."""

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


class ApiError(store.StoreError):
    """A call that did not do what was asked; `code` is the HTTP status, 0 where there was no answer."""

    def __init__(
        self, what: str, message: str, *, code: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        # The store's errors are made from kind and key; this text is the API server's own.
        Exception.__init__(self, f"{what}: {message}")
        self.what = what
        self.message = message
        self.code = code
        self.reason = reason
        self.retry_after = retry_after

    @property
    def maybe_done(self) -> bool:
        """Whether the call may have had its effect all the same: no answer came, or the server failed on the way."""
        return self.code == 0 or self.code >= 500


class BadRequest(ApiError):
    """400: the call itself is wrong."""


class Unauthorized(ApiError):
    """401: the server does not know us."""


class Permission(NamedTuple):
    """A verb on a resource (`pods/binding`) of an API group, perhaps only on one object."""

    verb: str
    resource: str
    group: str = ""
    name: str = ""

    def __str__(self) -> str:
        of = f" of {self.group}" if self.group else ""
        return f"{self.verb} {self.resource}{of}{f' {self.name}' if self.name else ''}"


class Forbidden(ApiError, store.Refused):
    """403: the server knows us and says no."""

    @property
    def permission(self) -> Permission | None:
        """What our account lacks; None where something else refused the call (a quota, a namespace that goes)."""
        found = _LACKS.search(self.message)
        return None if found is None else Permission(found[1], found[2], found[3])

    @property
    def namespace(self) -> str:
        """Where the permission is lacking; empty: in all namespaces, or for a kind without any."""
        found = _LACKS.search(self.message)
        return (found[4] or "") if found is not None else ""


class NotFound(ApiError, store.NotFound):
    """404: no such object, or no such kind."""


class Conflict(ApiError, store.Conflict):
    """409: the object is not what we took it for."""


class AlreadyExists(ApiError, store.AlreadyExists):
    """409: an object of this name is there already."""


class Gone(ApiError, store.Gone):
    """410: the resourceVersion or the page is too old; list again."""


class TooLarge(ApiError):
    """A body over the limit: ours (413), or the server's answer."""


class Invalid(ApiError, store.Refused):
    """422: the object is refused, the message names the field."""


class TooManyRequests(ApiError):
    """429: later, please."""


class BudgetRefused(TooManyRequests):
    """429 of an eviction: a PodDisruptionBudget does not allow it."""


class ServerFault(ApiError):
    """5xx: the server could not."""


class Unreachable(ApiError):
    """No answer: the connection failed or was cut. `sent` is False where the call surely never left us."""

    sent = True

    @property
    def maybe_done(self) -> bool:
        return self.sent


class TimedOut(Unreachable):
    """No answer in time."""


class BadAnswer(ApiError):
    """An answer that is not what the API promises."""


class GateClosed(ApiError):
    """The call was not sent: this process may not write now (it is no longer the leader)."""

    @property
    def maybe_done(self) -> bool:
        return False


# The words of every authorizer's refusal: the API server adds them, whoever decided.
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
    """The error that a Status object tells of."""
    details = status.details or StatusDetails()
    kind = _BY_CODE.get(status.code, ServerFault if status.code >= 500 else ApiError)
    if status.reason == "AlreadyExists":
        kind = AlreadyExists
    elif status.reason == "Expired":
        kind = Gone
    elif kind is Invalid and any(cause.field == "metadata.uid" for cause in details.causes):
        # A patch that names the uid it is meant for, of an object that has another: not a bad patch, another object.
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
    """The error of an answer that is not 2xx; a proxy's body need not be a Status."""
    try:
        status = msgspec.json.decode(body, type=ApiStatus)
    except (msgspec.DecodeError, RecursionError):
        status = ApiStatus()
    if status.kind != "Status":
        text = " ".join(body[:200].decode("utf-8", "replace").split())
        status = ApiStatus(message=text)
    status.code = code
    return from_status(what, status, retry_after)
