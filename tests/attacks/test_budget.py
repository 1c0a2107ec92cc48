"""Noise that is asked for again, and what it may cost."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrulefit.core.bins import count_histograms, split_cells
from fedrulefit.engines import inprocess
from fedrulefit.federation.coordinator import runs, serving
from fedrulefit.federation.journal import Journal
from fedrulefit.model import Model
from fedrulefit.model.file import model_facts
from fedrulefit.privacy.ledger import Ledger, Release
from fedrulefit.privacy.mechanisms import OpenDPLaplace, UnsafeSeededLaplace
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.histograms import Histograms
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Memory, Transient
from fedrulefit.study import Study
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from tests.federations import write_study
from tests.loopback import Loopback
from tests.samples import SOLVERS, Talk, make_frame, make_sites, make_study, study_facts

SMALL: dict[str, Any] = {"n_trees": 5, "rounds": 3, "n_bins": 20}
STUDY = make_study(**SMALL, epsilon=1.0)
TABLE = load_table(make_frame(120), STUDY)
N = STUDY.n_features


class Hospital:
    """A site's data set, ledger and memory, over many runs."""

    def __init__(self, memory: Memory | None = None, policy: Policy = OPEN) -> None:
        self.memory = Transient() if memory is None else memory
        self.ledger, self.policy = Ledger(), policy

    def site(self, study: Study = STUDY, table: Table = TABLE, **options: Any) -> Site:
        given = {"policy": self.policy, "ledger": self.ledger, "shared": self.memory, **options}
        return Site("north", table, study, **given)

    def ask(self, run: str, study: Study = STUDY, table: Table = TABLE, **options: Any) -> Any:
        """Join a run and ask for its histograms."""
        talk = Talk(self.site(study, table, **options), run=run)
        reply = talk.join(["north"], secure=False)
        return reply if isinstance(reply, m.Refusal) else talk.ask(m.GridRequest)

    def rows(self, run: str) -> dict[str, Release]:
        return {r.quantity: r for r in self.ledger.releases if r.run == run}


class FreshEachRun(Histograms):
    """The weakened twin: as before, every run draws noise of its own."""

    def __init__(self, *args: Any, memory: Memory, **options: Any) -> None:
        super().__init__(*args, memory=Transient(), **options)


def exact(study: Study = STUDY, table: Table = TABLE) -> Any:
    return count_histograms(table.values, np.ones(table.n_rows, np.int64), study.bins)


def by_covariate(counts: Any, study: Study = STUDY) -> dict[str, list[int]]:
    cells = split_cells(counts, study.bins)
    return {name: c.tolist() for name, c in zip(study.names, cells, strict=True)}


# --- averaging -----------------------------------------------------------------------------


