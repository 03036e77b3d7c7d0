"""The plugins of a configuration in their tiers, and which of them have a hook."""

from __future__ import annotations

from typing import TypeVar, cast

from muster.engine.core.hooks import Hook, Plugin

H = TypeVar("H", bound=Hook)


class Tiers(tuple[tuple[Plugin, ...], ...]):
    """Plugins in tiers. The plugins with a hook are found once, not in every cycle."""

    _tiered: dict[type[Hook], list[list[Hook]]]
    _flat: dict[type[Hook], list[Hook]]
    plugins: list[Plugin]
    signers: list[Plugin]  # plugins that read more of a task than its shape
    cluster_signers: list[Plugin]  # plugins whose terms of scope CLUSTER read even more

    def __init__(self, tiers: object = ()) -> None:
        self._tiered, self._flat = {}, {}
        self.plugins = [plugin for tier in self for plugin in tier]
        self.signers = [plugin for plugin in self.plugins if type(plugin).signature is not Plugin.signature]
        self.cluster_signers = [p for p in self.plugins if type(p).cluster_signature is not Plugin.cluster_signature]

    def tiered(self, hook: type[H]) -> list[list[H]]:
        """Returns the plugins that have this hook and are not switched off, tier by tier; not to be modified."""
        found = self._tiered.get(hook)
        if found is None:
            found = self._tiered[hook] = []
            for tier in self:
                able = [p for p in tier if hook.switch is None or p.option.enabled(hook.switch)]
                found.append([p for p in cast(list[object], able) if isinstance(p, hook)])
        return cast(list[list[H]], found)

    def flat(self, hook: type[H]) -> list[H]:
        """Returns the same in one list; not to be modified."""
        found = self._flat.get(hook)
        if found is None:
            found = self._flat[hook] = [p for tier in self.tiered(hook) for p in tier]
        return cast(list[H], found)
