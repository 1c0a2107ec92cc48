"""The fitted model: rules and linear terms with coefficients, and where they come from.

F(x) = β₀ + Σ β_k·r_k(x) + Σ β*_j·l_j(x_j) (paper 2.1); the probability of the
outcome is σ(F(x)), and nothing else.

A model holds no patient. Saving and loading is in :mod:`fedrulefit.model.file`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy.special import expit

from fedrulefit.core.arrays import Floats
from fedrulefit.core.certificate import Certificate
from fedrulefit.core.design import build_design
from fedrulefit.core.grid import RULE_SPREAD, Axis, Grid, encode, linear_values
from fedrulefit.core.importance import variable_importance
from fedrulefit.core.rounding import EXACT, PUBLISHED, Rounding
from fedrulefit.core.rules import Condition, Rule, describe_condition, format_number
from fedrulefit.errors import DataError, FedRuleFitError
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.privacy.bill import PrivacyBill
from fedrulefit.study import Category, Number, Study, YesNo

if TYPE_CHECKING:
    import pandas as pd
    from onnx import ModelProto

    from fedrulefit.table.sources import Source


class Counts(NamedTuple):
    """Patients of one site, and those of them with the outcome.

    With their weights, and rounded as the site told them: to multiples of five, or of
    its policy's smallest count.
    """

    patients: float
    events: float


@dataclass(frozen=True)
class RuleTerm:
    """A rule of the model.

    Parameters
    ----------
    rule : Rule
    coefficient : float
    importance : float
        ``|β|·std`` (paper 2.3), on the scale of the log-odds.
    inside, events_inside : float or None
        Patients who satisfy the rule, and those of them with the outcome,
        summed over sites (with their weights). None where that is not told: too few
        are inside or outside, or have, or have not, the outcome there.
    path : tuple of float
        Coefficient at each λ of the path; empty where λ was given, and in a rounded model.
    by_site : tuple of Counts
        Who satisfies the rule at each of ``Provenance.sites``; empty where that is not
        told: the study did not ask for it, or some site has too few.
    """

    rule: Rule
    coefficient: float
    importance: float
    inside: float | None
    events_inside: float | None
    path: tuple[float, ...] = ()
    by_site: tuple[Counts, ...] = ()

    @property
    def features(self) -> tuple[int, ...]:
        """The covariates that the rule names."""
        return self.rule.features


@dataclass(frozen=True)
class LinearTerm:
    """A linear term of the model; its coefficient is for 0.4·x/s*."""

    feature: int
    coefficient: float
    importance: float
    path: tuple[float, ...] = ()

    @property
    def features(self) -> tuple[int, ...]:
        """The covariate of the term."""
        return (self.feature,)


Term = RuleTerm | LinearTerm


@dataclass(frozen=True)
class PathPoint:
    """One λ of the path.

    Parameters
    ----------
    penalty : float
        λ.
    deviance, error : float
        Mean held-out deviance over folds, and its standard error.
    terms, rules : int
        Terms and rules that a fit to all patients keeps.
    """

    penalty: float
    deviance: float
    error: float
    terms: int
    rules: int


@dataclass(frozen=True)
class Provenance:
    """What the model rests on.

    Parameters
    ----------
    sites : tuple of str
    patients : float
        Over all sites, with weights.
    events : float or None
        Those of them with the outcome; None where too few have it, or have it not.
    candidates : int
        Rules that entered the fit.
    solver : str
    penalty : float
        λ, as given or as chosen.
    rounds : int
        Rounds of communication of the fit, cross-validation included.
    objective : float
        Penalised mean loss at the end of the fit: in a rounded model, before rounding.
    certificate : Certificate
        How far that is from the optimum of the pooled problem: of a rounded model,
        before rounding.
    history : tuple of float
        Penalised mean loss round by round: where the round starts (FedDA), or
        where it got to (exact). Empty in a rounded model.
    path : tuple of PathPoint
        The path of the cross-validation; empty where λ was given.
    software : tuple of (name, version)
    by_site : tuple of Counts
        Patients of each site; empty without ``per_site``, or where a site has too few
        with or without the outcome.
    """

    sites: tuple[str, ...]
    patients: float
    events: float | None
    candidates: int
    solver: str
    penalty: float
    rounds: int
    objective: float
    certificate: Certificate
    history: tuple[float, ...]
    path: tuple[PathPoint, ...]
    software: tuple[tuple[str, str], ...]
    by_site: tuple[Counts, ...] = ()


@dataclass(frozen=True)
class Contribution:
    """What one term adds to one patient's log-odds."""

    term: str
    kind: Literal["rule", "linear"]
    value: float
    coefficient: float
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """One prediction taken apart: baseline + contributions = log-odds."""

    baseline: float
    contributions: tuple[Contribution, ...]
    log_odds: float
    probability: float


