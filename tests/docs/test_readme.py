"""The README's table is what its command prints, and what a run of the demo learns."""

from __future__ import annotations

import numpy as np

from fedrulefit import Model, demo
from fedrulefit.engines import inprocess
from fedrulefit.table.check import load_table
from tests.docs.pages import ROOT, load_script

README = (ROOT / "README.md").read_text(encoding="utf-8")
script = load_script("make_demo")


def test_the_table_is_what_the_command_prints() -> None:
    assert script.fill_readme(README, script.print_rules()) == README


def test_the_table_is_near_a_run_without_noise() -> None:
    """Noise of ε = 1 on 2,000 patients moves the largest odds ratio by some percent."""
    study = demo.demo_study().with_settings(holdout=0.2, noise=False)
    tables = {name: load_table(frame, study) for name, frame in demo.draw_registry().items()}
    fitted = inprocess.fit(study, tables).model.rules_frame(top=1)
    shown = Model.load(ROOT / script.MODEL).rules_frame(top=1)
    assert list(shown["rule"]) == list(fitted["rule"])
    assert abs(np.log(shown["odds_ratio"][0] / fitted["odds_ratio"][0])) < np.log(1.25)
