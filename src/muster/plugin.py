"""Everything that the author of a plugin imports.

    from muster.plugin import NodeFilter, Plugin

A plugin is a class whose bases declare what it does: `class Maintenance(Plugin, NodeFilter)`. It is registered under
the entry-point group `muster.plugins` and named in the scheduler's configuration. docs/tasks/write-a-plugin.md has a
complete package; `muster.testing.check_plugin` tests it.

Stability: the names in `__all__`, the public methods and class attributes of `Plugin` and of the extension points, and
the attributes of `Session`, `Task`, `Job`, `Queue`, `Claim` and `NodeView` that docs/tasks/write-a-plugin.md lists keep
their meaning. A change of them is announced in CHANGELOG.md, and the old form works with a warning for at least one
minor version before it is removed. Optional methods and attributes may be added at any time. Everything else in the
package `muster` may change without notice: a plugin that imports another module of it does so at its own risk.

The names come in two parts. `FIRST` is what a first plugin needs. `SPEED` exists only so that the scheduler can cache
and batch answers. A first plugin whose answers depend on the pod's spec and on one node needs none of it, nor the
methods `signature`, `batch`, `flat` and `span`. A plugin that reads more must declare it; `check_plugin` checks that.
"""

from __future__ import annotations

from muster.config.arguments import Arguments
from muster.config.types import PluginOption
from muster.engine.core.hooks import (
    Batch,
    BindEffects,
    Effect,
    JobEnqueue,
    JobOrder,
    JobReady,
    JobValid,
    Ledger,
    NodeFilter,
    NodeScorer,
    NodeSet,
    NodeSetError,
    NodeSets,
    Plugin,
    Preemptable,
    Protection,
    QueueOrder,
    QueueQuota,
    Reason,
    Reclaimable,
    Scope,
    TaskOrder,
    Verdict,
    Vote,
)
from muster.engine.core.jobs import Job, Queue, Task
from muster.engine.core.nodes import NodeView
from muster.engine.core.session import Session
from muster.engine.core.statement import Move
from muster.engine.evictions.claim import Claim
from muster.model.custom import CustomResource
from muster.model.meta import Partial

FIRST = (
    # the plugin and its configuration
    "Plugin", "Arguments", "PluginOption", "Session", "CustomResource", "Partial",
    # what it is asked about
    "Task", "Job", "Queue", "NodeView",
    # extension points, and what their methods return
    "NodeFilter", "Verdict", "Reason", "NodeScorer", "NodeSets", "NodeSet", "NodeSetError", "BindEffects", "Effect",
    "JobValid", "JobEnqueue", "Vote", "JobReady", "JobOrder", "TaskOrder", "QueueOrder", "QueueQuota", "Preemptable",
    "Reclaimable", "Protection", "Claim",
)  # fmt: skip
SPEED = ("Scope", "Batch", "Ledger", "Move")

__all__ = [
    "Arguments", "Batch", "BindEffects", "Claim", "CustomResource", "Effect", "Job", "JobEnqueue", "JobOrder",
    "JobReady", "JobValid", "Ledger", "Move", "NodeFilter", "NodeScorer", "NodeSet", "NodeSetError", "NodeSets",
    "NodeView", "Partial", "Plugin", "PluginOption", "Preemptable", "Protection", "Queue", "QueueOrder", "QueueQuota",
    "Reason", "Reclaimable", "Scope", "Session", "Task", "TaskOrder", "Verdict", "Vote",
]  # fmt: skip