@dataclass(frozen=True, eq=False)
class Model:
    """A rule ensemble, ready to predict.

    Parameters
    ----------
    study : Study
    grid : Grid
    intercept : float
    terms : tuple of RuleTerm and LinearTerm
        Those with a coefficient other than 0, most important first.
    privacy : PrivacyBill
    provenance : Provenance
    evaluation : Evaluation or None
        How well it predicts patients that were held out, if some were.
    validation : Evaluation or None
        How well models of all sites but one predict the patients of that one, if that
        was tried (internal–external validation).
    rounding : Rounding or None
        How coarse its counts are (``fedrulefit.model.publish``); None for a file that was
        made before they were rounded.
    """

    study: Study
    grid: Grid
    intercept: float
    terms: tuple[Term, ...]
    privacy: PrivacyBill
    provenance: Provenance
    evaluation: Evaluation | None = None
    validation: Evaluation | None = None
    rounding: Rounding | None = EXACT

    @cached_property
    def rule_terms(self) -> tuple[RuleTerm, ...]:
        """The rules among the terms."""
        return tuple(t for t in self.terms if isinstance(t, RuleTerm))

    @cached_property
    def linear_terms(self) -> tuple[LinearTerm, ...]:
        """The linear terms among the terms."""
        return tuple(t for t in self.terms if isinstance(t, LinearTerm))

    @property
    def _columns(self) -> Sequence[Term]:
        """The terms in the order of the design's columns."""
        return [*self.rule_terms, *self.linear_terms]

    def decision_function(self, source: Source | Floats) -> Floats:
        """Return the log-odds F(x) of every patient, shape (n_rows,).

        `source` is a table with the study's columns (file or data frame), or
        an array of the covariates in the study's order with categories as
        positions of their levels.
        """
        values = self.read_values(source)
        rules = [t.rule for t in self.rule_terms]
        design = build_design(encode(values, self.grid), rules, self._linear(values))
        coef = [t.coefficient for t in self._columns]
        return design.dot(np.array([self.intercept, *coef]))

    def predict_proba(self, source: Source | Floats) -> Floats:
        """Return σ(F(x)), the probability of the outcome, shape (n_rows,)."""
        probability: Floats = expit(self.decision_function(source))
        return probability

    def explain(self, source: Source | Floats) -> list[Explanation]:
        """Take every patient's prediction apart."""
        values = self.read_values(source)
        codes, linear = encode(values, self.grid), self._linear(values)
        hits = build_design(codes, [t.rule for t in self.rule_terms], linear)
        rows = np.hstack([hits.dense_rules(), linear])
        return [self._explain_row(row) for row in rows]

    def _explain_row(self, row: Floats) -> Explanation:
        parts = [
            Contribution(
                term=self.describe(term),
                kind="rule" if isinstance(term, RuleTerm) else "linear",
                value=float(value),
                coefficient=term.coefficient,
                contribution=float(value) * term.coefficient,
            )
            for term, value in zip(self._columns, row, strict=True)
            if value != 0
        ]
        parts.sort(key=lambda part: -abs(part.contribution))
        log_odds = self.intercept + sum(part.contribution for part in parts)
        return Explanation(self.intercept, tuple(parts), log_odds, float(expit(log_odds)))

    def describe(self, term: Term) -> str:
        """Return a term in the study's own words."""
        if isinstance(term, RuleTerm):
            return describe_rule(term.rule, self.grid, self.study)
        name = self.study.names[term.feature]
        covariate, axis = self.study.covariates[name], self.grid.axes[term.feature]
        if isinstance(covariate, Number):
            unit = f" {covariate.unit}" if covariate.unit else ""
            return f"{name}, per {format_number(unit_change(axis))}{unit}"
        no, yes = level_words(covariate)
        return f"{name}, {yes} against {no}"

    def odds_ratio(self, term: Term) -> float:
        """Return exp(β) for a rule; for a linear term, per the change it names."""
        if isinstance(term, RuleTerm):
            return float(np.exp(term.coefficient))
        axis = self.grid.axes[term.feature]
        change = RULE_SPREAD * unit_change(axis) / axis.spread
        return float(np.exp(term.coefficient * change))

    def support(self, term: Term) -> float:
        """Return the share of patients who satisfy a rule; NaN where none is told.

        That is so for a linear term, and where too few are inside or outside the rule.
        """
        if isinstance(term, LinearTerm) or term.inside is None:
            return float("nan")
        return term.inside / self.provenance.patients

    @property
    def rate(self) -> float:
        """The share of patients with the outcome; NaN where that is not told."""
        return _rate(self.provenance.patients, self.provenance.events)

    @property
    def is_rounded(self) -> bool:
        """Whether coefficients and counts were rounded after the fit."""
        return self.rounding not in (None, EXACT)

    @property
    def unjudged(self) -> str:
        """Why there is no evaluation, in words."""
        if self.study.settings.holdout > 0:
            return "Too few patients were held out to tell how well the model predicts them"
        return "No patients were held out"

    @property
    def hidden(self) -> str:
        """Which counts are not told, in words; empty where all are."""
        smallest = 0 if self.rounding is None else self.rounding.smallest
        if smallest < 2:
            return ""
        return (
            f"“Not told”: fewer than {smallest} patients are inside or outside the rule, or have, "
            "or have not, the outcome there."
        )

    def top_rules(self, *, top: int | None = None, min_support: float = 0.0) -> list[RuleTerm]:
        """Return the rules of more than `min_support`, most important first, at most `top`."""
        return [term for term in self.rule_terms if self._is_supported(term, min_support)][:top]

    def _is_supported(self, term: Term, min_support: float) -> bool:
        return min_support <= 0 or self.support(term) > min_support

    def rules_frame(self, *, top: int | None = None, min_support: float = 0.0) -> pd.DataFrame:
        """Return the terms as a data frame, most important first.

        Parameters
        ----------
        top : int, optional
            At most so many rows.
        min_support : float
            Leaves out rules of less support; linear terms have none and stay
            only where this is 0.
        """
        import pandas as pd

        rows = [
            {
                "rule": self.describe(term),
                "kind": "rule" if isinstance(term, RuleTerm) else "linear",
                "coefficient": term.coefficient,
                "odds_ratio": self.odds_ratio(term),
                "importance": term.importance,
                "support": self.support(term),
            }
            for term in self.terms
            if self._is_supported(term, min_support)
        ]
        columns = ["rule", "kind", "coefficient", "odds_ratio", "importance", "support"]
        return pd.DataFrame(rows[:top], columns=columns)

    def subgroups_frame(
        self, *, top: int | None = None, min_support: float = 0.0, by_site: bool = False
    ) -> pd.DataFrame:
        """Return the outcome rate inside and outside each rule (paper, fig. 3).

        NaN where too few patients are inside or outside to tell.

        With `by_site` a row per rule and site, for the rules of which that is known
        (see the setting ``per_site``), and a first column ``site``.
        """
        import pandas as pd

        origin = self.provenance
        rows: list[dict[str, object]] = []
        for term in self.top_rules(top=top, min_support=min_support):
            rule = self.describe(term)
            if not by_site:
                inside, whole = (term.inside, term.events_inside), (origin.patients, origin.events)
                rows.append({"rule": rule, **_rates(inside, whole)})
            elif term.by_site:
                sites = zip(origin.sites, term.by_site, origin.by_site, strict=True)
                for site, inside, whole in sites:
                    rows.append({"site": site, "rule": rule, **_rates(inside, whole)})
        columns = ["rule", "inside", "rate_inside", "outside", "rate_outside"]
        return pd.DataFrame(rows, columns=["site", *columns] if by_site else columns)

    def importance_frame(self) -> pd.DataFrame:
        """Return the covariates with their importance (paper 2.3), most important first."""
        import pandas as pd

        columns = {"covariate": list(self.study.names), "importance": self.variable_importance()}
        return pd.DataFrame(columns).sort_values(
            "importance", ascending=False, kind="stable", ignore_index=True
        )

    def history_frame(self) -> pd.DataFrame:
        """Return the penalised mean loss, round by round; empty for a rounded model."""
        import pandas as pd

        losses = self.provenance.history
        return pd.DataFrame({"round": range(len(losses)), "objective": losses})

    def coefficients_frame(self) -> pd.DataFrame:
        """Return the coefficient of every term at every λ of the path.

        Empty where λ was given, and for a rounded model.
        """
        import pandas as pd

        told = all(term.path for term in self.terms)
        points = self.provenance.path if told else ()
        columns: dict[str, object] = {"penalty": [point.penalty for point in points]}
        if points:
            columns |= {self.describe(term): term.path for term in self.terms}
        return pd.DataFrame(columns)

    def path_frame(self) -> pd.DataFrame:
        """Return the path of the cross-validation; empty where λ was given."""
        import pandas as pd

        columns = ["penalty", "deviance", "error", "terms", "rules"]
        return pd.DataFrame([asdict(p) for p in self.provenance.path], columns=columns)

    def partial_dependence(self, feature: str | tuple[str, str]) -> pd.DataFrame:
        """Return how the log-odds depend on a covariate, or on two, without any data.

        ``log_odds`` is what the terms add that name this covariate (or one of
        these two), the intercept left out. Rules that name others, too, count in
        proportion to how often the rest of the rule holds, which their support
        tells. ``alone`` leaves those rules out; ``lowest`` and ``highest`` bound
        the sum with them, whatever the other covariates are.

        Parameters
        ----------
        feature : str or (str, str)

        Returns
        -------
        frame : pandas.DataFrame
            A row per point: for a number the ends of its range, the limits of
            its linear term, each cut-off in use and the last float below it;
            for others the levels; NaN for missing. Between two points of a
            number only its linear term changes. Columns ``value`` (a level as
            its position), ``label``, ``log_odds``, ``alone``, ``lowest``,
            ``highest``; for two covariates ``value_1``, ``label_1``,
            ``value_2``, ``label_2`` and ``interaction``, the part of
            ``log_odds`` from rules that name both.
        """
        from fedrulefit.model.dependence import describe_dependence

        return describe_dependence(self, (feature,) if isinstance(feature, str) else feature)

    def variable_importance(self) -> Floats:
        """Return the importance of every covariate (paper 2.3), (n_features,)."""
        return variable_importance(
            np.array([t.importance for t in self.terms]),
            [t.features for t in self.terms],
            self.study.n_features,
        )

    def rounded(
        self, multiple: int = PUBLISHED.multiple, smallest: int = PUBLISHED.smallest
    ) -> Model:
        """Return the model to publish, no finer than it is (``fedrulefit.model.publish``).

        Parameters
        ----------
        multiple : int
            Counts become multiples of this.
        smallest : int
            Smaller counts are not told.
        """
        from fedrulefit.model.publish import round_model

        return round_model(self, Rounding(multiple, smallest))

    def save(self, path: str | Path) -> None:
        """Write the model as readable JSON."""
        from fedrulefit.model.file import save_model

        save_model(self, Path(path))

    def to_sql(
        self,
        dialect: str,
        *,
        table: str | Sequence[str] = "patients",
        key: str | Sequence[str] = (),
        columns: Mapping[str, str] | None = None,
        log_odds: bool = False,
    ) -> str:
        """Return one SELECT that scores a table in a database.

        It gives each row ``probability``, equal to :meth:`predict_proba`; NULL
        where a cell is neither a value of the study nor missing. It reads the
        raw columns, text or number, that the model's terms name.

        Parameters
        ----------
        dialect : {"duckdb", "sqlite", "postgresql"}
        table : str or sequence of str
            Name of the table or view; ``("clinic", "patients")`` with a schema.
        key : str or sequence of str
            Columns to show beside the probability, such as a patient's number.
        columns : mapping of str to str, optional
            The table's name of a covariate, where it is not the study's.
        log_odds : bool
            Whether to give the column ``log_odds``, too.
        """
        from fedrulefit.model.export.sql import write_sql

        return write_sql(self, dialect, table=table, key=key, columns=columns, log_odds=log_odds)

    def to_onnx(self) -> ModelProto:
        """Return the model as an ONNX graph; needs the extra ``onnx``.

        One input of shape (n_rows, 1) per covariate: a number as double, NaN
        where missing; a category or yes/no as a string in the study's
        spelling, empty where missing. Outputs ``log_odds`` and
        ``probability``; NaN where an input is not a value of the study.
        """
        from fedrulefit.model.export.onnx import build_onnx

        return build_onnx(self)

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Check a model file and build the model."""
        from fedrulefit.model.file import load_model

        return load_model(Path(path))

    def read_values(self, source: Source | Floats) -> Floats:
        """Return the covariates in the study's coding, (n_rows, n_features)."""
        if isinstance(source, np.ndarray):
            values = np.asarray(source, dtype=np.float64)
            if values.ndim != 2 or values.shape[1] != self.study.n_features:
                raise FedRuleFitError(
                    f"expected an array of {self.study.n_features} columns, "
                    f"got shape {values.shape}"
                )
            self._check_values(values)
            return values
        from fedrulefit.table.check import load_table

        return load_table(source, self.study, need_outcome=False).values

    def _check_values(self, values: Floats) -> None:
        """Refuse what no table could hold: infinity, or the place of no level."""
        for name, axis, column in zip(self.study.names, self.grid.axes, values.T, strict=True):
            known = column[~np.isnan(column)]
            if axis.complete and len(known) < len(column):
                raise DataError(f"column {name!r} must not be missing: the study has it complete")
            if np.isinf(known).any():
                raise DataError(f"column {name!r} holds infinity: replace it by a number or NaN")
            last = axis.n_codes - 1
            if not axis.ordered and not np.isin(known, np.arange(axis.n_codes)).all():
                raise DataError(f"column {name!r} must hold positions of levels, 0 to {last}")

    def _linear(self, values: Floats) -> Floats:
        """The linear values of the model's own linear terms."""
        place = {feature: k for k, feature in enumerate(self.grid.linear)}
        chosen = [place[t.feature] for t in self.linear_terms]
        return linear_values(values, self.grid)[:, chosen]


