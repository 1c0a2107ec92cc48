"""What a site remembers of a run, and what its ledger tells."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedrulefit.privacy.ledger import EXACT, Ledger
from fedrulefit.privacy.mechanisms import UnsafeSeededLaplace
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.coordinator import Coordinator
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.site.diary import RECENT
from fedrulefit.protocol.wire import to_bytes
from tests.alone import (
    STUDY,
    head,
    join,
    make_site,
    refusal,
)
from tests.samples import SOLVERS, make_study, make_tables, record


def conversation(**settings: Any) -> tuple[Site, list[tuple[str, m.Request, m.Reply]]]:
    study = make_study(rounds=3, **settings)
    site = make_site(study)
    _, seen = record(Coordinator(study, ["north"]), {"north": site})
    return site, seen


@pytest.mark.parametrize(
    "settings",
    [{}, {"epsilon": 0.5}, {"spreads": "exact"}, SOLVERS["exact"], SOLVERS["cv"]],
    ids=["fedda", "noisy", "exact spreads", "exact", "cv"],
)
def test_every_patient_derived_field_has_an_entry(settings: dict[str, Any]) -> None:
    """Written from the message classes, not from the site's own code."""
    site, seen = conversation(**settings)
    bins = site.study.bins
    expected = []
    for _, request, reply in seen:
        digest = hashlib.sha256(to_bytes(reply)).hexdigest()
        round_ = request.round if isinstance(request, m.DualRequest) else None
        if isinstance(request, m.CurvatureRequest):
            round_ = request.header.step
        if isinstance(request, m.SumRequest):
            expected += sum_rows(request, site, digest, round_)
            continue
        for field in dataclasses.fields(reply):
            if field.name == "header" or field.metadata["mechanism"] == "no patient data":
                continue
            value = getattr(reply, field.name)
            name = type(reply).__name__
            if field.name == "counts":
                expected += [
                    (name, f"histogram of {covariate}", (b.n_cells,), digest, round_)
                    for covariate, b in zip(site.study.names, bins, strict=True)
                ]
            elif field.name == "fold_rules":
                n_rules = sum(len(rules) for rules in value)
                expected += [(name, field.name, (n_rules,), digest, round_)] * bool(n_rules)
            elif not isinstance(value, (np.ndarray, tuple)):
                expected.append((name, field.name, (), digest, round_))
            elif len(value):
                expected.append((name, field.name, (len(value),), digest, round_))
    found = [(r.message, r.quantity, r.shape, r.digest, r.round) for r in site.ledger.releases]
    assert found == expected
    kinds = {message for message, *_ in found}
    fitted = "RoundSums" if site.study.settings.solver == "fedda" else "CurvatureSums"
    always = {"GridReply", "RulesReply", fitted, "SlopeSums", "TermSums", "GapSums"}
    assert kinds == always | ({"SpreadSums"} if settings.get("spreads") == "exact" else set())


def sum_rows(request: m.SumRequest, site: Site, digest: str, round_: int | None) -> list[Any]:
    """Return what the ledger must tell of a sum: what is declared, over all its points."""
    packings = request.packings(site.patients.public)
    rows: dict[tuple[str, str], list[int]] = {}
    for packing in packings:
        for name, told in packing.of.quantities().items():
            n = packing.lengths[name]
            rows.setdefault((packing.of.__name__, name), []).append(n if told.shape else -1)
    expected = []
    for (message, name), lengths in rows.items():
        if lengths == [-1]:
            shape: tuple[int, ...] = ()
        else:
            shape = (sum(abs(n) for n in lengths),)
        if shape != (0,):
            expected.append((message, name, shape, digest, round_))
    return expected


def test_the_ledger_says_which_releases_are_exact() -> None:
    site, _ = conversation(epsilon=0.5)
    noisy = [r for r in site.ledger.releases if r.quantity.startswith("histogram of ")]
    rest = [r for r in site.ledger.releases if not r.quantity.startswith("histogram of ")]
    assert len(noisy) == 5
    for release in noisy:
        assert "discrete Laplace, OpenDP" in release.mechanism
        assert release.epsilon == pytest.approx(0.5)
    assert {(r.mechanism, r.epsilon) for r in rest} == {(EXACT, None)}
    assert site.ledger.epsilon == pytest.approx(5 * 0.5)
    assert sum(r.epsilon is None for r in site.ledger.releases) == len(rest)


def test_without_noise_histograms_are_exact_releases() -> None:
    site, _ = conversation()
    assert {(r.mechanism, r.epsilon) for r in site.ledger.releases} == {(EXACT, None)}
    assert site.ledger.epsilon == 0


def test_seeded_noise_earns_no_epsilon() -> None:
    study = make_study(epsilon=1.0)
    site = make_site(study, noise=UnsafeSeededLaplace(0, "north"))
    site.handle(join(study))
    site.handle(m.GridRequest(head(study)))
    assert {r.epsilon for r in site.ledger.releases} == {None}
    assert all("UNSAFE" in r.mechanism for r in site.ledger.releases)


def test_asked_again_the_site_repeats_itself_and_nothing_new_is_written(joined: Site) -> None:
    request = m.GridRequest(head())
    data = joined.answer(to_bytes(request))
    before = list(joined.ledger.releases)
    assert len(before) == 5
    assert {r.digest for r in before} == {hashlib.sha256(data).hexdigest()}
    assert joined.answer(to_bytes(request)) == data
    assert joined.ledger.releases == before


def test_a_step_is_answered_once(ready: Site) -> None:
    """Another question under a number that was answered gets no answer."""
    header = head()
    first = ready.answer(to_bytes(m.DualRequest(header, 0, np.zeros(6))))
    other = m.DualRequest(header, 0, np.ones(6))
    assert "answered to another question" in refusal(ready, other, "conflict")
    assert ready.answer(to_bytes(m.DualRequest(header, 0, np.zeros(6)))) == first
    for _ in range(RECENT):
        ready.handle(m.DualRequest(head(), 1, np.zeros(6)))
    # Sums are kept only for a while: the same question is then over, too.
    old = m.DualRequest(header, 0, np.zeros(6))
    assert f"step {header.step} is over" in refusal(ready, old, "stale")
    never = m.DualRequest(head(step=-1), 0, np.zeros(6))
    assert "step -1 is over" in refusal(ready, never, "stale")


def test_the_ledger_file_has_one_line_per_release(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    times = iter(f"2024-01-01T00:00:{second:02d}" for second in range(60))
    site = make_site(ledger=Ledger(path, clock=lambda: next(times)))
    site.handle(join())
    site.handle(m.GridRequest(head()))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    chain = ("epsilon_so_far", "previous", "hash")
    assert lines == [
        {**dataclasses.asdict(r), "shape": list(r.shape), **{key: line[key] for key in chain}}
        for r, line in zip(site.ledger.releases, lines, strict=True)
    ]
    assert [line["time"][-2:] for line in lines] == ["00"] * 5  # one message, one time
    assert lines[0]["epsilon"] is None
    assert {(line["study"], line["run"]) for line in lines} == {(STUDY.name, "run-1")}
    # A second run goes on where the first ended.
    Site("north", make_tables(STUDY)["north"], STUDY, ledger=Ledger(path))
    again = make_site(ledger=Ledger(path))
    again.handle(join())
    again.handle(m.GridRequest(head()))
    assert len(path.read_text(encoding="utf-8").splitlines()) == 10
