"""The public names of the package: what ``api.md`` lists, and the site documents in full."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel

import fedrulefit
from fedrulefit.experiments.markdown import make_table

API: Final[Sequence[tuple[str, Sequence[str]]]] = (
    (
        "Estimators",
        (
            "fedrulefit.FederatedRuleFitClassifier",
            "fedrulefit.FederatedRuleFitClassifier.fit",
            "fedrulefit.FederatedRuleFitClassifier.predict",
            "fedrulefit.FederatedRuleFitClassifier.predict_proba",
            "fedrulefit.FederatedRuleFitClassifier.predict_frame",
            "fedrulefit.FederatedRuleFitClassifier.decision_function",
            "fedrulefit.FederatedRuleFitClassifier.transform",
            "fedrulefit.FederatedRuleFitClassifier.get_feature_names_out",
            "fedrulefit.FederatedRuleFitClassifier.with_penalty",
            "fedrulefit.FederatedRuleFitClassifier.at",
            "fedrulefit.FederatedRuleFitClassifier.rules_",
            "fedrulefit.FederatedRuleFitClassifier.coef_",
            "fedrulefit.FederatedRuleFitClassifier.intercept_",
            "fedrulefit.FederatedRuleFitClassifier.feature_importances_",
            "fedrulefit.FederatedRuleFitClassifier.variable_importance_",
            "fedrulefit.RuleFitClassifier",
            "fedrulefit.RuleFitClassifier.fit",
            "fedrulefit.FederatedRuleFitRegressor",
            "fedrulefit.FederatedRuleFitRegressor.fit",
            "fedrulefit.FederatedRuleFitRegressor.predict",
            "fedrulefit.FederatedRuleFitRegressor.predict_interval",
            "fedrulefit.FederatedRuleFitRegressor.score",
            "fedrulefit.RuleFitRegressor",
            "fedrulefit.RuleFitRegressor.fit",
            "fedrulefit.FederatedRuleFitSurvival",
            "fedrulefit.FederatedRuleFitSurvival.fit",
            "fedrulefit.FederatedRuleFitSurvival.predict",
            "fedrulefit.FederatedRuleFitSurvival.predict_frame",
            "fedrulefit.FederatedRuleFitSurvival.predict_survival_function",
            "fedrulefit.FederatedRuleFitSurvival.predict_cumulative_hazard_function",
            "fedrulefit.FederatedRuleFitSurvival.predict_cumulative_incidence",
            "fedrulefit.FederatedRuleFitSurvival.causes_",
            "fedrulefit.FederatedRuleFitSurvival.unique_times_",
            "fedrulefit.FederatedRuleFitSurvival.score",
            "fedrulefit.RuleFitSurvival",
            "fedrulefit.RuleFitSurvival.fit",
            "fedrulefit.estimators.curves.TimeFunction",
        ),
    ),
    (
        "Methods to compare with",
        (
            "fedrulefit.baselines.bfi.BFIClassifier",
            "fedrulefit.baselines.bfi.BFIClassifier.fit",
            "fedrulefit.baselines.bfi.Estimate",
            "fedrulefit.baselines.forest.FederatedForestClassifier",
            "fedrulefit.baselines.forest.FederatedForestClassifier.fit",
            "fedrulefit.baselines.rulefit.sample_share",
            "fedrulefit.baselines.rulefit.conventional_rulefit",
            "fedrulefit.baselines.rulefit.fit_each_site",
        ),
    ),
    (
        "Model",
        (
            "fedrulefit.Model",
            "fedrulefit.Model.load",
            "fedrulefit.Model.rounded",
            "fedrulefit.Model.save",
            "fedrulefit.Model.predict",
            "fedrulefit.Model.predict_proba",
            "fedrulefit.Model.predict_frame",
            "fedrulefit.Model.predict_risks",
            "fedrulefit.Model.predict_survival",
            "fedrulefit.Model.predict_cumulative_incidence",
            "fedrulefit.Model.incidence",
            "fedrulefit.Model.subgroup_curves_frame",
            "fedrulefit.Model.decision_function",
            "fedrulefit.Model.linear_predictor",
            "fedrulefit.Model.at",
            "fedrulefit.Model.estimate_baseline",
            "fedrulefit.model.own_file.OwnBaseline",
            "fedrulefit.model.own_file.OwnBaseline.load",
            "fedrulefit.model.own_file.OwnBaseline.save",
            "fedrulefit.Model.explain",
            "fedrulefit.Model.rules_frame",
            "fedrulefit.Model.subgroups_frame",
            "fedrulefit.Model.importance_frame",
            "fedrulefit.Model.history_frame",
            "fedrulefit.Model.path_frame",
            "fedrulefit.Model.coefficients_frame",
            "fedrulefit.Model.variable_importance",
            "fedrulefit.Model.importance_within",
            "fedrulefit.Model.between_sites",
            "fedrulefit.Model.variable_between",
            "fedrulefit.Model.stands_for_site",
            "fedrulefit.Model.stand_ins",
            "fedrulefit.Model.partial_dependence",
            "fedrulefit.Model.to_sql",
            "fedrulefit.Model.to_onnx",
            "fedrulefit.Model.describe",
            "fedrulefit.Model.effect",
            "fedrulefit.Model.support",
            "fedrulefit.Model.rule_terms",
            "fedrulefit.Model.linear_terms",
            "fedrulefit.Model.read_values",
            "fedrulefit.model.Counts",
            "fedrulefit.model.RuleTerm",
            "fedrulefit.model.LinearTerm",
            "fedrulefit.model.Explanation",
            "fedrulefit.model.Contribution",
            "fedrulefit.model.Provenance",
            "fedrulefit.model.PathPoint",
            "fedrulefit.core.certificate.Certificate",
            "fedrulefit.privacy.bill.PrivacyBill",
            "fedrulefit.privacy.bill.PrivacyBill.epsilon_histograms",
            "fedrulefit.privacy.bill.PrivacyBill.words",
        ),
    ),
    (
        "Study",
        (
            "fedrulefit.Study",
            "fedrulefit.Study.load",
            "fedrulefit.Study.from_mapping",
            "fedrulefit.Study.with_settings",
            "fedrulefit.Study.digest",
            "fedrulefit.Study.names",
            "fedrulefit.Study.epsilon_per_histogram",
            "fedrulefit.Study.epsilon_run",
            "fedrulefit.study.Settings",
            "fedrulefit.study.YesNoOutcome",
            "fedrulefit.study.NumberOutcome",
            "fedrulefit.study.CountOutcome",
            "fedrulefit.study.TimeOutcome",
            "fedrulefit.study.OrderedOutcome",
            "fedrulefit.study.ClassesOutcome",
            "fedrulefit.study.Number",
            "fedrulefit.study.Category",
            "fedrulefit.study.Ordered",
            "fedrulefit.study.YesNo",
            "fedrulefit.study.Unusual",
            "fedrulefit.study.Weight",
            "fedrulefit.study.Patient",
            "fedrulefit.study.resolve_settings",
            "fedrulefit.study.describe_settings",
            "fedrulefit.table.draft.draft_study",
            "fedrulefit.table.draft.Draft",
        ),
    ),
    (
        "Tables",
        (
            "fedrulefit.table.load_table",
            "fedrulefit.table.inspect_table",
            "fedrulefit.table.Table",
            "fedrulefit.table.Inspection",
            "fedrulefit.table.Finding",
        ),
    ),
    (
        "Engine",
        (
            "fedrulefit.engines.inprocess.fit",
            "fedrulefit.engines.leaveout.leave_one_site_out",
            "fedrulefit.engines.halves.find_in_halves",
            "fedrulefit.engines.base.Fitted",
            "fedrulefit.engines.base.Engine",
            "fedrulefit.engines.base.Engine.open",
            "fedrulefit.engines.base.Reached",
            "fedrulefit.engines.base.SitePlan",
            "fedrulefit.engines.base.SitePlan.make_sites",
            "fedrulefit.engines.ENGINES",
            "fedrulefit.registry.Registry.add",
            "fedrulefit.registry.Choice",
            "fedrulefit.testing.engines.EngineSuite",
            "fedrulefit.privacy.policy.Policy",
            "fedrulefit.privacy.policy.Policy.load",
            "fedrulefit.privacy.policy.Policy.words",
            "fedrulefit.privacy.ledger.Ledger",
            "fedrulefit.privacy.ledger.Release",
            "fedrulefit.privacy.mechanisms.OpenDPLaplace",
            "fedrulefit.privacy.mechanisms.UnsafeSeededLaplace",
        ),
    ),
    (
        "Evaluation",
        (
            "fedrulefit.model.evaluation.Evaluation",
            "fedrulefit.model.evaluation.Evaluation.metrics_frame",
            "fedrulefit.model.evaluation.Evaluation.calibration_frame",
            "fedrulefit.model.evaluation.Evaluation.levels_frame",
            "fedrulefit.model.evaluation.Evaluation.decision_frame",
            "fedrulefit.model.evaluation.Evaluation.heterogeneity",
            "fedrulefit.model.evaluation.Evaluation.of_predictions",
            "fedrulefit.model.validation.SiteValidation",
            "fedrulefit.model.validation.SiteValidation.metrics_frame",
            "fedrulefit.model.validation.SiteValidation.summary",
            "fedrulefit.model.validation.SiteValidation.summary_frame",
            "fedrulefit.core.families.yesno_within.Within",
            "fedrulefit.core.families.yesno_measures.Measures",
        ),
    ),
    (
        "Figures and report",
        (
            "fedrulefit.plot",
            "fedrulefit.plot.rules",
            "fedrulefit.plot.importance",
            "fedrulefit.plot.subgroups",
            "fedrulefit.plot.history",
            "fedrulefit.plot.path",
            "fedrulefit.plot.coefficients",
            "fedrulefit.plot.partial_dependence",
            "fedrulefit.plot.calibration",
            "fedrulefit.plot.decision",
            "fedrulefit.plot.hospitals",
            "fedrulefit.plot.survival",
            "fedrulefit.plot.incidence",
            "fedrulefit.plot.subgroup_curves",
            "fedrulefit.plot.overview",
            "fedrulefit.report.render_report",
            "fedrulefit.report.write_report",
        ),
    ),
    (
        "Errors",
        (
            "fedrulefit.errors.FedRuleFitError",
            "fedrulefit.errors.StudyError",
            "fedrulefit.errors.DataError",
            "fedrulefit.errors.ProtocolError",
            "fedrulefit.errors.PolicyError",
            "fedrulefit.errors.LedgerError",
            "fedrulefit.errors.FederationError",
            "fedrulefit.errors.FitError",
            "fedrulefit.errors.ModelFileError",
            "fedrulefit.errors.ReadingWarning",
        ),
    ),
    (
        "Synthetic patients",
        (
            "fedrulefit.demo",
            "fedrulefit.demo.draw_registry",
            "fedrulefit.demo.draw_fresh",
            "fedrulefit.demo.pool",
            "fedrulefit.demo.demo_study",
            "fedrulefit.demo.match_planted",
        ),
    ),
    ("Version", ("fedrulefit.__version__",)),
)


def find(name: str) -> Any:
    """Return the object of a dotted name, or raise AttributeError."""
    obj: Any = fedrulefit
    path = name.split(".")[1:]
    for k, part in enumerate(path):
        try:
            obj = getattr(obj, part)
        except AttributeError:
            module = ".".join(["fedrulefit", *path[: k + 1]])
            try:
                obj = __import__(module, fromlist=["_"])
            except ImportError:
                raise AttributeError(name) from None
    return obj


def make_api() -> str:
    """Return the public names with signature and first line of their docstring."""
    parts = []
    for title, names in API:
        rows = [(f"`{_signature(name)}`", tell_meaning(name)) for name in names]
        parts.append(f"## {title}\n\n{make_table(['name', 'meaning'], rows)}")
    return "\n\n".join(parts)


def tell_meaning(name: str) -> str:
    """Return what a public name is, in a line."""
    if name == "fedrulefit.__version__":
        return "The version of the package."
    return _plain(first_line(find(name)))


def _signature(name: str) -> str:
    obj = find(name)
    if isinstance(obj, type) and issubclass(obj, (BaseModel, Exception)):
        return name
    if not callable(obj):
        return name
    parameters = [
        p.replace(annotation=inspect.Parameter.empty, default=_Default.of(p))
        for p in inspect.signature(obj).parameters.values()
        if p.name not in ("self", "cls")
    ]
    return f"{name}{inspect.Signature(parameters)}"


class _Default:
    """A default that shows itself briefly."""

    def __init__(self, value: object) -> None:
        self.value = value

    @classmethod
    def of(cls, parameter: inspect.Parameter) -> object:
        """Return the default of a parameter, wrapped, or no default."""
        if parameter.default is inspect.Parameter.empty:
            return inspect.Parameter.empty
        return cls(parameter.default)

    def __repr__(self) -> str:
        """Return the value, or dots for a function and whatever is long."""
        short = repr(self.value)
        long = callable(self.value) or "factory" in short or len(short) > 40
        return "…" if long else short


def first_line(obj: object) -> str:
    """Return the first paragraph of a docstring."""
    return (inspect.getdoc(obj) or "").split("\n\n")[0].replace("``", "`")


def _plain(text: str) -> str:
    """Turn reStructuredText roles into Markdown code."""
    return re.sub(r":[a-z]+:`([^`]+)`", r"`\1`", text)
