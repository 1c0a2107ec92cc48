"""The hospital's own file: what it allows, and what is wrong with it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from fedrulefit.errors import PolicyError
from fedrulefit.privacy.policy import EXAMPLE, KINDS, OPEN, Policy, ReleaseKind

FULL = """
dataset = "icu registry"
min_count = 10
max_rules_sent = 200
min_votes = 3
max_folds = 4
min_changed = 20
allow = ["histograms", "rules", "curvature", "slopes", "summary"]
secure_sums = true
min_sites = 4
dropouts = "continue"
epsilon_study = 5.0
epsilon_dataset = 12.5
max_sums = 60
max_runs = 7
round_counts = 10
min_published = 11
keep_runs_days = 3
approval = "review"
audits = "require"
[peers]
south = "AB:ababababababababababababababababababababababababababababababab"
"""


def test_the_defaults_are_the_careful_ones() -> None:
    policy = Policy()
    assert policy.min_count == 5
    assert policy.secure_sums
    assert policy.min_sites == 3
    assert policy.dropouts == "wait"
    assert policy.approval == "auto"
    assert policy.epsilon_study is not None
    assert policy.epsilon_dataset is not None
    # What is exact by choice, or under its name, needs the hospital's own word.
    chosen = {"exact-histograms", "spreads", "dual", "own-baselines", "site-results"}
    assert set(KINDS) - set(policy.allow) == chosen
    assert set(KINDS) == set(get_args(ReleaseKind)) == set(OPEN.allow)


def test_every_key_is_read(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(FULL, encoding="utf-8")
    policy = Policy.load(path)
    assert policy == Policy(
        dataset="icu registry",
        min_count=10,
        max_rules_sent=200,
        min_votes=3,
        max_folds=4,
        min_changed=20,
        allow=("histograms", "rules", "curvature", "slopes", "summary"),
        min_sites=4,
        dropouts="continue",
        epsilon_study=5.0,
        epsilon_dataset=12.5,
        max_sums=60,
        max_runs=7,
        round_counts=10,
        min_published=11,
        keep_runs_days=3.0,
        approval="review",
        audits="require",
        peers={"south": "ab" * 32},
    )
    assert set(Policy.model_fields) == policy.model_fields_set
    (tmp_path / "empty.toml").write_text("", encoding="utf-8")
    assert Policy.load(tmp_path / "empty.toml") == Policy()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("min_count = -1", "min_count"),
        ("min_count = 2.5", "min_count"),
        ("max_rules_sent = 0", "max_rules_sent"),
        ('allow = ["everything"]', "allow.0"),
        ('allow = "rules"', "allow"),
        ('secure_sums = "perhaps"', "secure_sums"),
        ("min_sites = 0", "min_sites"),
        ('dropouts = "ignore"', "dropouts"),
        ("epsilon_study = 0", "epsilon_study"),
        ("epsilon_dataset = -1", "epsilon_dataset"),
        ("epsilon_dataset = inf", "epsilon_dataset"),
        ("epsilon_study = nan", "epsilon_study"),
        ("max_sums = 0", "max_sums"),
        ("max_runs = 0", "max_runs"),
        ("keep_runs_days = 0", "keep_runs_days"),
        ('approval = "maybe"', "approval"),
        ('audits = "never"', "audits"),
        ("peers = 3", "peers"),
        ('dataset = ""', "dataset"),
        ("min_cuont = 5", "min_cuont"),
        ("max_rules = 200", "'max_rules' is called 'max_rules_sent' now"),
        ("max_rounds = 60", "'max_rounds' is called 'max_sums' now"),
        ("min_count = ", "is not valid TOML"),
        ("min_count = 5\nmin_count = 6", "is not valid TOML"),
    ],
)
def test_a_faulty_file_is_refused_by_the_name_of_its_key(
    text: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        Policy.load(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_no_open_policy(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes('dataset = "Köln"'.encode("latin-1"))
    for path, words in (
        (tmp_path / "none.toml", "does not exist"),
        (tmp_path, "is a folder"),
        (tmp_path / "latin.toml", "is not UTF-8 text"),
    ):
        with pytest.raises(PolicyError, match=words):
            Policy.load(path)


def test_a_policy_does_not_change() -> None:
    with pytest.raises(ValidationError):
        Policy().min_count = 0  # type: ignore[misc]


def test_words_tell_every_rule(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(FULL, encoding="utf-8")
    text = "\n".join(Policy.load(path).words())
    for said in ("icu registry", "10 patients", "200 rules", "at least 4 sites", "ε ≤ 5 ",
                 "ε ≤ 12.5", "60 sums", "A person accepts", "without a site",
                 "passed an audit"):  # fmt: skip
        assert said in text
    assert KINDS["curvature"] in text
    assert KINDS["dual"] not in text
    plain = "\n".join(Policy().words())
    assert "waits for one that is lost" in plain
    assert "20 runs" in plain
    assert "without asking" in plain
    assert "audit" not in plain
    assert KINDS["spreads"] not in plain
    free = "\n".join(OPEN.words())
    assert "no limit" in free
    assert "without masks" in free
    assert all(words in free for words in KINDS.values())


# --- the numbers themselves ---------------------------------------------------------------


def test_the_defaults_by_heart() -> None:
    """A default that changes by one is a promise to hospitals that changes."""
    facts = Policy().model_dump()
    assert facts.pop("allow") == (
        "histograms", "rules", "votes", "curvature", "slopes", "summary", "between-sites",
        "evaluation",
    )  # fmt: skip
    assert facts == {
        "dataset": "patients",
        "min_count": 5,
        "max_rules_sent": 5000,
        "min_votes": 2,
        "max_folds": 10,
        "min_changed": 10,
        "secure_sums": True,
        "min_sites": 3,
        "dropouts": "wait",
        "epsilon_study": 20.0,
        "epsilon_dataset": 40.0,
        "max_sums": 1000,
        "max_runs": 20,
        "keep_runs_days": 30.0,
        "round_counts": 5,
        "min_published": 10,
        "approval": "auto",
        "audits": "tell",
        "peers": {},
    }


def test_the_example_is_the_default() -> None:
    assert Policy.model_validate(tomllib.loads(EXAMPLE)) == Policy()


def test_open_sets_no_limit() -> None:
    most = 10**9
    facts = OPEN.model_dump(exclude={"allow", "dataset", "keep_runs_days", "approval", "audits"})
    assert facts == {
        "min_count": 0,
        "max_rules_sent": most,
        "min_votes": 0,
        "max_folds": 100,
        "min_changed": 0,
        "secure_sums": False,
        "min_sites": 1,
        "dropouts": "continue",
        "epsilon_study": None,
        "epsilon_dataset": None,
        "max_sums": most,
        "max_runs": most,
        "round_counts": 1,
        "min_published": 0,
        "peers": {},
    }


@pytest.mark.parametrize(
    ("key", "least", "most"),
    [
        ("min_count", 0, None),
        ("max_rules_sent", 1, None),
        ("min_votes", 0, None),
        ("max_folds", 2, None),
        ("min_changed", 0, None),
        ("min_sites", 1, None),
        ("max_sums", 1, None),
        ("max_runs", 1, None),
        ("keep_runs_days", None, 3650),
        ("round_counts", 1, 1000),
        ("min_published", 0, 1000),
    ],
)
def test_each_number_has_its_bounds(key: str, least: int | None, most: int | None) -> None:
    for bound, beyond in ((least, -1), (most, 1)):
        if bound is not None:
            assert getattr(Policy.model_validate({key: bound}), key) == bound
            with pytest.raises(ValidationError):
                Policy.model_validate({key: bound + beyond})


@pytest.mark.parametrize("key", ["epsilon_study", "epsilon_dataset", "keep_runs_days"])
def test_no_budget_and_no_time_is_zero_or_endless(key: str) -> None:
    for bad in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValidationError):
            Policy.model_validate({key: bad})
    assert getattr(Policy.model_validate({key: 0.5}), key) == 0.5


def test_a_data_set_has_a_name_of_at_most_200_letters() -> None:
    for good in ("x", "x" * 200):
        assert Policy(dataset=good).dataset == good
    for bad in ("", "x" * 201):
        with pytest.raises(ValidationError):
            Policy(dataset=bad)


@pytest.mark.parametrize(
    ("changes", "said", "not_said"),
    [
        ({"min_changed": 2}, "in which 1 to 1 patients changed", ""),
        ({"min_changed": 1}, "", "patients changed"),
        ({"min_changed": 0}, "", "patients changed"),
        ({"min_votes": 1}, "only if at least 1 sites have 5 such patients", ""),
        ({"min_votes": 0}, "", "such patients"),
        ({"max_folds": 7}, "at most 7 folds", ""),
        ({"round_counts": 3, "min_published": 11}, "multiples of 3; fewer than 11", ""),
    ],
)
def test_what_the_words_say_of_each_number(
    changes: dict[str, Any], said: str, not_said: str
) -> None:
    text = "\n".join(Policy.model_validate(changes).words())
    assert said in text
    assert not not_said or not_said not in text


def test_the_words_come_in_their_order() -> None:
    words = Policy().words()
    assert [line.split(":")[0].split(" ")[0] for line in words if not line.startswith("  -")] == [
        "Data", "May", "A", "A", "Cross-validation", "A", "Sums", "All", "Budget", "Counts",
        "Releases",
    ]  # fmt: skip
    assert "A rule is summed" in words[words.index("May leave:") + 1 + 8 + 1]
