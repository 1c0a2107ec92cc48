"""The settings of the method; named sets of them are in :mod:`fedrulefit.study.presets`.

A setting is one field of :class:`Settings`: its default, its value in the preset ``paper``,
its bounds and its meaning stand there and nowhere else. The keys of the study file, the
parameters of the estimators, ``fedrulefit study settings``, error messages and the tables
of the documentation follow (``tests/unit/test_settings_parity.py``).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import Field, model_validator

from fedrulefit.core.arrays import MAX_CODES
from fedrulefit.core.bins import Style
from fedrulefit.study.fields import Frozen

Group = Literal[
    "Histograms",
    "Trees",
    "Candidate terms",
    "Fit",
    "Cross-validation",
    "Exact solver",
    "FedDA",
    "Patients and sites",
]
T = TypeVar("T")


LATER: Final = ("max_terms", "max_conditions", "baseline", "baseline_spread", "adjusted")
"""Settings that studies once had not: at their default they leave a study's hash as it was."""


class _Unused:
    """The paper's method has no use for the setting."""


UNUSED: Final = _Unused()


def setting(
    default: T,
    *,
    paper: T | _Unused,
    group: Group,
    meaning: str,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
) -> T:
    """Declare a setting.

    Parameters
    ----------
    default : T
    paper : T or UNUSED
        Its value in the preset ``paper``, stated even where it is the default: a later
        change of the default must not move the paper's. Only what its method does not use
        is left open.
    group : Group
        Under which heading it is listed.
    meaning : str
        In sentences, for users; names stand in single backticks.
    gt, ge, lt, le : float, optional
        Bounds.
    """
    extra: dict[str, Any] = {"group": group}
    if not isinstance(paper, _Unused):
        extra["paper"] = paper
    declared: T = Field(
        default, description=meaning, json_schema_extra=extra, gt=gt, ge=ge, lt=lt, le=le
    )
    return declared


