"""Every chapter of the demo comes out as its design says, and says so when it does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.cluster.manifests import read_paths
from muster.cycle.configure import configure
from muster.sim.demo import CHAPTERS, chapters, page
from muster.sim.demo.chapter import MANIFESTS, Chapter, Check, DemoCluster, Step, in_words, on_nodes, text_of

FILES = sorted(p for folder in MANIFESTS.iterdir() for p in folder.iterdir())


@pytest.mark.parametrize("reported", CHAPTERS, ids=lambda reported: reported.__module__.rpartition(".")[2])
def test_a_chapter_comes_out_as_designed(reported: Callable[[], Chapter]) -> None:
    chapter = reported()
    failed = [(check.design, check.wanted, check.found) for s in chapter.steps for check in s.checks if not check.holds]
    assert failed == []
    assert chapter.holds
    assert all(step.checks for step in chapter.steps), "a step that checks nothing proves nothing"


def test_the_same_demo_every_time() -> None:
    assert [chapter.to_dict() for chapter in chapters()] == [chapter.to_dict() for chapter in chapters()]


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_manifest_of_the_demo_can_be_given_to_simulate(file: object) -> None:
    path = str(file)
    if "scheduler" in path.rpartition("/")[2]:
        _, findings = configure(text_of("/".join(path.split("/")[-2:])), path)
        assert findings == []
    else:
        manifests = read_paths([path])
        assert manifests.findings == []
        assert manifests.objects and not manifests.skipped


def test_a_step_that_comes_out_differently_fails_its_chapter_and_the_report_shows_it() -> None:
    step = Step("What is asked.", ["nodegroup/nlp.yaml"], "nodegroup/scheduler.yaml", checks=[Check("<a rule>", 1, 2)])
    chapter = Chapter("nodegroup", "A title", "About it.", [step])
    assert not chapter.holds
    text = page([chapter])
    assert "NOT AS DESIGNED: wanted 1" in text
    assert "&lt;a rule&gt;" in text and "0 of 1 checks hold" in text


def test_a_chapter_without_steps_or_checks_does_not_hold() -> None:
    assert not Chapter("x", "", "").holds
    assert not Chapter("x", "", "", [Step("", [], "")]).holds


def test_what_is_removed_frees_capacity() -> None:
    demo = DemoCluster(Chapter("nodegroup", "", ""), "scheduler.yaml", "departments.yaml")
    demo.ask("", "nlp.yaml")
    assert on_nodes(demo.state, "demo/nlp-") == {"a1": 4, "b1": 1}
    demo.take_away("", "nlp.yaml")
    assert on_nodes(demo.state, "demo/nlp-") == {}
    assert demo.files == ["nodegroup/departments.yaml"]


@pytest.mark.parametrize(
    ("value", "words"),
    [(True, "yes"), ({}, "none"), ({"a1": 4, "b1": [0, 1]}, "a1: 4, b1: [0, 1]"), (200.0, "200"), ("text", "text")],
)
def test_the_finding_of_a_check_is_reported_as_text(value: object, words: str) -> None:
    assert in_words(value) == words
