"""Reads and validates the scheduler's configuration."""

from __future__ import annotations

from dataclasses import dataclass

from muster.config import DEFAULT, DEFAULT_NAME
from muster.config.types import Config
from muster.cycle.validation import effective_hash, validate_configuration
from muster.model.finding import Finding
from muster.process.config_sources import ConfigContent, ConfigFile, InvalidConfig


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A valid configuration. Each leadership term builds a Scheduler of its own from it (Decider.use)."""

    config: Config
    version: str  # names the content, in every decision's log
    hash: str = ""  # of the effective configuration
    findings: tuple[Finding, ...] = ()


def load_config(content: ConfigContent) -> LoadedConfig:
    """Validates the content of a file or ConfigMap; InvalidConfig if it has errors."""
    return _validated(content.text(), content.source, content.version)


def read_config(path: str | None) -> LoadedConfig:
    """Validates a file, or the built-in configuration."""
    if path is None:
        return _validated(DEFAULT, DEFAULT_NAME, "built-in")
    return load_config(ConfigFile(path).content())


def _validated(text: str, name: str, version: str) -> LoadedConfig:
    scheduler, findings = validate_configuration(text, name)
    errors = [str(finding) for finding in findings if finding.severity == "error"]
    if errors:
        raise InvalidConfig("\n".join(errors))
    return LoadedConfig(scheduler.config, version, effective_hash(scheduler), tuple(findings))