def unit_change(axis: Axis) -> float:
    """Return the change of x for which a linear term's odds ratio is told.

    For a number 1, 2 or 5 times a power of ten, the nearest to its spread s*; for
    yes/no the whole way from no to yes.
    """
    if axis.kind != "number":
        return 1.0
    power = 10.0 ** math.floor(math.log10(axis.spread))
    steps = [step * power for step in (1, 2, 5, 10)]
    return float(min(steps, key=lambda step: abs(math.log(step / axis.spread))))


def level_words(covariate: Category | YesNo) -> tuple[str, ...]:
    """Return the words for a covariate's codes, in their order."""
    if covariate.labels is not None:
        return covariate.labels
    levels = (covariate.no, covariate.yes) if isinstance(covariate, YesNo) else covariate.levels
    return tuple(str(level) for level in levels)


def describe_rule(rule: Rule, grid: Grid, study: Study) -> str:
    """Return a rule in the study's names and units."""
    return " & ".join(_describe(condition, grid, study) for condition in rule)


def _describe(condition: Condition, grid: Grid, study: Study) -> str:
    name = study.names[condition.feature]
    covariate, axis = study.covariates[name], grid.axes[condition.feature]
    if isinstance(covariate, Number):
        return describe_condition(condition, axis, name, unit=covariate.unit)
    return describe_condition(condition, axis, name, levels=level_words(covariate))


Told = tuple[float | None, float | None]
"""Patients, and those of them with the outcome; None where that is not told."""


def _rates(inside: Told, whole: Told) -> dict[str, object]:
    patients, events = (
        None if part is None or all_of is None else all_of - part
        for all_of, part in zip(whole, inside, strict=True)
    )
    return {
        "inside": math.nan if inside[0] is None else inside[0],
        "rate_inside": _rate(*inside),
        "outside": math.nan if patients is None else patients,
        "rate_outside": _rate(patients, events),
    }


def _rate(patients: float | None, events: float | None) -> float:
    """Share with the outcome; counts are rounded, so it is cut to 0 … 1."""
    if not patients or events is None:
        return math.nan
    return min(max(events / patients, 0.0), 1.0)
