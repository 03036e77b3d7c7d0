"""What the pods of an application were made by, written on the application itself.

With --revert-on-unbind pods get their template back when the application asks for no OverridePolicy any more. By then
the policy may be gone, and another process may be at work. So the application carries the policy's name and spec until
its last pod is as its template again.
"""

from __future__ import annotations

import msgspec

from muster.groups.binding import DOMAIN
from muster.model.groups import OverridePolicySpec
from muster.model.meta import Object
from muster.model.meta import key as key_of
from muster.store import NotFound, Store

MARK = f"{DOMAIN}/overridden-by"
# All annotations of an object together may have 256 KiB. Beyond this the policy has to be there when it is reverted.
MAX_RECORD_BYTES = 64 * 1024


class _Made(msgspec.Struct):
    policy: str
    spec: OverridePolicySpec | None = None


def recorded_override(app: Object) -> tuple[str, OverridePolicySpec] | None:
    """The policy's name, and its spec as it was."""
    try:
        made = msgspec.json.decode(app.metadata.annotations.get(MARK, ""), type=_Made)
    except msgspec.DecodeError:
        return None
    return None if made.spec is None else (made.policy, made.spec)


def record_override(store: Store, app: Object, policy: str, spec: OverridePolicySpec | None) -> bool:
    """Write it on the application (no policy: take it away); whether that was necessary."""
    text = None
    if policy:
        text = msgspec.json.encode(_Made(policy, spec)).decode()
        if len(text) > MAX_RECORD_BYTES:
            text = msgspec.json.encode(_Made(policy)).decode()
    if app.metadata.annotations.get(MARK) == text:
        return False
    try:
        store.patch(type(app), key_of(app), {"metadata": {"annotations": {MARK: text}}})
    except NotFound:
        return False
    return True
