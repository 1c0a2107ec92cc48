"""The claims of section 4, checked one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition
from fedrulefit.experiments.claims import Claim, Verdict
from fedrulefit.experiments.methods import OURS, PROPOSED
from fedrulefit.experiments.trauma.repetitions import COMPARED, COVARIATES, TRAINING
from fedrulefit.experiments.trauma.tables import MIN_SUPPORT, TOP, top_subgroups
from fedrulefit.model import Model, RuleTerm

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

PAPER_RULES: Final = 82
"""Rules that the paper's model has."""

STEADY: Final = 1.1
"""How many times the SD of BFI still counts as stable."""

SEPARATION: Final = 0.1
"""Difference in mortality from which subgroups count as clearly separated."""


def check_claims(rows: pd.DataFrame, models: Mapping[str, Model]) -> list[Claim]:
    """Check the claims of section 4 one by one."""
    splits = {name: rows[rows["method"] == name].set_index("repetition") for name in COMPARED}
    return [*_claims_of_splits(splits), *_claims_of_models(models)]


def _both(text: str, check: Callable[[T], Verdict], source: Mapping[str, T]) -> Claim:
    """Check a claim with the paper's settings, and with ours."""
    return Claim(text, check(source[PROPOSED]), check(source[OURS]))


def _claims_of_splits(splits: Mapping[str, pd.DataFrame]) -> list[Claim]:
    """Compare with BFI over the splits into training and test patients."""
    bfi = splits["bfi"]
    return [
        _both(
            "Slightly higher median AUC than BFI [medians over these splits; the error of the mean "
            "difference counts that splits overlap]",
            lambda own: _check_auc(own["auc"], bfi["auc"]),
            splits,
        ),
        _both(
            f"… with relatively stable variability [SD of AUC at most {STEADY} times that of BFI]",
            lambda own: _check_sd(own["auc"], bfi["auc"]),
            splits,
        ),
        _both(
            "GCS is consistently the most important covariate, followed by age and ISS; sex is the "
            "least [order of the means]",
            _check_order,
            splits,
        ),
        Claim("… for BFI, too", _check_order(bfi)),
        _both(
            "Age and ISS are relatively more important than in BFI [share of GCS, means]",
            lambda own: _check_shares(own, bfi),
            splits,
        ),
    ]


def _claims_of_models(models: Mapping[str, Model]) -> list[Claim]:
    """See what the rules of the models on all patients say."""
    return [
        _both(
            f"The model generated {PAPER_RULES} rules [kept, within a factor of 2]",
            lambda model: _check_count(len(model.rule_terms)),
            models,
        ),
        _both(
            "… [the same, if candidates are meant]",
            lambda model: _check_count(model.provenance.candidates),
            models,
        ),
        _both(
            "Rules for a low GCS or a high ISS raise the risk, rules for a high GCS lower it "
            f"[top {TOP}, rules that ask for one of both directions only; a low ISS must lower it]",
            _check_directions,
            models,
        ),
        _both(
            "Mortality inside and outside each rule is clearly separated "
            f"[top {TOP}: by at least {SEPARATION}]",
            _check_separation,
            models,
        ),
        _both(
            f"… most in rules that involve GCS [top {TOP}: the largest difference]",
            _check_widest,
            models,
        ),
    ]


def _check_auc(own: pd.Series[float], bfi: pd.Series[float]) -> Verdict:
    gaps = own - bfi
    # Splits share patients: Nadeau and Bengio's correction of the error.
    error = gaps.std() * np.sqrt(1 / len(gaps) + (1 - TRAINING) / TRAINING)
    return Verdict(
        bool(own.median() > bfi.median()),
        f"{own.median():.4f} against {bfi.median():.4f}; higher in {(gaps > 0).sum()} of "
        f"{len(gaps)} splits; mean difference {gaps.mean():+.4f} ± {error:.4f}",
    )


def _check_sd(own: pd.Series[float], bfi: pd.Series[float]) -> Verdict:
    return Verdict(
        bool(own.std() <= STEADY * bfi.std()), f"{own.std():.4f} against {bfi.std():.4f}"
    )


def _check_order(splits: pd.DataFrame) -> Verdict:
    ordered = splits[list(COVARIATES)].mean().sort_values(ascending=False)
    first = (splits[list(COVARIATES)].idxmax(axis=1) == "GCS").sum()
    means = ", ".join(f"{name} {value:.0f}" for name, value in ordered.items())
    return Verdict(
        list(ordered.index) == ["GCS", "age", "ISS", "sex"],
        f"{means}; GCS first in {first} of {len(splits)} splits",
    )


def _check_shares(own: pd.DataFrame, bfi: pd.DataFrame) -> Verdict:
    shares = {
        name: tuple(splits[name].mean() / splits["GCS"].mean() for splits in (own, bfi))
        for name in ("age", "ISS")
    }
    return Verdict(
        all(ours > theirs for ours, theirs in shares.values()),
        "; ".join(f"{name} {ours:.2f} against {bfi:.2f}" for name, (ours, bfi) in shares.items()),
    )


def _check_count(n_rules: int) -> Verdict:
    return Verdict(PAPER_RULES / 2 <= n_rules <= 2 * PAPER_RULES, f"{n_rules} rules")


def _check_directions(model: Model) -> Verdict:
    good, told = 0, 0
    against: list[str] = []
    for term in _shown(model):
        risks = {_expected_sign(condition, model.grid) for condition in term.rule} - {0}
        if len(risks) == 1:
            told += 1
            agrees = np.sign(term.coefficient) == risks.pop()
            good += int(agrees)
            if not agrees:
                against += [f"{model.describe(term)}, exp(coef) {model.effect(term):.2f}"]
    words = "".join(f"; against it: {rule}" for rule in against)
    return Verdict(good == told if told else None, f"{good} of {told}{words}")


def _expected_sign(condition: Condition, grid: Grid) -> int:
    """Return 1 for a low GCS or a high ISS, −1 for the opposite, 0 for anything else."""
    n_codes = grid.axes[condition.feature].n_codes
    lowest, highest = condition.codes & 1, condition.codes >> (n_codes - 1) & 1
    rises = {"GCS": -1, "ISS": 1}.get(COVARIATES[condition.feature], 0)
    return rises * (highest - lowest)


def _check_separation(model: Model) -> Verdict:
    gaps = _gaps(top_subgroups(model))
    return Verdict(
        bool((gaps >= SEPARATION).all()) if len(gaps) else None,
        "differences " + ", ".join(f"{gap:.2f}" for gap in gaps),
    )


def _check_widest(model: Model) -> Verdict:
    shown, gaps = _shown(model), _gaps(top_subgroups(model))
    with_gcs = [COVARIATES.index("GCS") in term.rule.features for term in shown]
    if all(with_gcs) or not any(with_gcs):
        return Verdict(None, f"{sum(with_gcs)} of {len(shown)} rules involve it")
    widest = int(np.argmax(gaps))
    return Verdict(with_gcs[widest], f"{gaps[widest]:.2f}: {model.describe(shown[widest])}")


def _shown(model: Model) -> list[RuleTerm]:
    """Return the rules of table 1 and figure 3."""
    return model.top_rules(top=TOP, min_support=MIN_SUPPORT)


def _gaps(frame: pd.DataFrame) -> Floats:
    inside, outside = (
        frame[f"rate_{place}"].to_numpy(np.float64) for place in ("inside", "outside")
    )
    gaps: Floats = np.abs(inside - outside)
    return gaps