class Settings(Frozen):
    """Every number that the method leaves to its user; each field tells its own meaning.

    ``fedrulefit study settings`` and :func:`fedrulefit.study.describe_settings` list them.
    """

    noise: bool = setting(
        True,
        paper=True,
        group="Histograms",
        meaning="False turns the noise of the histograms off.",
    )
    epsilon_total: float = setting(
        10.0,
        paper=UNUSED,
        group="Histograms",
        meaning="Most ε of all histograms of a run together; smaller is more private. Every "
        "covariate gets the same share of it, and none more than 1.",
        gt=0,
    )
    epsilon: float | None = setting(
        None,
        paper=1.0,
        group="Histograms",
        meaning="ε of one histogram, however many there are; it wins over `epsilon_total`. "
        "Left out, or None: a share of `epsilon_total`; only `noise` turns the noise off.",
        gt=0,
    )
    n_bins: int = setting(
        100,
        paper=100,
        group="Histograms",
        meaning='B: bins of a number\'s histogram; with `cutoff_style = "round"` the most, since '
        "they end at round numbers.",
        ge=2,
        le=10_000,
    )
    n_cutoffs: int = setting(
        48,
        paper=20,
        group="Histograms",
        meaning="Q: the most cut-offs of a covariate.",
        ge=1,
        le=MAX_CODES - 1,
    )
    cutoff_style: Style = setting(
        "round",
        paper="quantile",
        group="Histograms",
        meaning="Which numbers are cut-offs, where the study does not fix them. `round`: the "
        "roundest (…, 100, 50, 20, 10, 5, …; multiples of a `step`) with at least 1/(Q + 1) of the "
        "patients between neighbours; nearly the same under any noise. `quantile`: Q quantiles, "
        "at edges of equal bins, as in the paper.",
    )
    winsor: float = setting(
        0.025,
        paper=0.025,
        group="Histograms",
        meaning="q: share of patients winsorised at either end of a linear term.",
        ge=0,
        lt=0.5,
    )
    repair: Literal["clip", "project"] = setting(
        "project",
        paper="clip",
        group="Histograms",
        meaning="How negative noisy counts are mended after summing: clipped at 0 (the paper "
        "with erratum 9), or projected onto counts of the same total.",
    )
    spreads: Literal["exact", "histogram"] = setting(
        "histogram",
        paper="exact",
        group="Histograms",
        meaning="Whether sites send the spread s* of each number exactly, or it is derived from "
        "the released histogram.",
    )
    centre: bool = setting(
        True,
        paper=False,
        group="Histograms",
        meaning="Whether linear terms are centred at the released mean. The model is the same, "
        "since the intercept absorbs it; FedDA then no longer depends on the origin of a unit.",
    )
    n_trees: int = setting(
        333,
        paper=333,
        group="Trees",
        meaning="C: boosted trees per site; as many again for each fold of the cross-validation.",
        ge=0,
        le=100_000,
    )
    mean_leaves: float = setting(
        4.0,
        paper=4.0,
        group="Trees",
        meaning="L̄: mean number of terminal nodes of a tree (erratum 6).",
        ge=2,
    )
    learning_rate: float = setting(
        0.01,
        paper=0.01,
        group="Trees",
        meaning="v: shrinkage of the boosting.",
        gt=0,
        le=1,
    )
    subsample: float = setting(
        1.0,
        paper=1.0,
        group="Trees",
        meaning="Share of a site's patients that each tree sees.",
        gt=0,
        le=1,
    )
    min_leaf: float = setting(
        5,
        paper=5,
        group="Trees",
        meaning="Least (weighted) number of the site's patients in a leaf.",
        ge=1,
    )
    drop_complements: bool = setting(
        True,
        paper=False,
        group="Candidate terms",
        meaning="Whether only one of a one-condition rule and its negation is kept.",
    )
    linear_terms: bool = setting(
        True,
        paper=True,
        group="Candidate terms",
        meaning="Whether numbers and yes/no covariates enter as linear terms, too.",
    )
    single_cutoffs: bool = setting(
        True,
        paper=False,
        group="Candidate terms",
        meaning="Whether single cut-offs are candidate rules, too, and “x is missing”; they need "
        "no data.",
    )
    max_candidates: int = setting(
        10_000,
        paper=10_000,
        group="Candidate terms",
        meaning="Most candidate rules that need no data: levels of categories, “x is missing” and "
        "single cut-offs. Where there could be more, every covariate has an equal share of single "
        "cut-offs, spread evenly over its own; trees split at all of them.",
        ge=1,
        le=50_000,
    )
    linear_factor: float = setting(
        0.2,
        paper=1.0,
        group="Candidate terms",
        meaning="Penalty factor π of linear terms, and of “x is missing” where x may be.",
        ge=0,
    )
    interaction_factor: float = setting(
        2.0,
        paper=1.0,
        group="Candidate terms",
        meaning="Penalty factor π of rules with two or more conditions; rules with one "
        "condition have 1.",
        ge=0,
    )
    max_conditions: int | None = setting(
        None,
        paper=None,
        group="Candidate terms",
        meaning="Most conditions of a rule; longer ones are not used.",
        ge=1,
    )
    solver: Literal["exact", "fedda"] = setting(
        "exact",
        paper="fedda",
        group="Fit",
        meaning="How coefficients are found: exactly, by proximal Newton with a certificate, or "
        "by the paper's Federated Dual Averaging.",
    )
    penalty: Literal["cv"] | Annotated[float, Field(ge=0)] = setting(
        "cv",
        paper=0.01,
        group="Fit",
        meaning="λ of the ℓ1 penalty, for the mean loss (erratum 2): larger means fewer rules. "
        "`cv` chooses it by federated cross-validation (exact solver only).",
    )
    baseline: Literal["shared", "afterwards", "site"] = setting(
        "shared",
        paper="shared",
        group="Fit",
        meaning="`shared`: one baseline (intercept) for all sites. `afterwards`: the same model, "
        "of which each site then finds a baseline of its own, for itself; it never leaves it, and "
        "predictions elsewhere go without. `site`: such baselines take part in the fit (exact "
        "solver only); of few sites, sums then tell them.",
    )
    baseline_spread: float = setting(
        0.5,
        paper=UNUSED,
        group="Fit",
        meaning="τ: how much sites' own baselines differ, as a standard deviation on the scale of "
        "the linear predictor (of a number, in standard deviations of the errors). Smaller pulls "
        "them harder to the shared one. It is given, not learnt: that would tell of single sites.",
        gt=0,
        le=4,
    )
    folds: int = setting(
        5,
        paper=UNUSED,
        group="Cross-validation",
        meaning="Folds of the cross-validation.",
        ge=2,
        le=100,
    )
    path_length: int = setting(
        30,
        paper=UNUSED,
        group="Cross-validation",
        meaning="How many λs the cross-validation tries at most.",
        ge=2,
        le=1000,
    )
    path_ratio: float = setting(
        1e-3,
        paper=UNUSED,
        group="Cross-validation",
        meaning="Smallest λ of the path, as a share of the largest.",
        gt=0,
        lt=1,
    )
    selection: Literal["min", "1se", "pruned"] = setting(
        "pruned",
        paper="min",
        group="Cross-validation",
        meaning="`pruned`: the fewest terms, dropped and moved one by one from the best lasso on, "
        "that cost hardly anything in the cross-validation; of negative binomial counts `min`. "
        "`min`: the lasso at the λ of least cross-validated deviance. `1se`: at the largest λ "
        "within one standard error of it.",
    )
    max_terms: int | None = setting(
        None,
        paper=UNUSED,
        group="Cross-validation",
        meaning="Most terms of the model, as `max_rules`, but linear terms are counted, too. "
        "With `pruned` selection it is exact: the best terms of at most so many are sought.",
        ge=0,
    )
    max_rules: int | None = setting(
        None,
        paper=UNUSED,
        group="Cross-validation",
        meaning="Most rules of the model. Cross-validation chooses among the λs that keep at "
        "most so many on the path; where the exact fit keeps more, it goes back up the path. "
        "A λ that is given is not changed.",
        ge=0,
    )
    tolerance: float = setting(
        1e-8,
        paper=UNUSED,
        group="Exact solver",
        meaning="KKT residual at which the exact solver stops.",
        gt=0,
    )
    max_rounds: int = setting(
        100,
        paper=UNUSED,
        group="Exact solver",
        meaning="Most rounds of the exact solver: for the whole path of the cross-validation, "
        "which fails if it needs more, and, counted anew, for the exact fit at the final λ, "
        "which then stops short of `tolerance`.",
        ge=1,
    )
    max_active: int = setting(
        300,
        paper=UNUSED,
        group="Exact solver",
        meaning="Most terms whose second derivatives are asked for in a round, unless more have "
        "a coefficient.",
        ge=1,
    )
    rounds: int = setting(
        300,
        paper=300,
        group="FedDA",
        meaning="R: rounds of FedDA.",
        ge=1,
        le=1_000_000,
    )
    local_steps: int = setting(
        20,
        paper=20,
        group="FedDA",
        meaning="G: steps of each site in a round of FedDA.",
        ge=1,
        le=100_000,
    )
    server_step: float = setting(
        1.0,
        paper=1.0,
        group="FedDA",
        meaning="η_s: step of the coordinator.",
        gt=0,
    )
    client_step: float = setting(
        0.01,
        paper=0.01,
        group="FedDA",
        meaning="η_c: step of a site.",
        gt=0,
    )
    weighting: Literal["patients", "sites"] = setting(
        "patients",
        paper="patients",
        group="Patients and sites",
        meaning="Whether a site counts by its patients, or all sites count equally (erratum 3; "
        "not under masks).",
    )
    holdout: float = setting(
        0.0,
        paper=0.0,
        group="Patients and sites",
        meaning="Share of each site's patients that the model is not learnt from, but judged on "
        "in the end; 0 judges on none. Outcome rates of subgroups are then of these patients; of "
        "those that rules were learnt from, differences look larger than they are.",
        ge=0,
        le=0.9,
    )
    adjusted: bool = setting(
        False,
        paper=False,
        group="Patients and sites",
        meaning="Whether the model also tells what each term does given all others, of "
        "held-out patients: some more rounds, with `holdout` above 0.",
    )
    per_site: bool = setting(
        False,
        paper=False,
        group="Patients and sites",
        meaning="Whether the model also tells each site's own results: outcome rates inside and "
        "outside rules, and the evaluation. Every site's policy must allow `site-results`.",
    )
    between_sites: bool = setting(
        True,
        paper=True,
        group="Patients and sites",
        meaning="Whether the model tells of each term roughly which share of its variance lies "
        "between the sites, where there are several. Every site's policy must allow "
        "`between-sites`.",
    )
    seed: int = setting(
        0,
        paper=UNUSED,
        group="Patients and sites",
        meaning="Seed of leaf counts and subsamples, and, where no site deals them by a secret "
        "of its own, of folds and held-out patients; never of privacy noise.",
        ge=0,
        lt=2**63,
    )

    @property
    def prunes(self) -> bool:
        """Whether terms are pruned after the path."""
        return self.selection == "pruned" and self.penalty == "cv" and self.solver == "exact"

    @property
    def fits_own(self) -> bool:
        """Whether coefficients are fitted together with sites' own baselines."""
        return self.baseline == "site"

    @property
    def fit_spread(self) -> float | None:
        """τ, where coefficients are fitted together with sites' own baselines; else None."""
        return self.baseline_spread if self.fits_own else None

    @property
    def own_spread(self) -> float | None:
        """τ, where each site has a baseline of its own; None where they share one."""
        return None if self.baseline == "shared" else self.baseline_spread

    @model_validator(mode="after")
    def _check(self) -> Settings:
        if self.solver == "fedda" and self.penalty == "cv":
            raise ValueError("FedDA needs a number as 'penalty': cross-validation is exact only")
        return self
