"""The paper's section 4: the trauma patients.

Table 1 and figure 3 come from one model of all patients; figure 4 from splits, 70 % of
every hospital's patients to learn from and 30 % to test on, drawn anew in each
repetition from (seed, repetition).

BFI gets age, ISS and GCS standardised by the training patients, sex as it is, as in
the examples of its R package. Its importance of a covariate is |coefficient| ·
standard deviation, as for a linear term of RuleFit.

The noise of the histograms is drawn from the seed, so that a run can be
repeated; a real study would not do that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from fedrulefit import plot
from fedrulefit.baselines.bfi import BFIClassifier
from fedrulefit.core.arrays import Bools, Floats
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Condition
from fedrulefit.experiments import boxes
from fedrulefit.experiments.claims import Claim, Verdict
from fedrulefit.experiments.markdown import make_table, write_texts
from fedrulefit.experiments.methods import (
    METHODS,
    OURS,
    PROPOSED,
    Effort,
    Task,
    fit_method,
    method_seed,
    score,
    timed,
)
from fedrulefit.experiments.traumadata import COLUMNS, trauma_study
from fedrulefit.experiments.units import Row
from fedrulefit.model import Model, RuleTerm

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

COVARIATES: Final = trauma_study().names
COMPARED: Final = (PROPOSED, OURS, "bfi")
TRAINING: Final = 0.7
TOP: Final = 5
MIN_SUPPORT: Final = 0.1
PAPER_RULES: Final = 82
"""Rules that the paper's model has."""
STEADY: Final = 1.1
"""How many times the SD of BFI still counts as stable."""
SEPARATION: Final = 0.1
"""Difference in mortality from which subgroups count as clearly separated."""


@dataclass(frozen=True)
class TraumaUnit:
    """One split of the patients.

    Parameters
    ----------
    repetition, seed : int
    effort : Effort
    patients : tuple of tuple of int
        The table, row by row, in the order of :data:`COLUMNS`.
    """

    repetition: int
    seed: int
    effort: Effort
    patients: tuple[tuple[int, ...], ...]

    @property
    def key(self) -> str:
        """Name of its file."""
        return f"split-{self.repetition:04d}"

    def run(self) -> list[Row]:
        """Fit and score every method on the split."""
        table = np.array(self.patients)
        train = split_within(table[:, 0], np.random.default_rng([self.seed, self.repetition]))
        seed = method_seed(self.seed, self.repetition)
        return [self._row(method, table, train, seed) for method in COMPARED]

    def _row(self, method: str, table: Any, train: Bools, seed: int) -> Row:
        values, outcome = _values(table), table[:, -1]
        if method == "bfi":
            values = standardise(values, train)
        task = Task(
            values[train], outcome[train], table[train, 0], trauma_study(), seed, self.effort
        )
        (model,), seconds = timed(lambda: fit_method(method, task))
        importance = importances(model, values[train])
        return {
            "repetition": self.repetition,
            "method": method,
            **score([model], values[~train], outcome[~train]),
            **dict(zip(COVARIATES, importance, strict=True)),
            "seconds": seconds,
        }


def make_units(
    repetitions: int, *, seed: int, effort: Effort, patients: pd.DataFrame
) -> list[TraumaUnit]:
    """Return one unit per split."""
    rows = tuple(patients[list(COLUMNS)].itertuples(index=False, name=None))
    return [TraumaUnit(repetition, seed, effort, rows) for repetition in range(repetitions)]


def split_within(sites: Any, rng: np.random.Generator) -> Bools:
    """Return who is in the training set: 70 % of every site, shape (n_rows,)."""
    train = np.zeros(len(sites), np.bool_)
    for site in np.unique(sites):
        members = rng.permutation(np.flatnonzero(sites == site))
        train[members[: round(TRAINING * len(members))]] = True
    return train


def standardise(values: Floats, train: Bools) -> Floats:
    """Return numbers minus their training mean over their training SD; sex as it is."""
    scaled: Floats = (values - values[train].mean(axis=0)) / values[train].std(axis=0, ddof=1)
    sex = COVARIATES.index("sex")
    scaled[:, sex] = values[:, sex]
    return scaled


def importances(model: Any, values: Floats) -> Floats:
    """Return the importance of every covariate, the largest being 100."""
    if isinstance(model, BFIClassifier):
        value: Floats = np.abs(model.coef_[0]) * values.std(axis=0, ddof=1)
    else:
        value = model.model_.variable_importance()
    return 100 * value / max(float(value.max()), 1e-300)


def _values(table: Any) -> Floats:
    return np.asarray(table[:, [COLUMNS.index(name) for name in COVARIATES]], np.float64)


# --- one model of all patients ------------------------------------------------------------


def fit_all(patients: pd.DataFrame, *, seed: int, effort: Effort) -> dict[str, Model]:
    """Return the models of all patients: with the paper's settings, and with ours."""
    table = patients[list(COLUMNS)].to_numpy()
    task = Task(
        _values(table), table[:, -1], table[:, 0], trauma_study(), method_seed(seed), effort
    )
    return {name: fit_method(name, task)[0].model_ for name in (PROPOSED, OURS)}


def rules_table(model: Model) -> str:
    """Return table 1 as Markdown: exp(coef), importance (first = 100), support."""
    frame = model.rules_frame(top=TOP, min_support=MIN_SUPPORT)
    largest = frame["importance"].max()
    rows = [
        (
            f"Rule {place}",
            row["rule"],
            f"{row['odds_ratio']:.2f}",
            f"{100 * row['importance'] / largest:.0f}",
            f"{row['support']:.2f}",
        )
        for place, row in enumerate(frame.to_dict("records"), start=1)
    ]
    return make_table(("", "rule", "exp(coef)", "importance", "support"), rows)


