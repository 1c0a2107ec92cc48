"""What is said of a model where a patient may have several rows: counts, intervals, cost."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from fedrulefit import Model
from fedrulefit.cli.app import app
from fedrulefit.core.rounding import Rounding
from fedrulefit.model.file import load_model
from fedrulefit.model.publish import round_model
from fedrulefit.model.wording import name_rows, tell_rows
from fedrulefit.privacy.policy import KINDS, Policy
from fedrulefit.report import render_report
from fedrulefit.table.check import load_table
from fedrulefit.table.patients import Table
from tests.samples import EXACT, fit_model, make_frame, make_study, repeat

NOTE = (
    "“Patients” are counted in rows, of which one patient has up to 3. Rows of one patient are not "
    "independent, as 95 % intervals take them to be: these are too narrow."
)
POLICY = Policy(allow=tuple(KINDS), secure_sums=True)
runner = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"})


def make_rows(seed: int) -> Table:
    table = load_table(make_frame(400, seed), make_study())
    rows = np.repeat(np.arange(400), np.arange(400) % 3 + 1)
    assert table.outcome is not None
    return Table(table.values[rows], table.outcome[rows], np.ones(len(rows)), rows)


@cache
def several() -> Model:
    study = repeat(make_study(**EXACT, noise=True, holdout=0.3, per_site=True), 3)
    tables = {name: make_rows(k) for k, name in enumerate(["north", "south", "west"])}
    return fit_model(study, tables, policy=POLICY, secure=True)


def test_counts_are_of_rows_and_say_so(tmp_path: Path) -> None:
    model = several()
    assert tell_rows(model.study) == NOTE
    assert name_rows(model.study) == "rows"
    path = tmp_path / "model.json"
    model.save(path)
    shown = runner.invoke(app, ["rules", str(path)]).output
    assert f"Note: {NOTE}" in shown
    assert " rows, " in shown
    assert NOTE in runner.invoke(app, ["rules", str(path), "--subgroups"]).output
    page = render_report(model)
    assert page.count(NOTE) >= 3  # performance, subgroups, origin
    assert "Rows, all sites together" in page
    assert "patients of 3 sites" not in page


def test_without_a_column_of_patients_nothing_is_said() -> None:
    model = fit_model(make_study(**EXACT, holdout=0.3))
    for text in (tell_rows(model.study), render_report(model), model.privacy.words()):
        assert "too narrow" not in text
    assert "rows" not in model.privacy.words()
    assert name_rows(model.study) == "patients"


def test_the_bill_is_per_patient_and_comes_back_from_the_file(tmp_path: Path) -> None:
    model = several()
    assert model.privacy.max_rows == 3
    path = tmp_path / "model.json"
    model.save(path)
    again = load_model(path)
    assert again.privacy == model.privacy
    assert again.study == model.study


@pytest.mark.parametrize("multiple", [5, 10])
def test_published_counts_are_multiples_of_so_many_patients(multiple: int) -> None:
    """Times the most rows of one: fewer rows could be one patient's."""
    model = round_model(several(), Rounding(multiple, multiple))
    origin = model.provenance
    counts = [origin.patients, origin.events]
    counts += [n for t in model.rule_terms for n in (t.inside, t.events_inside) if n is not None]
    counts += [n for t in model.rule_terms for n in (t.held_out or ())]
    assert len(counts) > 6
    assert {n % (3 * multiple) for n in counts if n is not None} == {0.0}
    inside = [t.inside for t in model.rule_terms if t.inside is not None]
    assert min(inside) >= 3 * multiple


def test_what_sites_tell_of_themselves_is_of_enough_patients() -> None:
    """Rounded to multiples of five times the most rows of one patient."""
    by_site = several().provenance.by_site
    assert len(by_site) == 3
    assert {n % 15 for counts in by_site for n in (counts.patients, counts.events)} == {0.0}
