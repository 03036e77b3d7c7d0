"""Names of a trace become names that Kubernetes accepts."""

from __future__ import annotations

from muster.sim.traces.names import job_names, label_value, valid_names


def test_a_name_that_would_collide_gets_a_hash_and_a_valid_one_stays() -> None:
    names = valid_names(["team-a", "Team A", "TEAM_A", "Prod", "张三"], "queue")
    assert names["team-a"] == "team-a" and names["Prod"] == "prod" and names["张三"] == "queue"
    assert names["Team A"] != names["TEAM_A"]
    assert all(names[one].startswith("team-a-") and len(names[one]) == 15 for one in ("Team A", "TEAM_A"))


def test_long_names_are_cut_and_stay_different() -> None:
    names = valid_names(["x" * 100 + "1", "x" * 100 + "2"], "queue")
    assert len(set(names.values())) == 2 and all(len(name) == 63 for name in names.values())


def test_jobs_of_the_same_name_get_a_number() -> None:
    assert job_names(["a", "a", "a-2", "", "a", "job-000003"]) == [
        "a", "a-3", "a-2", "job-000003-2", "a-4", "job-000003"
    ]  # fmt: skip


def test_models_become_label_values() -> None:
    assert label_value("Tesla V100-SXM2 32GB") == "Tesla-V100-SXM2-32GB"
    assert label_value("  (A10) ") == "A10"
