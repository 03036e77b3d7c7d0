"""The scheduler: the plugins of a configuration, and the cycle that turns a state into a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from muster.config.types import Arguments, Config, PluginOption
from muster.cycle.host import is_built_in
from muster.cycle.planning import plan_of
from muster.cycle.registry import action, plugin_class
from muster.engine.core.hooks import Deadlines, Plugin
from muster.engine.core.native_groups import requires_domain
from muster.engine.core.plan import Plan
from muster.engine.core.session import ACTION, Log, Measure, Session, silent, unmeasured
from muster.engine.core.state import State
from muster.engine.core.tiers import Tiers
from muster.engine.placement.turns import Turns
from muster.model.collector import collector_paused
from muster.model.finding import Finding

DOMAINS = "topology"
_PLACING = frozenset(("enqueue", "allocate", "backfill"))


class Scheduler:
    """The plugins and actions of a configuration; immutable. The live scheduler builds one in each leadership term.

    `last` are plugins outside the configuration, called after all others. `measure` times plugins and actions.
    `classes` are plugin classes by name that need not be registered.
    """

    def __init__(
        self, config: Config, *, last: Sequence[Plugin] = (), measure: Measure = unmeasured,
        classes: Mapping[str, type[Plugin]] = MappingProxyType({}),
    ) -> None:  # fmt: skip
        self.config = config

        def make(option: PluginOption) -> Plugin:
            cls = classes.get(option.name) or plugin_class(option.name)
            return cls(option.arguments, option)

        made = [tuple(make(option) for option in tier.plugins) for tier in config.tiers]
        self.tiers = Tiers([*made, tuple(last)] if last else made)
        self.actions = tuple((name, action(name)) for name in config.actions)
        self._measure = measure

    def __setattr__(self, name: str, value: object) -> None:
        """An attribute is set once: a Scheduler does not change after it was built."""
        if name in vars(self):
            raise AttributeError(f"a Scheduler is immutable: build another one instead of setting {name}")
        super().__setattr__(name, value)

    def findings(self) -> list[Finding]:
        """Returns the findings of the plugins about their arguments."""
        found = self.config.findings()
        for tier, options in zip(self.tiers, self.config.tiers, strict=False):
            for plugin, option in zip(tier, options.plugins, strict=True):
                found += type(plugin).check(option.arguments)
        return found

    def session(
        self, state: State, now: float, log: Log = silent, *, reasons: bool = True, turns: Turns | None = None
    ) -> Session:
        tiers = self.tiers
        if self.config.plugin(DOMAINS) is None and requires_domain(state.objects):
            tiers = Tiers((*tiers, (self._domains,)))
        classes_in = () if turns is not None else self._classes_in(reasons)
        return Session(
            state, self.config, tiers, now, log, self._measure, explains=reasons, classes_in=classes_in, turns=turns,
            equal_answers=self._equal_answers,
        )  # fmt: skip

    def _classes_in(self, reasons: bool) -> tuple[str, ...]:
        """Returns the phases of waiting jobs that may be decided class by class: see `engine.core.backlog`.

        Plugins of other packages, and those with deadlines, may look at a job's name or time. Evictions are for each
        job by itself. An action that runs twice adds to the reasons of each job.
        """
        actions = self.config.actions
        same = self._equal_answers and not self.tiers.flat(Deadlines)
        if not same or not _PLACING.issuperset(actions) or (reasons and len(set(actions)) < len(actions)):
            return ()
        return ("Pending", "Inqueue") if "enqueue" in actions and not reasons else ("Inqueue",)

    @cached_property
    def _equal_answers(self) -> bool:
        """Whether no plugin looks at names: those of other packages may."""
        return all(is_built_in(type(plugin)) for plugin in self.tiers.plugins)

    @cached_property
    def _domains(self) -> Plugin:
        """The plugin that keeps native groups in one domain: Kubernetes' own API does not depend on a configuration."""
        return plugin_class(DOMAINS)(Arguments(), PluginOption(DOMAINS))

    def decide(self, session: Session) -> Plan:
        """Runs the actions in their order."""
        with collector_paused():
            for name, run in self.actions:
                session.log(3, f"Enter {name}")
                with self._measure(name, ACTION):
                    run(session)
            return plan_of(session)

    def cycle(
        self,
        state: State,
        now: float,
        log: Log = silent,
        look: Callable[[Session], None] | None = None,
        *,
        reasons: bool = True,
        turns: Turns | None = None,
    ) -> Plan:
        """Runs one scheduling cycle and returns its plan. The state is unchanged when it returns.

        `look` may read the session after everything is decided and before it is undone. Without `reasons` the
        decisions are the same, but the plan does not explain why pods wait. `turns` observes the pods' turns.
        """
        session = self.session(state, now, log, reasons=reasons, turns=turns)
        try:
            plan = self.decide(session)
            plan.promises_changed = session.promises.close()
            ends = [at for at in (plan.again_at, session.promises.next_time()) if at is not None]
            plan.again_at = min(ends, default=None)
            if look is not None:
                look(session)
            if turns is not None:
                turns.end(session)
        finally:
            session.close()
        for key, phase in plan.phases.items():
            if key not in state.objects["PodGroup"]:
                state.jobs[key].phase = phase  # a group without an object has no status that keeps it
                state.jobs[key].mark_changed()
        return plan
