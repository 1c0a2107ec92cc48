"""The fitted model: rules and linear terms with coefficients, and where they come from.

F(x) = β₀ + Σ β_k·r_k(x) + Σ β*_j·l_j(x_j) (paper 2.1), see :mod:`fedrulefit.core.predictor`;
what F says of a patient is told by the family of the outcome (:mod:`fedrulefit.core.families`).

A model holds no patient. What it is made of is in :mod:`fedrulefit.model.terms`, how it is
worded in :mod:`fedrulefit.model.wording`. Saving and loading is in :mod:`fedrulefit.model.file`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fedrulefit.core.arrays import Floats
from fedrulefit.core.between import MOSTLY, within_importance
from fedrulefit.core.grid import RULE_SPREAD, Grid
from fedrulefit.core.importance import variable_importance
from fedrulefit.core.predictor import predict
from fedrulefit.core.rounding import EXACT, PUBLISHED, Rounding
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model import frames
from fedrulefit.model.display import Shown
from fedrulefit.model.evaluation import Evaluation
from fedrulefit.model.explanation import Explanation, explain_rows
from fedrulefit.model.matrix import find_first, list_columns
from fedrulefit.model.over_time import OverTime
from fedrulefit.model.saying import Said
from fedrulefit.model.subgroups import Among
from fedrulefit.model.terms import LinearTerm, Provenance, RuleTerm, Term, rate_of
from fedrulefit.model.validation import SiteValidation
from fedrulefit.model.wishes import Edit, Wish
from fedrulefit.model.wording import describe_term, unit_change
from fedrulefit.privacy.bill import PrivacyBill
from fedrulefit.study import Study

if TYPE_CHECKING:
    import pandas as pd
    from onnx import ModelProto

    from fedrulefit.model.at_hospital import Hospital
    from fedrulefit.model.prediction import Patients
    from fedrulefit.table.sources import Source


@dataclass(frozen=True, eq=False, repr=False)
class Model(Shown, Said, OverTime):
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
    validation : SiteValidation or None
        How well models of all sites but one predict the patients of that one, if that
        was tried (internal–external validation); by site, never together.
    rounding : Rounding or None
        How coarse its counts are (``fedrulefit.model.publish``); None for a file that was
        made before they were rounded.
    distribution : tuple of (n_codes,) or (n_codes + 1,) float64, or None
        Of each covariate, the share of patients with each code, missing values last, as the
        released (noisy) histograms tell (``shares``). None in an older file, and where
        no histogram was released.
    baseline : tuple of float
        Where patients have several predictors (:attr:`Family.n_baseline`), each one's baseline
        less the intercept; empty with one.
    dispersion : float or None
        α = 1/θ of negative binomial counts, 0 where Poisson's do; None of other outcomes.
    hospital : Hospital or None
        Where it predicts, if it is :meth:`at` one; never in its file.
    wishes : tuple of Wish
        What became of the wishes of the study.
    edits : tuple of Edit
        By which it was made of another model, the last one last.
    """

    study: Study
    grid: Grid
    intercept: float
    terms: tuple[Term, ...]
    privacy: PrivacyBill
    provenance: Provenance
    evaluation: Evaluation | None = None
    validation: SiteValidation | None = None
    rounding: Rounding | None = EXACT
    distribution: tuple[Floats, ...] | None = None
    baseline: tuple[float, ...] = ()
    dispersion: float | None = None
    hospital: Hospital | None = None
    wishes: tuple[Wish, ...] = ()
    edits: tuple[Edit, ...] = ()

    @cached_property
    def rule_terms(self) -> tuple[RuleTerm, ...]:
        """The rules among the terms."""
        return tuple(t for t in self.terms if isinstance(t, RuleTerm))

    @cached_property
    def linear_terms(self) -> tuple[LinearTerm, ...]:
        """The linear terms among the terms."""
        return tuple(t for t in self.terms if isinstance(t, LinearTerm))

    @cached_property
    def features(self) -> frozenset[int]:
        """The covariates that a term names: the others do not matter to a prediction."""
        return frozenset(j for term in self.terms for j in term.features)

    def linear_predictor(self, values: Floats) -> Floats:
        """Return F(x) of values in the study's coding, shape (n_rows, n_features), as they are.

        Shape (n_rows,); of classes, each of which has terms of its own, (n_rows, n_levels).
        """
        own = list_columns(self)
        return predict(values, self.grid, own.rules, own.linear, own.coefficients(self))

    def decision_function(self, source: Source | Floats) -> Floats:
        """Return the linear predictor F(x) of every patient, shape (n_rows,).

        Of a yes/no outcome that is the logarithm of the odds; of classes one for each class,
        shape (n_rows, n_levels).

        `source` is a table with the study's columns (file or data frame), or an array of the
        covariates in the study's order with categories as positions of their levels. What the
        study does not foresee counts as its ``unusual`` says: NaN where that leaves no prediction.
        """
        self._warn_of_hospital()
        patients = self._read(source)
        return patients.hide(self.linear_predictor(patients.values))

    def predict(self, source: Source | Floats) -> Floats:
        """Return the prediction of every patient, shape (n_rows,).

        Of a yes/no outcome that is its probability, of a number the value in the study's unit, of
        a count the rate, of a time the risk by the last horizon; of ordered levels the
        probability of any but the lowest, of classes that of each, shape (n_rows, n_levels).
        """
        return find_first(self, self.decision_function(source))

    def predict_proba(self, source: Source | Floats) -> Floats:
        """Return the probabilities that are predicted; see :meth:`predict`.

        Of outcomes of several levels, ordered or not, that of each: shape (n_rows, n_levels).
        A :class:`FedRuleFitError` of outcomes of which none is predicted.
        """
        family = self.study.family
        if not family.predicts_shares:
            told = family.words.prediction
            raise FedRuleFitError(f"this model gives no probability but a {told}: call 'predict'")
        if not family.names or family.of_first:
            return self.predict(source)
        from fedrulefit.model.prediction import predict_levels

        self._warn_of_hospital()
        return predict_levels(self, source)

    def predict_frame(self, source: Source | Floats) -> pd.DataFrame:
        """Return every patient's prediction, and what is unusual about the patient.

        Columns: the prediction and F (of a yes/no outcome ``probability`` and ``log_odds``), of a
        time with several horizons the risk by each (such as ``risk_90``), of an outcome of several
        levels the probability of each (``probability_`` and its name), and ``flags``, such as
        "age above the range: counted as 90"; empty where nothing is unusual.
        """
        from fedrulefit.model.prediction import predict_frame

        self._warn_of_hospital()
        return predict_frame(self, source)

    def explain(self, source: Source | Floats) -> list[Explanation]:
        """Take every patient's prediction apart."""
        self._warn_of_hospital()
        return explain_rows(self, self._read(source))

    def read_values(self, source: Source | Floats) -> Floats:
        """Return the covariates as predictions count them, coded, (n_rows, n_features)."""
        return self._read(source).values

    def _read(self, source: Source | Floats) -> Patients:
        from fedrulefit.model.prediction import read_patients

        return read_patients(self, source)

    def describe(self, term: Term) -> str:
        """Return a term in the study's own words."""
        return describe_term(term, self.grid, self.study, self.distribution)

    def effect(self, term: Term) -> float:
        """Return a rule's effect; for a linear term, that of the change it names.

        For a yes/no outcome exp(β). The family of the outcome says what it is.
        """
        change = 1.0
        if isinstance(term, LinearTerm):
            axis = self.grid.axes[term.feature]
            change = RULE_SPREAD * unit_change(axis) / axis.spread
        return self.study.family.effect(term.coefficient * change)

    def support(self, term: Term) -> float:
        """Return the share of training patients who satisfy a rule; NaN where none is told.

        That is so for a linear term, and where too few are inside or outside the rule.
        """
        if isinstance(term, LinearTerm) or term.inside is None:
            return float("nan")
        return term.inside / self.provenance.patients

    def between_sites(self, term: Term) -> float:
        """Return roughly which share of a term's variance lies between the sites (η²).

        Right within 0.05 for up to ten sites; NaN where that is not told.
        """
        return float("nan") if term.between_sites is None else term.between_sites

    def stands_for_site(self, term: Term) -> bool:
        """Whether more than half of a term's variance lies between the sites: it stands for one."""
        return self.between_sites(term) > MOSTLY

    def shares(self, feature: int) -> Floats:
        """Return the share of patients with each code of a covariate; they add up to 1.

        Shape (n_codes,) or, unless the covariate is complete, (n_codes + 1,), missing values
        last. Where the model does not tell, all codes count alike.
        """
        if self.distribution is None:
            n_codes = self.grid.axes[feature].every_code.bit_count()
            return np.full(n_codes, 1 / n_codes)
        told = self.distribution[feature]
        shares: Floats = told / told.sum()
        return shares

    @property
    def rate(self) -> float:
        """The share of patients with the outcome; NaN where that is not told."""
        return rate_of(self.provenance.patients, self.provenance.events)

    @property
    def is_rounded(self) -> bool:
        """Whether coefficients and counts were rounded after the fit."""
        return self.rounding not in (None, EXACT)

    def top_rules(self, *, top: int | None = None, min_support: float = 0.0) -> list[RuleTerm]:
        """Return the rules of more than `min_support`, most important first, at most `top`."""
        return [term for term in self.rule_terms if self.is_supported(term, min_support)][:top]

    def is_supported(self, term: Term, min_support: float) -> bool:
        """Whether more than this share of patients satisfy a rule; of 0 all terms are."""
        return min_support <= 0 or self.support(term) > min_support

    def rules_frame(self, *, top: int | None = None, min_support: float = 0.0) -> pd.DataFrame:
        """Return the terms as a data frame, most important first.

        Columns ``rule``, of classes ``level`` (the class for which it counts), ``importance``,
        ``idea`` (rules for nearly the same patients have one number), ``kind``, ``coefficient``;
        ``between_sites``, roughly the share of its variance that lies between sites, NaN where
        untold; ``importance_within``, its importance by its spread within sites, as the paper has
        it; ``stands_for_site``, whether ``between_sites`` is more than half;
        ``support`` (the share of training patients who satisfy the rule); ``found_again``, in how
        many folds of the cross-validation; ``in_halves``, in which share of random halves, NaN if
        untold; ``held_out_odds_ratio``, of held-out patients within
        hospitals, and its 95 % interval, ``low_held_out`` and ``high_held_out``, NaN where too
        few tell it; ``spread_between_hospitals``, the standard deviation of hospitals' own effects
        beyond chance on the scale of F, and ``low_elsewhere`` and ``high_elsewhere``, between what
        the effect may lie in a further hospital, NaN where fewer than five hospitals tell it; and
        last its weight, shrunk by the penalty, as an effect (``odds_ratio``; of other outcomes both
        have the names of their effects).

        Parameters
        ----------
        top : int, optional
            At most so many rows.
        min_support : float
            Leaves out rules of less support; linear terms have none and stay only where this is 0.
        """
        return frames.rules_frame(self, top, min_support)

    def subgroups_frame(
        self,
        *,
        top: int | None = None,
        min_support: float = 0.0,
        by_site: bool = False,
        patients: Among | None = None,
    ) -> pd.DataFrame:
        """Return the outcome's level inside and outside each rule (paper, fig. 3).

        Columns ``rule``, ``among`` (of which patients), ``inside`` and ``outside`` (how many),
        ``rate_inside`` and ``rate_outside``, ``difference`` (inside − outside), and 95 %
        intervals: ``low_inside``, ``high_inside`` and so on (Wilson), ``low_difference`` and
        ``high_difference`` (Newcombe). NaN where too few patients are inside or outside to tell.

        So of a yes/no outcome. Of others the family names the columns: of a number
        ``mean_inside``, ``mean_outside`` and ``difference``, of a count ``rate_inside``,
        ``rate_outside`` and ``rate_ratio``, of a time ``risk_inside`` and so on; and only those
        who were held out tell them. Of several levels, ordered or not, ``share_inside`` is of those
        beyond the first, ``share_mild_inside`` of those at the level “mild”, where no level has
        too few inside or outside.

        Parameters
        ----------
        top, min_support
            As for :meth:`rules_frame`.
        by_site : bool
            A row per rule and site, for the rules of which that is known (see the setting
            ``per_site``), and a first column ``site``; no intervals.
        patients : {"held-out", "training"}, optional
            By default those that were held out, if the model tells of them. Rates of training
            patients, which the rules were learnt from, differ by more than they will in new
            patients, and have no intervals.

        Raises
        ------
        FedRuleFitError
            If held-out patients are asked for, and the model tells nothing of them.
        """
        return frames.subgroups_frame(self, top, min_support, patients, by_site=by_site)

    def importance_frame(self) -> pd.DataFrame:
        """Return the covariates with their importance (paper 2.3), most important first.

        Columns ``covariate``, ``importance``; ``between_sites``, the mean of its terms', each
        by its part of the importance, NaN where none of them tells it;
        ``importance_within``, its importance by its terms' spread within sites; and
        ``stands_for_site``, whether ``between_sites`` is more than half.
        """
        return frames.importance_frame(self)

    def history_frame(self) -> pd.DataFrame:
        """Return the penalised mean loss, round by round; empty for a rounded model."""
        return frames.history_frame(self)

    def coefficients_frame(self) -> pd.DataFrame:
        """Return the coefficient of every term at every λ of the path.

        Empty where λ was given, and for a rounded model.
        """
        return frames.coefficients_frame(self)

    def path_frame(self) -> pd.DataFrame:
        """Return the path of the cross-validation; empty where λ was given."""
        return frames.path_frame(self)

    def partial_dependence(self, feature: str | tuple[str, str]) -> pd.DataFrame:
        """Return how the linear predictor depends on a covariate, or on two, without any data.

        Of a yes/no outcome its column is ``log_odds``: what the terms add that name this
        covariate (or one of these two), the intercept left out. Rules that name others, too,
        count in proportion to how often the rest of the rule holds, which their support
        and the ``distribution`` tell. ``alone`` leaves those rules out; ``lowest`` and
        ``highest`` bound the sum with them, whatever the other covariates are.

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
            the sum from rules that name both. Of classes, the rows of each one after another,
            and a first column ``level``.
        """
        from fedrulefit.model.dependence import describe_dependence

        return describe_dependence(self, (feature,) if isinstance(feature, str) else feature)

    def variable_importance(self, *, within: bool = False) -> Floats:
        """Return the importance of every covariate (paper 2.3), (n_features,).

        Parameters
        ----------
        within : bool
            By the terms' spread within sites; NaN where one of its terms does not tell it.
        """
        return self._share(self.importance_within if within else self.importance)

    @property
    def importance(self) -> Floats:
        """Importance of each term, (n_terms,)."""
        return np.array([term.importance for term in self.terms])

    @property
    def importance_within(self) -> Floats:
        """Importance of each term by its spread within sites, (n_terms,); NaN if not told.

        As the paper has it: importance² is this² plus what lies between the sites.
        """
        between = np.array([self.between_sites(term) for term in self.terms])
        return within_importance(self.importance, between)

    def variable_between(self) -> Floats:
        """Return roughly which share of the covariates' variance lies between the sites.

        The mean of each one's terms that tell it, by their parts of its importance; NaN where
        none does. Shape (n_features,).
        """
        between = np.array([self.between_sites(term) for term in self.terms])
        known = np.where(np.isnan(between), 0.0, self.importance)
        whole, part = self._share(known), self._share(known * np.nan_to_num(between))
        return np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole > 0)

    def _share(self, importance: Floats) -> Floats:
        """Share what the terms have among their covariates."""
        features = [term.features for term in self.terms]
        return variable_importance(importance, features, self.study.n_features)

    def rounded(
        self, multiple: int = PUBLISHED.multiple, smallest: int = PUBLISHED.smallest
    ) -> Model:
        """Return the model to publish, no finer than it is (``fedrulefit.model.publish``).

        Counts become multiples of `multiple`, and those below `smallest` are not told.
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
        linear_predictor: bool = False,
    ) -> str:
        """Return one SELECT that scores a table in a database.

        It gives each row the prediction (of a yes/no outcome ``probability``), NULL for none,
        the risk by each horizon, and ``flags``, as :meth:`predict_frame` does. It reads the raw
        columns, text or number, that the model's terms name.

        Parameters
        ----------
        dialect : {"duckdb", "sqlite", "postgresql"}
        table : str or sequence of str
            Name of the table or view; ``("clinic", "patients")`` with a schema.
        key : str or sequence of str
            Columns to show beside the prediction, such as a patient's number.
        columns : mapping of str to str, optional
            The table's name of a covariate, where it is not the study's.
        linear_predictor : bool
            Whether to give F, too: of a yes/no outcome the column ``log_odds``.
        """
        from fedrulefit.model.export.sql import write_sql

        return write_sql(
            self,
            dialect,
            table=table,
            key=key,
            columns=columns,
            linear_predictor=linear_predictor,
        )

    def to_onnx(self) -> ModelProto:
        """Return the model as an ONNX graph; needs the extra ``onnx``.

        One input of shape (n_rows, 1) per covariate: a number as double, NaN where missing;
        others as strings in the study's spelling, empty where missing. Outputs are F and the
        prediction, of a yes/no outcome ``log_odds`` and ``probability``, NaN for none, the risk by
        each horizon, and ``flags``: a number per covariate; the graph's metadata has their words.
        """
        from fedrulefit.model.export.onnx import build_onnx

        return build_onnx(self)

    @classmethod
    def load(cls, path: str | Path) -> Model:
        """Check a model file and build the model."""
        from fedrulefit.model.file import load_model

        return load_model(Path(path))
