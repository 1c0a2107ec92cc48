"""The claims of section 4, checked one by one.

All splits are of the same patients, so that errors are corrected for what two splits share:
of numbers on test patients the share of test patients, of importances, which are learnt from
training patients, that of these (:mod:`fedrulefit.experiments.claims`). What is said of the one
model of all patients is described, not tested.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition
from fedrulefit.experiments.claims import Claim, Mean, Verdict, judge
from fedrulefit.experiments.methods import OURS, PROPOSED
from fedrulefit.experiments.trauma.repetitions import COMPARED, COVARIATES
from fedrulefit.experiments.trauma.separation import PLACES, TOP, shown_rules
from fedrulefit.model import Model

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

PAPER_RULES: Final = 82
"""Rules that the paper's model has."""

SEPARATION: Final = 0.1
"""Difference in mortality from which subgroups count as clearly separated."""


def check_claims(rows: pd.DataFrame, models: Mapping[str, Model]) -> list[Claim]:
    """Check the claims of section 4 one by one."""
    splits = {name: rows[rows["method"] == name].set_index("repetition") for name in COMPARED}
    return [
        *_claims_of_splits(splits),
        *_claims_of_models(models),
        *_claims_of_separation(splits),
    ]


def _both(text: str, check: Callable[[T], Verdict], source: Mapping[str, T]) -> Claim:
    """Check a claim with the paper's settings, and with ours."""
    return Claim(text, check(source[PROPOSED]), check(source[OURS]))


def _claims_of_splits(splits: Mapping[str, pd.DataFrame]) -> list[Claim]:
    """Compare with BFI over the splits into training and test patients."""
    bfi = splits["bfi"]
    return [
        _both(
            "Slightly higher median AUC than BFI [medians over these splits; verdict: mean "
            "difference above 0, its error counts that splits share test patients]",
            lambda own: _check_auc(own, bfi),
            splits,
        ),
        _both(
            "… with relatively stable variability [SD of AUC over these splits]",
            lambda own: _describe_sd(own["auc"], bfi["auc"]),
            splits,
        ),
        _both(
            "GCS is consistently the most important covariate, followed by age and ISS; sex is the "
            "least [mean differences in this order above 0; errors count that splits share "
            "training patients]",
            _check_order,
            splits,
        ),
        Claim("… for BFI, too", _check_order(bfi)),
        _both(
            "Age and ISS are relatively more important than in BFI [share of GCS, of means; the "
            "same errors]",
            lambda own: _check_shares(own, bfi),
            splits,
        ),
    ]


def _claims_of_models(models: Mapping[str, Model]) -> list[Claim]:
    """Say what the models of all patients look like."""
    return [
        _both(
            f"The model generated {PAPER_RULES} rules [kept; in brackets candidates]",
            _describe_count,
            models,
        ),
        _both(
            "Rules for a low GCS or a high ISS raise the risk, rules for a high GCS lower it "
            f"[top {TOP}, rules that ask for one of both directions only; a low ISS must lower it]",
            _describe_directions,
            models,
        ),
    ]


def _claims_of_separation(splits: Mapping[str, pd.DataFrame]) -> list[Claim]:
    """Compare mortality inside and outside the rules on patients that did not choose them."""
    return [
        _both(
            "Mortality inside and outside each rule is clearly separated [test patients of each "
            f"split, in the direction of training; every place in the top {TOP} of the split's "
            f"model by at least {SEPARATION} on average]",
            _check_separation,
            splits,
        ),
        _both(
            f"… most in rules that involve GCS [the same; of the top {TOP} those with GCS minus "
            "those without, where there are both]",
            _check_widest,
            splits,
        ),
    ]


def _over_tests(splits: pd.DataFrame, values: pd.Series[float]) -> Mean:
    """Return the mean over splits of what is counted in their test patients."""
    return Mean.over_splits(_known(values), 1 - _training(splits))


def _over_trainings(splits: pd.DataFrame, values: pd.Series[float]) -> Mean:
    """Return the mean over splits of what is learnt from their training patients."""
    return Mean.over_splits(_known(values), _training(splits))


def _known(values: pd.Series[float]) -> Floats:
    return np.asarray(values.dropna(), np.float64)


def _training(splits: pd.DataFrame) -> float:
    """Return the share of the patients that are in the training set, the same in all splits."""
    first = splits.iloc[0]
    return float(first["n_train"] / (first["n_train"] + first["n_test"]))


def _check_auc(own: pd.DataFrame, bfi: pd.DataFrame) -> Verdict:
    gaps = own["auc"] - bfi["auc"]
    mean = _over_tests(own, gaps)
    return Verdict(
        judge([mean]),
        f"{own['auc'].median():.4f} against {bfi['auc'].median():.4f}; higher in "
        f"{(gaps > 0).sum()} of {len(gaps)} splits; mean difference {mean.words()}",
    )


def _describe_sd(own: pd.Series[float], bfi: pd.Series[float]) -> Verdict:
    return Verdict.describe(f"{own.std():.4f} against {bfi.std():.4f}")


