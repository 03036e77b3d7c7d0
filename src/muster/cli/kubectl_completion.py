"""`kubectl_complete-muster`: completion of `kubectl muster`, as kubectl calls it for its plugins.

kubectl runs the program with the words of the command line, the last of which is to be completed, and reads a value in
each line, its description after a tab, and a directive of cobra in the last line.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import click
from click.shell_completion import ShellComplete

from muster.cli.kubectl import kubectl_muster, namespace_of

__all__ = ["complete", "main"]

FILES, NO_FILES = 0, 4  # directives of cobra: complete file names as the shell does, or not
ANSWER_TIMEOUT_S = 3.0  # for an answer of the cluster; the user waits for the tab key


def main() -> None:
    """Prints the completions of the words that kubectl passes."""
    values, directive = complete(sys.argv[1:])
    for value in values:
        click.echo(value)
    click.echo(f":{directive}")


def complete(words: Sequence[str]) -> tuple[list[str], int]:
    """Returns the completions of the last word with their descriptions, and the directive."""
    *before, incomplete = words or [""]
    found = _from_cluster(before, incomplete)
    if found is not None:
        return sorted(name for name in found if name.startswith(incomplete)), NO_FILES
    items = ShellComplete(kubectl_muster, {}, "kubectl muster", "").get_completions(list(before), incomplete)
    if any(item.type in ("file", "dir") for item in items):
        return [], FILES
    return [f"{item.value}\t{item.help}" if item.help else item.value for item in items], NO_FILES


def _from_cluster(before: Sequence[str], incomplete: str) -> list[str] | None:
    """Returns names of the cluster or of the kubeconfig, where they are what the user types; None: nothing of that."""
    options = {word: before[i + 1] for i, word in enumerate(before[:-1]) if word.startswith("-")}
    kubeconfig, context = options.get("--kubeconfig"), options.get("--context")
    last = before[-1] if before else ""
    if last == "--context":
        return _contexts(kubeconfig)
    if last in ("-n", "--namespace"):
        return _names(kubeconfig, context, "/api/v1/namespaces", {})
    positional = [word for i, word in enumerate(before[1:], 1)
                  if not word.startswith("-") and not before[i - 1].startswith("-")]  # fmt: skip
    if before[:1] == ["explain"] and not positional and not last.startswith("-") and not incomplete.startswith("-"):
        namespace = options.get("-n") or options.get("--namespace") or namespace_of(kubeconfig, context)
        return _names(kubeconfig, context, f"/api/v1/namespaces/{namespace}/pods", {"fieldSelector": "spec.nodeName="})
    return None


def _contexts(kubeconfig: str | None) -> list[str]:
    from muster.kube.config import NoAccess, contexts

    try:
        return contexts(kubeconfig)
    except NoAccess:
        return []


def _names(kubeconfig: str | None, context: str | None, path: str, params: dict[str, str]) -> list[str]:
    """Lists names in the cluster; none if it does not answer in time."""
    import msgspec

    from muster.kube import Client, NoAccess, load
    from muster.store.errors import ApiError

    async def listed() -> list[str]:
        async with asyncio.timeout(ANSWER_TIMEOUT_S), Client(load(kubeconfig, context)) as client:
            answer = msgspec.json.decode(await client.request("GET", path, params=params, tries=1))
            return [str(item["metadata"]["name"]) for item in answer["items"]]

    try:
        return asyncio.run(listed())
    except (NoAccess, ApiError, TimeoutError, OSError):
        return []
