"""Applies hand-made faults to the engine, the plugins and the groups one by one, and reports which tests find them.

    python tests/mutants.py             all mutants
    python tests/mutants.py gang 7      those whose file contains "gang", and number 7

Each mutant is tried on the unit tests of its module (the mirror under tests/unit), then on all unit tests of engine,
actions, plugins, cycle and groups, then on the cases and the properties. The first test that fails ends the mutant.
Every file is restored after its mutant, also on an interrupt; run it in a worktree of its own all the same. A mutant
whose text is found nowhere, or in several places, is reported as such and fails the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mutant_list import MUTANTS, Mutant

ROOT = Path(__file__).parents[1]
SOURCE, UNIT = ROOT / "src" / "muster", ROOT / "tests" / "unit"
OTHER_UNIT_TESTS = ("engine", "actions", "plugins", "cycle", "groups", "groupctl/extender")
REST = ("tests/test_cases.py", "tests/properties")
LIMIT_S = 1500  # of one run of the tests; a mutant that never ends counts as killed


@dataclass(frozen=True)
class Result:
    mutant: Mutant
    killed_by: str  # "mirror", "unit", "rest", "" (survived) or "not found"


def located(mutant: Mutant) -> Path | None:
    """The file with the mutant's text, once: the one it names, or the only other one if the code has moved."""
    named = SOURCE / mutant.file
    if named.exists() and named.read_text().count(mutant.old) == 1:
        return named
    found = [path for path in SOURCE.rglob("*.py") if mutant.old in path.read_text()]
    return found[0] if len(found) == 1 and found[0].read_text().count(mutant.old) == 1 else None


def mirror(file: Path) -> list[str]:
    """The unit tests of a module: test_NAME.py, or those of its package."""
    inside = file.relative_to(SOURCE)
    folder = UNIT / inside.parent
    if inside.stem == "__init__":
        tests = [folder.parent / f"test_{folder.name}.py", folder]
    else:
        tests = [folder / f"test_{inside.stem}.py", folder.parent / f"test_{folder.name}.py"]
    existing = [str(test) for test in tests if test.exists()]
    return existing or ([str(folder)] if folder.exists() else [])


def unit_tests() -> list[str]:
    return [str(UNIT / name) for name in OTHER_UNIT_TESTS if (UNIT / name).exists()]


def fails(tests: list[str], *more: str) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", *more, *tests]
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT / "src"), "HYPOTHESIS_PROFILE": "short", "PYTHONDONTWRITEBYTECODE": "1"
    }  # fmt: skip
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return True
    failed = b" failed" in done.stdout
    if done.returncode > 1 and not failed:
        raise SystemExit(f"pytest could not run {tests}:\n{done.stdout.decode()[-3000:]}")
    return failed


def tried(mutant: Mutant) -> Result:
    file = located(mutant)
    if file is None:
        return Result(mutant, "not found")
    text = file.read_text()
    try:
        file.write_text(text.replace(mutant.old, mutant.new))
        if (tests := mirror(file)) and fails(tests):
            return Result(mutant, "mirror")
        if fails(unit_tests()):
            return Result(mutant, "unit")
        return Result(mutant, "rest" if fails(list(REST), "-n", "2") else "")
    finally:
        file.write_text(text)


def chosen(words: list[str]) -> Iterator[tuple[int, Mutant]]:
    for number, mutant in enumerate(MUTANTS, 1):
        if not words or any(word == str(number) or (not word.isdigit() and word in mutant.file) for word in words):
            yield number, mutant


def main() -> None:
    if fails(unit_tests()) or fails(list(REST), "-n", "2"):
        raise SystemExit("unit tests, cases or properties fail without any mutant")
    results = []
    for number, mutant in chosen(sys.argv[1:]):
        result = tried(mutant)
        results.append(result)
        how = {"mirror": "killed by its unit tests", "unit": "killed by other unit tests",
               "rest": "killed by cases and properties", "": "SURVIVED", "not found": "TEXT NOT FOUND"}  # fmt: skip
        print(f"{number:3}  {how[result.killed_by]:31} {mutant.file}: {mutant.about}", flush=True)
    by = [result.killed_by for result in results]
    mirror_, unit, rest = by.count("mirror"), by.count("unit"), by.count("rest")
    print(
        f"\n{len(results)} mutants: {mirror_} killed by the unit tests of their module, {mirror_ + unit} by unit tests,"
        f" {mirror_ + unit + rest} by everything; {by.count('')} survived, {by.count('not found')} not found"
    )
    sys.exit("" in by or "not found" in by)


if __name__ == "__main__":
    main()
