"""The hospital's own file: what it allows, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from pydantic import ValidationError

from fedrulefit.errors import PolicyError
from fedrulefit.privacy.policy import KINDS, OPEN, Policy, ReleaseKind

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
    chosen = {"exact-histograms", "spreads", "dual", "site-results"}
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
