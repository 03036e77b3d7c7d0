"""docs/reference/exit-codes.md: which command ends with which code."""

from __future__ import annotations

import ast

from muster.cli import VERBS
from reference_pages.sources import SOURCE
from reference_pages.tables import paragraph, table

FAILED = {
    "bench": "a workload took longer than its limit",
    "demo": "a step of the demo differs from what its design expects",
    "simulate": "with `--fail-on-pending`: a pod has no node",
    "sweep": "a cell of the grid failed; its row has the message",
    "validate": "there is an error among the findings",
    "workload-kinds": "a description of a workload kind is invalid",
}
"""The commands that use exit code 1, and when."""


def page() -> str:
    """The page."""
    return "\n".join([
        "# Exit codes", "",
        *table(["code", "meaning"], [
            ["0", "The command gave an answer, or a service ended after SIGTERM or SIGINT."],
            ["1", "The command gave an answer, and a check failed; see below."],
            ["2", "The command gave no answer: an option, a file, an object or the cluster cannot be used. stderr has "
                  "the reason and the fix."],
            ["130", "`muster sweep` was interrupted (Ctrl-C). The finished cells are kept."],
        ]), "",
        "Only these commands end with code 1:", "",
        *table(["command", "when"], [[f"`muster {verb}`", why] for verb, why in sorted(FAILED.items())]), "",
        *paragraph(
            "stdout carries only the answer. Warnings and errors are on stderr, so that a pipe reads valid JSON or "
            "nothing. A test compares this page with the sources."
        ),
    ]) + "\n"  # fmt: skip


def verbs_that_fail() -> set[str]:
    """The commands whose module ends the process with code 1."""
    return {verb for verb, target in VERBS.items() if _ends_with_one(target.partition(":")[0])}


def _ends_with_one(module: str) -> bool:
    path = SOURCE.parent.joinpath(*module.split(".")).with_suffix(".py")
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    exits = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] in ("exit", "Exit", "SystemExit")]
    return any(isinstance(node, ast.Constant) and node.value == 1 for call in exits for node in ast.walk(call))