@pytest.mark.parametrize("weak", [True, False])
def test_asking_again_and_again_averages_nothing_out(
    weak: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator runs one study 100 times and averages: the exact counts of every cell.

    At ε = 2 a noisy count has standard deviation 0.6: a mean rounds wrongly, and one draw
    hits all 68 cells, with a chance below 1e-7.
    """
    if weak:
        monkeypatch.setattr("fedrulefit.protocol.site.work.Histograms", FreshEachRun)
    hospital = Hospital()
    study = STUDY.with_settings(epsilon=2.0)
    replies = [hospital.ask(f"run-{k}", study=study).counts for k in range(100)]
    found = np.rint(np.mean(replies, axis=0))
    if weak:
        np.testing.assert_array_equal(found, exact())
        assert hospital.ledger.epsilon == pytest.approx(100 * 2 * N)
    else:
        assert all(np.array_equal(reply, replies[0]) for reply in replies)
        assert (found != exact()).any()
        assert hospital.ledger.epsilon == pytest.approx(2 * N)


def test_the_same_patients_in_another_order_are_the_same_question() -> None:
    """A table exported anew, its rows in another order, must not give a second draw."""
    hospital = Hospital()
    first = hospital.ask("first").counts
    turned = TABLE.take(np.arange(TABLE.n_rows)[::-1])
    np.testing.assert_array_equal(hospital.ask("turned", table=turned).counts, first)
    assert hospital.ledger.epsilon == pytest.approx(N)


# --- what is another question, and pays ----------------------------------------------------


def changed(patient: int) -> Table:
    """One patient less."""
    return TABLE.take(np.arange(TABLE.n_rows) != patient)


def test_a_patient_who_left_draws_new_noise_and_pays() -> None:
    """Old noise on new counts would tell the patient apart by a difference."""
    hospital = Hospital()
    before = by_covariate(hospital.ask("before").counts)
    after = by_covariate(hospital.ask("after", table=changed(3)).counts)
    # Equal noise on the rest would leave all cells but one equal.
    for name in ("age", "lactate", "gcs"):
        same = np.equal(before[name], after[name])
        assert same.mean() < 0.9, name
    assert hospital.ledger.epsilon == pytest.approx(2 * N)
    assert {r.epsilon for r in hospital.rows("after").values()} == {1.0}


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {**SMALL, "epsilon": 0.5}},
        {"settings": {**SMALL, "epsilon": 1.0, "n_bins": 21, "cutoff_style": "quantile"}},
        {"settings": {**SMALL, "epsilon": 1.0, "holdout": 0.2}},
        {"weight": {"column": "w", "max": 2.0}},
    ],
)
def test_another_question_is_paid_for(changes: dict[str, Any]) -> None:
    """Other ε, bins, patients or units: noise that was not drawn for them does not fit."""
    hospital = Hospital()
    hospital.ask("first")
    facts = study_facts(**SMALL, epsilon=1.0)
    settings = {**facts["settings"], **changes.pop("settings", {})}
    study = Study.from_mapping({**facts, **changes, "settings": settings})
    hospital.ask("other", study=study)
    told = hospital.rows("other")
    if settings["n_bins"] != 20:  # categories have bins of their own
        assert {told[f"histogram of {name}"].epsilon for name in ("ward", "sex")} == {0.0}
        told = {name: row for name, row in told.items() if "ward" not in name and "sex" not in name}
    assert min(row.epsilon or 0 for row in told.values()) >= 0.5


def test_a_further_covariate_is_all_that_a_second_study_pays() -> None:
    facts = study_facts(**SMALL, epsilon=1.0)
    few = {name: facts["covariates"][name] for name in ("age", "gcs")}
    first = Study.from_mapping({**facts, "name": "first", "covariates": few})
    hospital = Hospital()
    frame = make_frame(120)
    one = hospital.ask("one", study=first, table=load_table(frame, first))
    more = {**few, "sex": facts["covariates"]["sex"]}
    second = Study.from_mapping({**facts, "name": "second", "covariates": more})
    two = hospital.ask("two", study=second, table=load_table(frame, second))
    was, found = by_covariate(one.counts, first), by_covariate(two.counts, second)
    assert {name: found[name] for name in few} == was
    assert [r.epsilon for r in hospital.rows("two").values()] == [0.0, 0.0, 1.0]
    assert hospital.ledger.epsilon == pytest.approx(3)
    assert hospital.ledger.spent("second") == pytest.approx(1)


def test_two_covariates_of_equal_counts_do_not_share_noise() -> None:
    """Else equal noise would tell that two columns are equal."""
    facts = study_facts(**SMALL, epsilon=1.0)
    age = facts["covariates"]["age"]
    study = Study.from_mapping({**facts, "covariates": {"age": age, "twin": age}})
    frame = make_frame(120)
    reply = Hospital().ask(
        "one", study=study, table=load_table(frame.assign(twin=frame.age), study)
    )
    cells = by_covariate(reply.counts, study)
    assert cells["age"] != cells["twin"]


# --- the ledger ----------------------------------------------------------------------------


def test_the_ledger_tells_a_repetition_and_which_run_paid() -> None:
    hospital = Hospital()
    hospital.ask("first")
    hospital.ask("second")
    hospital.ask("third")
    for quantity, paid in hospital.rows("first").items():
        for run in ("second", "third"):
            again = hospital.rows(run)[quantity]
            assert (paid.epsilon, again.epsilon) == (1.0, 0.0)
            assert again.mechanism == f"{paid.mechanism}, repeated from run first"
            assert (again.sensitivity, again.scale) == (paid.sensitivity, paid.scale)
    assert all(r.epsilon is not None for r in hospital.ledger.releases)


def test_a_rerun_fits_a_budget_that_is_spent() -> None:
    """The policy pays for one run. The twin that forgets is refused the second."""
    policy = Policy.model_validate({**OPEN.model_dump(), "epsilon_study": N})
    weak, hospital = Hospital(policy=policy), Hospital(policy=policy)
    weak.ask("first")
    weak.memory = Transient()
    assert weak.ask("second").code == "budget"
    hospital.ask("first")
    assert isinstance(hospital.ask("second"), m.GridReply)
    refusal = hospital.ask("changed", table=changed(0))
    assert refusal.code == "budget"
    assert refusal.header.step == 0  # at once, before anything was asked
    assert hospital.ledger.epsilon == pytest.approx(N)


def test_noise_without_a_guarantee_is_repeated_too_and_never_counts_as_private() -> None:
    hospital = Hospital()
    replies = [
        hospital.ask(run, noise=UnsafeSeededLaplace(seed, "north"))
        for seed, run in enumerate(("one", "two"))
    ]
    np.testing.assert_array_equal(replies[0].counts, replies[1].counts)
    assert not replies[1].private
    assert {r.epsilon for r in hospital.ledger.releases} == {None}
    # OpenDP's noise is another question.
    assert hospital.ask("three").private
    assert hospital.ledger.epsilon == pytest.approx(N)


def test_a_newer_sampler_of_the_same_noise_draws_none_anew() -> None:
    hospital = Hospital()
    first = hospital.ask("first").counts
    newer = OpenDPLaplace()
    newer.name = "discrete Laplace, OpenDP 99.0"
    np.testing.assert_array_equal(hospital.ask("second", noise=newer).counts, first)
    (name,) = {row.mechanism for row in hospital.rows("second").values()}
    assert name == f"{OpenDPLaplace().name}, repeated from run first"


# --- killed in between ---------------------------------------------------------------------


class Dying(Transient):
    """A run's memory whose process dies before the reply is kept."""

    def put(self, entries: Mapping[str, bytes | None]) -> None:
        if any(key == "reply/1" for key in entries):
            raise KeyboardInterrupt
        super().put(entries)


def die(hospital: Hospital, run: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        hospital.ask(run, memory=Dying())


class Trusting(Histograms):
    """The weakened twin: what was drawn counts as paid, whatever the ledger says."""

    def _origin(self, question: Any, told: Any) -> str:
        del told
        return "some" if self._memory.get(f"paid/{question.key}") else ""


@pytest.mark.parametrize("weak", [True, False])
def test_noise_that_never_left_is_not_paid_for(weak: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site dies between noise and ledger, and another run gets that noise: it must pay."""
    if weak:
        monkeypatch.setattr("fedrulefit.protocol.site.work.Histograms", Trusting)
    hospital = Hospital()
    die(hospital, "lost")
    assert hospital.ledger.releases == []
    hospital.ask("second")
    assert hospital.ledger.epsilon == pytest.approx(0 if weak else N)


@pytest.mark.parametrize("run", ["lost", "another"])
def test_noise_drawn_before_a_death_leaves_after_it(run: str) -> None:
    """Whichever run asks next: a second draw for the same question would be one too many."""
    memory = Transient()
    hospital = Hospital(memory)
    die(hospital, "lost")
    drawn = {key: value for key, value in memory._entries.items() if key.startswith("noise")}
    assert len(drawn) == N + 1  # and the secret
    first = hospital.ask(run).counts
    die(hospital, "lost-too")
    np.testing.assert_array_equal(hospital.ask("last").counts, first)
    assert drawn == {
        key: value for key, value in memory._entries.items() if key.startswith("noise")
    }
    assert hospital.ledger.epsilon == pytest.approx(N)


def test_a_lost_ledger_is_paid_into_again() -> None:
    """Without the row that paid, the noise costs its ε once more."""
    hospital = Hospital()
    first = hospital.ask("first").counts
    hospital.ledger = Ledger()
    np.testing.assert_array_equal(hospital.ask("second").counts, first)
    assert hospital.ledger.epsilon == pytest.approx(N)


def test_noise_survives_a_restart_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    replies = []
    ledger = Ledger(tmp_path / "ledger.jsonl")
    for run in ("one", "two"):
        journal = Journal(path)
        hospital = Hospital(journal.section("dataset"))
        hospital.ledger = Ledger(tmp_path / "ledger.jsonl")
        replies.append(hospital.ask(run).counts)
        ledger = hospital.ledger
        journal.close()
    np.testing.assert_array_equal(replies[0], replies[1])
    assert ledger.epsilon == pytest.approx(N)


def test_a_second_run_between_hosts_has_the_same_cutoffs_and_no_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole runs with OpenDP's noise, all hosts restarted in between."""
    monkeypatch.setattr("tests.loopback.UnsafeSeededLaplace", lambda seed, site: OpenDPLaplace())
    path = tmp_path / "study.toml"
    write_study(study_facts(**SMALL, **SOLVERS["exact"], epsilon=1.0), path)
    net = Loopback(tmp_path, {s: make_frame(90, k) for k, s in enumerate("abc")}, Study.load(path))
    models = []
    for run in ("first", "second"):
        folder = runs.submit(net.state, runs.RunRequest(run, net.sites, wait=5.0), path)
        serving.carry_out(folder, net.caller)
        models.append(model_facts(Model.load(folder / "model.json")))
        for site in net.sites:
            net.restart(site)
            assert net.hosts[site].ledger.epsilon == pytest.approx(N)
    net.close()
    assert models[0]["grid"] == models[1]["grid"]
    assert models[0]["terms"] == models[1]["terms"]


# --- what lies on the disk -----------------------------------------------------------------


def test_the_memory_s_keys_are_no_fingerprints_of_the_counts() -> None:
    """Two hospitals with the same patients have different keys: nobody can look counts up."""
    keys = []
    for _ in range(2):
        memory = Transient()
        Hospital(memory).ask("one")
        keys.append({key for key in memory._entries if key.startswith("noise/")})
        assert len(keys[-1]) == N
    assert not keys[0] & keys[1]
    plain = {
        hashlib.sha256(np.array(c).tobytes()).hexdigest() for c in by_covariate(exact()).values()
    }
    assert not {key.removeprefix("noise/") for key in keys[0]} & plain


# --- ordinary studies pass the defaults ----------------------------------------------------


def wide(n: int, **settings: Any) -> tuple[Study, Table]:
    numbers = {f"x{j}": {"kind": "number", "range": [0, 1]} for j in range(n)}
    facts = {"name": "wide", "outcome": {"column": "y"}, "covariates": numbers}
    study = Study.from_mapping({**facts, "settings": settings})
    rng = np.random.default_rng(0)
    return study, Table(rng.random((40, n)), np.tile([0.0, 1.0], 20), np.ones(40))


@pytest.mark.parametrize("n", [20, 21, 50])
def test_ordinary_studies_pass_the_default_policy(n: int) -> None:
    """With ε = 1 for every histogram, as it was, 21 covariates were refused."""
    study, table = wide(n)
    tables = dict.fromkeys(("north", "south", "west"), table)
    ledger = Ledger()
    for run in range(2):  # the second over one patient less
        changed = {name: table.take(np.arange(40) >= run) for name in tables}
        talk = Talk(
            make_sites(study, changed, policy=Policy(), ledger=ledger)["north"], run=str(run)
        )
        assert isinstance(talk.join(list(tables)), m.JoinReply)
        assert isinstance(talk.ask(m.GridRequest), m.GridReply)
        assert ledger.epsilon == pytest.approx(10 * (run + 1))
    weak = study.with_settings(epsilon=1.0)
    refusal = Talk(make_sites(weak, tables, policy=Policy())["north"]).join(list(tables))
    assert isinstance(refusal, m.JoinReply if n == 20 else m.Refusal)


def test_the_bill_tells_the_share_and_the_total() -> None:
    study, table = wide(25, n_trees=2, penalty=0.1, n_bins=5)
    fitted = inprocess.fit(study, {"a": table, "b": table})
    bill = fitted.model.privacy
    assert bill.epsilon_per_histogram == 0.4
    assert bill.epsilon_histograms == pytest.approx(10)
    assert "25 of ε = 0.4 each, together ε = 10" in bill.words()
    assert fitted.ledgers["a"].epsilon == pytest.approx(10)


def test_review_says_that_a_repetition_costs_nothing() -> None:
    policy = Policy.model_validate({**OPEN.model_dump(), "approval": "review"})
    hospital, asked = Hospital(policy=policy), []

    def accept(kind: str, words: Any) -> bool:
        asked.append(" ".join(words))
        return True

    for run in ("one", "two"):
        hospital.ask(run, approver=accept)
    assert f"This costs ε = {N} " in asked[0]
    assert f"this costs nothing more; spent so far: {N}." in asked[1]


def test_nothing_of_it_touches_sites_without_noise() -> None:
    study = make_study(**SMALL)
    hospital = Hospital()
    np.testing.assert_array_equal(hospital.ask("one", study=study).counts, exact(study))
    assert not [k for k in hospital.memory._entries if "noise" in k]  # type: ignore[attr-defined]
    assert {r.epsilon for r in hospital.ledger.releases} == {None}