def subgroups_table(model: Model) -> str:
    """Return the numbers of figure 3 as Markdown."""
    rows = [
        (
            row["rule"],
            f"{row['inside']:.0f}, {100 * row['rate_inside']:.0f} %",
            f"{row['outside']:.0f}, {100 * row['rate_outside']:.0f} %",
        )
        for row in _subgroups(model).to_dict("records")
    ]
    return make_table(("rule", "patients inside, mortality", "patients outside, mortality"), rows)


def _subgroups(model: Model) -> pd.DataFrame:
    return model.subgroups_frame(top=TOP, min_support=MIN_SUPPORT)


# --- splits -------------------------------------------------------------------------------


def splits_table(rows: pd.DataFrame) -> str:
    """Return AUC, rules and importances over the splits, as Markdown."""
    lines = []
    for name in COMPARED:
        here = rows[rows["method"] == name]
        auc, n_rules = here["auc"].to_numpy(), here["rules"].mean()
        sd = auc.std(ddof=1)
        lines.append(
            (
                METHODS[name].label,
                f"{np.median(auc):.4f}",
                f"{auc.mean():.4f} ({sd:.4f})",
                "–" if np.isnan(n_rules) else f"{n_rules:.0f}",
                *(f"{here[covariate].mean():.0f}" for covariate in COVARIATES),
            )
        )
    head = ("method", "median AUC", "mean AUC (SD over splits)", "rules", *COVARIATES)
    return make_table(head, lines)


def draw_splits(rows: pd.DataFrame) -> Figure:
    """Draw figure 4: AUC over the splits, and the importance of the covariates."""
    long = rows.melt(["method"], list(COVARIATES), var_name="setting", value_name="importance")
    panels = [
        boxes.Panel("AUC of test patients", rows.assign(setting="splits"), "auc", ["splits"]),
        boxes.Panel("Importance (largest of a split = 100)", long, "importance", COVARIATES),
    ]
    styles = {name: METHODS[name] for name in COMPARED}
    return boxes.draw(panels, "Trauma", styles, columns=len(panels))


def draw_subgroups(model: Model) -> Figure:
    """Draw figure 3: mortality inside and outside each rule."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained", dpi=100)
    plot.subgroups(model, figure.subplots(), top=TOP, min_support=MIN_SUPPORT)
    return figure


# --- claims -------------------------------------------------------------------------------


def check_claims(rows: pd.DataFrame, models: Mapping[str, Model]) -> list[Claim]:
    """Check the claims of section 4 one by one."""
    splits = {name: rows[rows["method"] == name].set_index("repetition") for name in COMPARED}

    def both(text: str, check: Any, source: Mapping[str, Any]) -> Claim:
        return Claim(text, *(check(source[name]) for name in (PROPOSED, OURS)))

    return [
        both(
            "Slightly higher median AUC than BFI [medians over these splits; the error of the mean "
            "difference counts that splits overlap]",
            lambda own: _check_auc(own["auc"], splits["bfi"]["auc"]),
            splits,
        ),
        both(
            f"… with relatively stable variability [SD of AUC at most {STEADY} times that of BFI]",
            lambda own: _check_sd(own["auc"], splits["bfi"]["auc"]),
            splits,
        ),
        both(
            "GCS is consistently the most important covariate, followed by age and ISS; sex is the "
            "least [order of the means]",
            _check_order,
            splits,
        ),
        Claim("… for BFI, too", _check_order(splits["bfi"])),
        both(
            "Age and ISS are relatively more important than in BFI [share of GCS, means]",
            lambda own: _check_shares(own, splits["bfi"]),
            splits,
        ),
        both(
            f"The model generated {PAPER_RULES} rules [kept, within a factor of 2]",
            lambda model: _check_count(len(model.rule_terms)),
            models,
        ),
        both(
            "… [the same, if candidates are meant]",
            lambda model: _check_count(model.provenance.candidates),
            models,
        ),
        both(
            "Rules for a low GCS or a high ISS raise the risk, rules for a high GCS lower it "
            f"[top {TOP}, rules that ask for one of both directions only; a low ISS must lower it]",
            _check_directions,
            models,
        ),
        both(
            "Mortality inside and outside each rule is clearly separated "
            f"[top {TOP}: by at least {SEPARATION}]",
            _check_separation,
            models,
        ),
        both(
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
    gaps = _gaps(_subgroups(model))
    return Verdict(
        bool((gaps >= SEPARATION).all()) if len(gaps) else None,
        "differences " + ", ".join(f"{gap:.2f}" for gap in gaps),
    )


def _check_widest(model: Model) -> Verdict:
    shown, gaps = _shown(model), _gaps(_subgroups(model))
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


# --- all of it ----------------------------------------------------------------------------


def write_results(rows: pd.DataFrame, models: Mapping[str, Model], folder: Path) -> list[Claim]:
    """Write models, tables and figures into `folder`; return the claims."""
    claims = check_claims(rows, models)
    for name, model in models.items():
        model.save(folder / f"model-{name}.json")
        draw_subgroups(model).savefig(folder / f"figure3-{name}.png")
    tables = [("Splits", splits_table(rows))]
    for name, model in models.items():
        tables.append((f"Table 1, {METHODS[name].label}", rules_table(model)))
        tables.append((f"Figure 3, {METHODS[name].label}", subgroups_table(model)))
    text = "\n\n".join(f"**{title}**\n\n{table}" for title, table in tables)
    write_texts(folder, {"tables.md": text})
    draw_splits(rows).savefig(folder / "figure4.png")
    return claims
