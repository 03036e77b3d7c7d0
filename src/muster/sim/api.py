"""The functions `muster.simulate`, `explain`, `validate`, `plan`, `queues` and `ask`; the commands call them.

Each function imports what only it needs: `muster simulate` on a small file is mostly the import of modules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from muster.cluster.job_groups import GATES, with_job_groups
from muster.cluster.manifests import Manifests
from muster.cycle.configure import effective as effective_config
from muster.engine.core.session import Log, silent
from muster.engine.core.state import State
from muster.model.finding import Finding, InputError, in_order
from muster.sim import simulate as simulation
from muster.sim.inputs import (
    SCHEDULER_NAMES,
    Cluster,
    Configuration,
    LoadedConfig,
    PathName,
    check_config,
    config_for,
    config_text,
    load_config,
    read_cluster,
    start_time,
    usable_cluster,
)
from muster.sim.result import Result

if TYPE_CHECKING:
    from muster.sim.applied import ApplyPlan
    from muster.sim.ask.answer import Answer
    from muster.sim.ask.question import Question
    from muster.sim.explain import Explanation
    from muster.sim.waiting_jobs import WaitingJobs

__all__ = ["Validation", "ask", "explain", "plan", "queues", "question", "simulate", "validate"]

FeatureGates = Mapping[str, bool]


def simulate(
    cluster: Cluster,
    *,
    config: Configuration = None,
    cycles: int | None = None,
    now: float | str | None = None,
    scheduler_names: Sequence[str] = SCHEDULER_NAMES,
    workload_kinds: Sequence[PathName] = (),
    keep_going: bool = False,
    feature_gates: FeatureGates | None = None,
    log: Log = silent,
    started: Callable[[State], None] | None = None,
) -> Result:
    """Schedules the pods of a cluster until nothing changes, or for so many cycles.

    `cluster` is a path, an object or a list of them; `config` is a path or a mapping in Volcano's format. The clock
    starts at `now`, by default at the latest timestamp in the input. `workload_kinds` are files that describe further
    workload kinds. With `keep_going`, objects that cannot be used are left out. `feature_gates` are those of the
    cluster that change what controllers create (WorkloadWithJob). `started` is called with the state before the first
    cycle. Raises InputError if the input cannot be used.
    """
    configuration, manifests = _inputs(cluster, config, scheduler_names, keep_going, workload_kinds, feature_gates)
    start = start_time(now, manifests)
    result = simulation.simulate(
        configuration.scheduler, manifests.objects, start, scheduler_names, cycles, log, manifests.unusable, started
    )
    result.configuration = configuration
    result.findings = in_order([*configuration.findings, *manifests.findings])
    return result


def explain(
    pod: str,
    cluster: Cluster,
    *,
    config: Configuration = None,
    sets: bool = False,
    cycle: int | None = None,
    before: bool = False,
    namespace: str | None = None,
    now: float | str | None = None,
    scheduler_names: Sequence[str] = SCHEDULER_NAMES,
    workload_kinds: Sequence[PathName] = (),
    keep_going: bool = False,
    feature_gates: FeatureGates | None = None,
    log: Log = silent,
) -> Explanation:
    """Explains for every node whether it takes the pod, why not, and how it is scored when the pod's turn comes.

    `pod` is `namespace/name`, or an owner or gang as `kind/name` (in `namespace`) or `namespace/kind/name`: then the
    pod that fails is explained. The moment is in the cycle that bound the pod, else in the last cycle, or in the given
    `cycle`; `before` explains the state before the first cycle. With `sets`, also the node sets on which the pod's
    group is tried. The other arguments are those of `simulate`. Raises InputError if the input cannot be used, or if
    the run decides nothing about the pod.
    """
    from muster.sim.explain import explain as explanation_of

    configuration, manifests = _inputs(cluster, config, scheduler_names, keep_going, workload_kinds, feature_gates)
    start = start_time(now, manifests)
    explanation = explanation_of(
        configuration.scheduler, manifests.objects, start, scheduler_names, pod, log, sets,
        cycle=cycle, before=before, namespace=namespace, unusable=manifests.unusable,
    )  # fmt: skip
    explanation.configuration = configuration
    explanation.findings = in_order([*configuration.findings, *manifests.findings])
    return explanation


def queues(
    cluster: Cluster,
    *,
    config: Configuration = None,
    now: float | str | None = None,
    scheduler_names: Sequence[str] = SCHEDULER_NAMES,
    workload_kinds: Sequence[PathName] = (),
    keep_going: bool = False,
    feature_gates: FeatureGates | None = None,
    log: Log = silent,
) -> WaitingJobs:
    """Returns the jobs that wait for nodes, in the order in which the scheduler serves them, and the shares of queues.

    The arguments are those of `simulate`. Raises InputError if the input cannot be used.
    """
    from muster.sim.waiting_jobs import waiting_jobs

    configuration, manifests = _inputs(cluster, config, scheduler_names, keep_going, workload_kinds, feature_gates)
    start = start_time(now, manifests)
    found = waiting_jobs(configuration.scheduler, manifests.objects, start, scheduler_names, log)
    found.configuration = configuration
    found.findings = in_order([*configuration.findings, *manifests.findings])
    return found


def plan(
    changes: Cluster,
    cluster: Cluster,
    *,
    config: Configuration = None,
    now: float | str | None = None,
    namespace: str = "",
    scheduler_names: Sequence[str] = SCHEDULER_NAMES,
    workload_kinds: Sequence[PathName] = (),
    keep_going: bool = False,
    feature_gates: FeatureGates | None = None,
    log: Log = silent,
) -> ApplyPlan:
    """Returns what changes if the manifests `changes` are applied to the cluster: objects, and decisions by group.

    New objects are created at the start of the clock, so their pods come after those that wait already. `namespace` is
    that of manifests that name none. The other arguments are those of `simulate`. Raises InputError.
    """
    from muster.sim.applied import ApplyPlan, changes_between, overlaid, submitted
    from muster.sim.difference import Difference

    configuration, there = _inputs(cluster, config, scheduler_names, keep_going, workload_kinds, feature_gates)
    new = usable_cluster(changes, keep_going=keep_going, workload_kinds=workload_kinds)
    start = start_time(now, there) + (now is None)  # after everything that is in the cluster
    applied = submitted(new.objects, start, namespace)
    after = _with_gates(replace(there, objects=overlaid(there.objects, applied)), feature_gates)
    first, second = (
        simulate(one, config=configuration, now=start, scheduler_names=scheduler_names, keep_going=True, log=log)
        for one in (there, after)
    )
    changed = changes_between(there.objects, after.objects, applied)
    unchanged = sum(map(len, applied.values())) - len(changed)
    warnings = [warning for warning in second.summary.warnings if warning not in first.summary.warnings]
    return ApplyPlan(changed, Difference(first, second), unchanged, warnings)


def ask(
    job: Cluster,
    cluster: Cluster,
    *,
    config: Configuration = None,
    when: bool = False,
    now: float | str | None = None,
    namespace: str = "",
    scheduler_names: Sequence[str] = SCHEDULER_NAMES,
    workload_kinds: Sequence[PathName] = (),
    keep_going: bool = False,
    feature_gates: FeatureGates | None = None,
    log: Log = silent,
) -> Answer:
    """Answers whether the job runs on the cluster now and, if not, which changes would let it run.

    Every proposal is verified by a simulation. With `when`, also the expected start, from known durations. The job
    comes after everything that waits already. The other arguments are those of `plan`. Raises InputError.
    """
    configuration, there = _inputs(cluster, config, scheduler_names, keep_going, workload_kinds, feature_gates)
    new = usable_cluster(job, keep_going=keep_going, workload_kinds=workload_kinds)
    asked = question(new, there, configuration, now, namespace, scheduler_names, feature_gates, log)
    answer = asked.answer(when=when)
    answer.configuration = configuration
    return answer


def question(
    job: Manifests,
    cluster: Manifests,
    configuration: LoadedConfig,
    now: float | str | None,
    namespace: str,
    scheduler_names: Sequence[str],
    feature_gates: FeatureGates | None = None,
    log: Log = silent,
) -> Question:
    """Returns the question of `ask` with its first answer; the caller asks for the proposals one by one."""
    from muster.sim.applied import submitted
    from muster.sim.ask.question import Question
    from muster.sim.ask.trial import Asked

    start = start_time(now, cluster) + (now is None)  # after everything that is in the cluster
    submitted_job = submitted(job.objects, start, namespace)
    gates = partial(with_job_groups, feature_gates=feature_gates or {})
    return Question(
        Asked(configuration.scheduler, cluster.objects, submitted_job, start, scheduler_names, gates, log)
    )


@dataclass(frozen=True, slots=True)
class Validation:
    """What is wrong with a configuration and a cluster, and what could never be scheduled."""

    findings: list[Finding]
    configuration: LoadedConfig = field(repr=False)
    manifests: Manifests | None = field(repr=False)  # None: no cluster was given

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    @property
    def effective(self) -> dict[str, Any]:
        """The configuration as understood, with the defaults of all arguments."""
        return effective_config(self.configuration.scheduler)

    def to_dict(self, *, effective: bool = False) -> dict[str, object]:
        """Returns what `muster validate -o json` prints, with `effective` what it prints with --effective."""
        plain: dict[str, object] = {"findings": [finding.to_dict() for finding in self.findings]}
        plain["configuration"] = self.configuration.to_dict()
        return {**plain, "effective": self.effective} if effective else plain


def validate(
    cluster: Cluster | None = None,
    *,
    config: Configuration = None,
    privileged: bool = False,
    scheduler_names: Sequence[str] = SCHEDULER_NAMES,
    workload_kinds: Sequence[PathName] = (),
    feature_gates: FeatureGates | None = None,
) -> Validation:
    """Checks a configuration and a cluster, and finds what could never be scheduled.

    What is wrong with the input is in the findings. `privileged` permits OverridePolicies that give pods privileges.
    Raises InputError only if the configuration cannot be read, or an argument is of a wrong type.
    """
    from muster.sim.validate import validate_cluster

    text = config_text(config)
    manifests = None if cluster is None else _with_gates(read_cluster(cluster, workload_kinds), feature_gates)
    text = text or config_for({} if manifests is None else manifests.objects, scheduler_names)
    configuration = check_config(text)
    # The built-in configuration is checked only if nothing else is.
    findings = [] if text.is_default and manifests is not None else list(configuration.findings)
    if manifests is not None:
        found = validate_cluster(configuration.scheduler, manifests, scheduler_names, privileged=privileged)
        findings = in_order([*findings, *found])
    return Validation(findings, configuration, manifests)


def _inputs(
    cluster: Cluster,
    config: Configuration,
    scheduler_names: Sequence[str],
    keep_going: bool,
    workload_kinds: Sequence[PathName],
    feature_gates: FeatureGates | None,
) -> tuple[LoadedConfig, Manifests]:
    text = None if isinstance(config, LoadedConfig) else config_text(config)
    configuration = config if isinstance(config, LoadedConfig) else None if text is None else load_config(text)
    manifests = usable_cluster(cluster, keep_going=keep_going, workload_kinds=workload_kinds)
    manifests = _with_gates(manifests, feature_gates)
    return configuration or load_config(config_for(manifests.objects, scheduler_names)), manifests


def _with_gates(manifests: Manifests, feature_gates: FeatureGates | None) -> Manifests:
    """Returns the manifests with what the controllers of a cluster with these feature gates create besides pods."""
    unknown = sorted(set(feature_gates or {}) - set(GATES))
    if unknown:
        raise InputError(f"feature gate {unknown[0]} is not known to muster (known: {', '.join(GATES)})")
    return replace(manifests, objects=with_job_groups(manifests.objects, feature_gates or {}))
