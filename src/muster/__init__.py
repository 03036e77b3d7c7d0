"""muster gathers pods onto the right group of nodes.

It is a scheduler for Kubernetes that reads Volcano's queues, pod groups and configuration; node group management for
users of kube-scheduler; and a simulator that runs the scheduler's own code. docs/concepts/tour.md has the packages.

The functions below are the public API (docs/tasks/python.md). They are loaded when they are first used: `import muster`
imports nothing else.
"""

TYPE_CHECKING = False  # type checkers take it for typing.TYPE_CHECKING, which would have to be imported
if TYPE_CHECKING:
    from muster.model.finding import Finding, InputError
    from muster.sim.api import Validation, ask, explain, plan, queues, simulate, validate
    from muster.sim.applied import ApplyPlan
    from muster.sim.ask.answer import Answer
    from muster.sim.explain import Explanation
    from muster.sim.result import Result
    from muster.sim.waiting_jobs import WaitingJobs

__all__ = [
    "Answer",
    "ApplyPlan",
    "Explanation",
    "Finding",
    "InputError",
    "Result",
    "Validation",
    "WaitingJobs",
    "__version__",
    "ask",
    "explain",
    "plan",
    "queues",
    "simulate",
    "validate",
]

__version__ = "0.1.0"

_MODULES = {
    "Answer": "muster.sim.ask.answer",
    "ApplyPlan": "muster.sim.applied",
    "Explanation": "muster.sim.explain",
    "Finding": "muster.model.finding",
    "InputError": "muster.model.finding",
    "Result": "muster.sim.result",
    "WaitingJobs": "muster.sim.waiting_jobs",
}
"""Where each public class is; the others and the functions are in muster.sim.api."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'muster' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_MODULES.get(name, "muster.sim.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