def _check_order(splits: pd.DataFrame) -> Verdict:
    ordered = ("GCS", "age", "ISS", "sex")
    gaps = [_over_trainings(splits, splits[a] - splits[b]) for a, b in pairwise(ordered)]
    first = (splits[list(COVARIATES)].idxmax(axis=1) == "GCS").sum()
    means = ", ".join(f"{name} {splits[name].mean():.0f}" for name in ordered)
    told = ", ".join(f"{gap.mean:+.0f} ± {gap.error:.0f}" for gap in gaps)
    return Verdict(
        judge(gaps), f"{means}; differences {told}; GCS first in {first} of {len(splits)} splits"
    )


def _check_shares(own: pd.DataFrame, bfi: pd.DataFrame) -> Verdict:
    gaps, told = [], []
    for name in ("age", "ISS"):
        ours, theirs = (_share(splits, name) for splits in (own, bfi))
        gaps.append(_over_trainings(own, ours - theirs))
        higher = (own[name] / own["GCS"] > bfi[name] / bfi["GCS"]).sum()
        told.append(
            f"{name} {ours.mean():.2f} against {theirs.mean():.2f}, difference "
            f"{gaps[-1].mean:+.2f} ± {gaps[-1].error:.2f}, higher in {higher} of {len(own)} splits"
        )
    return Verdict(judge(gaps), "; ".join(told))


def _share(splits: pd.DataFrame, name: str) -> pd.Series[float]:
    """Return values whose mean is the ratio of mean importances to GCS, and whose SD its own.

    A ratio of means, linear in the splits around their mean (delta method).
    """
    share = splits[name].mean() / splits["GCS"].mean()
    found: pd.Series[float] = share + (splits[name] - share * splits["GCS"]) / splits["GCS"].mean()
    return found


def _describe_count(model: Model) -> Verdict:
    return Verdict.describe(f"{len(model.rule_terms)} rules ({model.provenance.candidates})")


def _describe_directions(model: Model) -> Verdict:
    good, told = 0, 0
    against: list[str] = []
    for term in shown_rules(model):
        risks = {_expected_sign(condition, model.grid) for condition in term.rule} - {0}
        if len(risks) == 1:
            told += 1
            agrees = np.sign(term.coefficient) == risks.pop()
            good += int(agrees)
            if not agrees:
                against += [f"{model.describe(term)}, exp(coef) {model.effect(term):.2f}"]
    words = "".join(f"; against it: {rule}" for rule in against)
    return Verdict.describe(f"{good} of {told}{words}")


def _expected_sign(condition: Condition, grid: Grid) -> int:
    """Return 1 for a low GCS or a high ISS, −1 for the opposite, 0 for anything else."""
    n_codes = grid.axes[condition.feature].n_codes
    lowest, highest = condition.codes & 1, condition.codes >> (n_codes - 1) & 1
    rises = {"GCS": -1, "ISS": 1}.get(COVARIATES[condition.feature], 0)
    return rises * (highest - lowest)


def _check_separation(splits: pd.DataFrame) -> Verdict:
    """Compare the mean difference of every place in the top rules with the least one."""
    margins, tested, trained = [], [], []
    for place in PLACES:
        held_out = _oriented(splits, place)
        if held_out.count() < 2:
            continue
        gap = _over_tests(splits, held_out)
        margins.append(replace(gap, mean=gap.mean - SEPARATION))
        filled = "" if held_out.count() == len(splits) else f" ({held_out.count()} splits)"
        tested.append(f"{gap.mean:.2f} ± {gap.error:.2f}{filled}")
        trained.append(f"{splits[f'trained_{place}'].abs().mean():.2f}")
    return Verdict(
        judge(margins),
        f"differences {', '.join(tested)}; on training patients {', '.join(trained)}",
    )


def _check_widest(splits: pd.DataFrame) -> Verdict:
    import pandas as pd

    gaps = pd.DataFrame({place: _oriented(splits, place) for place in PLACES})
    gcs = pd.DataFrame({place: splits[f"gcs_{place}"] for place in PLACES})
    wider = (gaps.where(gcs == 1).mean(axis=1) - gaps.where(gcs == 0).mean(axis=1)).dropna()
    n_rules = int(gcs.notna().to_numpy().sum())
    told = f"{(gcs == 1).to_numpy().sum()} of {n_rules} rules involve it"
    if len(wider) < 2:
        return Verdict(None, told)
    gap = _over_tests(splits, wider)
    return Verdict(
        judge([gap]),
        f"{told}; wider by {gap.mean:+.2f} ± {gap.error:.2f} ({len(wider)} splits)",
    )


def _oriented(splits: pd.DataFrame, place: int) -> pd.Series[float]:
    """Return the difference on test patients, above 0 where training had the same direction."""
    found: pd.Series[float] = np.sign(splits[f"trained_{place}"]) * splits[f"tested_{place}"]
    return found
