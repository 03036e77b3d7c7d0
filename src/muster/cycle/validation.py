"""Validates a whole configuration: findings of the loader and the plugins, advice, and the effective configuration."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from muster.config import render
from muster.cycle.configuration_advice import advice
from muster.cycle.configure import configure
from muster.cycle.scheduler import Scheduler
from muster.model.finding import Finding, in_order

__all__ = ["effective", "effective_hash", "validate_configuration"]


def validate_configuration(text: str, name: str) -> tuple[Scheduler, list[Finding]]:
    """Returns a scheduler with the configuration as far as it is usable, and all findings about it."""
    config, findings = configure(text, name)
    scheduler = Scheduler(config)
    usable = all(finding.severity != "error" for finding in findings)
    findings += scheduler.findings()
    if usable:
        findings += advice(scheduler, text, name)
    return scheduler, in_order(findings)


def effective(scheduler: Scheduler) -> dict[str, Any]:
    """Returns the effective configuration: every plugin with its arguments as it read them."""
    plain = render(scheduler.config)
    for tier, entries in zip(scheduler.tiers, plain["tiers"], strict=True):
        for plugin, entry in zip(tier, entries["plugins"], strict=True):
            arguments = plugin.effective()
            if arguments:
                entry["arguments"] = arguments
    return plain


def effective_hash(scheduler: Scheduler) -> str:
    """Returns a hash that ignores comments and the order of arguments: equal for equivalent configurations."""
    text = json.dumps(effective(scheduler), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
