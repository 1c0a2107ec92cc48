"""A model's terms, subgroups, path and measures as data frames, one row each.

In: a model, its evaluation or its validation. Out: pandas frames, whose columns are documented
where people ask for them, at :class:`~fedrulefit.model.Model`,
:class:`~fedrulefit.model.evaluation.Evaluation` and
:class:`~fedrulefit.model.validation.SiteValidation`. NaN stands for what is not told.

pandas loads when a frame is asked for: a hospital's process makes models, and needs none.
"""

from __future__ import annotations

import math
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING

from fedrulefit.core.between import MOSTLY
from fedrulefit.core.families.side_risks import RiskLevels
from fedrulefit.core.families.sides import Moment
from fedrulefit.core.heterogeneity import Across
from fedrulefit.errors import FedRuleFitError
from fedrulefit.model.evidence import find_adjusted, find_effect, find_elsewhere, tells_adjusted
from fedrulefit.model.ideas import number_ideas
from fedrulefit.model.subgroups import NAMES, Among, Subgroup, choose_patients, list_subgroups
from fedrulefit.model.terms import RuleTerm

if TYPE_CHECKING:
    import pandas as pd

    from fedrulefit.model.evaluation import Evaluation
    from fedrulefit.model.model import Model
    from fedrulefit.model.validation import SiteValidation


def rules_frame(model: Model, top: int | None, min_support: float) -> pd.DataFrame:
    """Return :meth:`Model.rules_frame`."""
    import pandas as pd

    effect = model.study.family.words.effect_column
    held_out = name_held_out(model)
    adjusted = name_adjusted_columns(model) if tells_adjusted(model) else ()
    within, own_terms = model.importance_within.tolist(), model.study.family.own_terms
    ideas = number_ideas(model)
    rows = [
        {
            "rule": model.describe(term),
            **({"level": term.level} if own_terms else {}),
            "importance": term.importance,
            "idea": ideas[place],
            "kind": "rule" if isinstance(term, RuleTerm) else "linear",
            "coefficient": term.coefficient,
            "between_sites": model.between_sites(term),
            "importance_within": size,
            "stands_for_site": model.stands_for_site(term),
            "support": model.support(term),
            "found_again": math.nan if term.found_again is None else term.found_again,
            "in_halves": math.nan if term.in_halves is None else term.in_halves,
            **dict(zip(adjusted, find_adjusted(model, term), strict=bool(adjusted))),
            **dict(zip(held_out, find_effect(model, term), strict=True)),
            **dict(zip(_ELSEWHERE, find_elsewhere(model, term), strict=True)),
            effect: model.effect(term),
        }
        for place, (term, size) in enumerate(zip(model.terms, within, strict=True))
        if model.is_supported(term, min_support)
    ]
    first, *others = _OF_A_TERM
    columns = [first, *["level"] * own_terms, *others, *_ELSEWHERE, *adjusted, *held_out, effect]
    return pd.DataFrame(rows[:top], columns=columns)


_ELSEWHERE = ("spread_between_hospitals", "low_elsewhere", "high_elsewhere")


def name_held_out(model: Model) -> tuple[str, str, str]:
    """Return the columns of a rule's effect on held-out patients, and of its interval."""
    return f"held_out_{model.study.family.words.effect_column}", "low_held_out", "high_held_out"


def name_adjusted_columns(model: Model) -> tuple[str, str, str]:
    """Return the columns of a term's effect given all others, and of its interval."""
    return f"adjusted_{model.study.family.words.effect_column}", "low_adjusted", "high_adjusted"


# On a narrow screen pandas shows the outermost columns, and leaves out those in between: so the
# rule comes first, and its effect last.
_OF_A_TERM = (
    "rule",
    "importance",
    "idea",
    "kind",
    "coefficient",
    "between_sites",
    "importance_within",
    "stands_for_site",
    "support",
    "found_again",
    "in_halves",
)


def subgroups_frame(
    model: Model, top: int | None, min_support: float, patients: Among | None, *, by_site: bool
) -> pd.DataFrame:
    """Return :meth:`Model.subgroups_frame`."""
    import pandas as pd

    among = choose_patients(model, patients, by_site=by_site)
    found = list_subgroups(model, among, top=top, min_support=min_support, by_site=by_site)
    rows = [
        {
            "site": one.site,
            "rule": model.describe(replace(one.term, level=None)),
            "among": NAMES[among],
            "inside": one.inside,
            "outside": one.outside,
            **asdict(one.levels),
            **_split(model, one, among),
        }
        for one in found
    ]
    columns = [*["site"] * by_site, "rule", "among"]
    for side in ("inside", "outside"):
        columns += [side, f"level_{side}", f"low_{side}", f"high_{side}"]
    columns += ["gap", "low_gap", "high_gap"]
    if among == "held-out":
        columns += name_splits(model)
    return pd.DataFrame(rows, columns=columns).rename(columns=name_levels(model))


def name_splits(model: Model) -> list[str]:
    """Return the columns of the shares of single levels; none of other outcomes."""
    names = model.study.family.told_levels
    return [f"share_{name}_{side}" for side in ("inside", "outside") for name in names]


def _split(model: Model, one: Subgroup, among: Among) -> dict[str, float]:
    """Return the shares of single levels of held-out patients, by column; none if not told."""
    told = one.split(model.study.family.levels) if among == "held-out" else {}
    shares = [share for side in ("inside", "outside") for share in told.get(side, ())]
    return dict(zip(name_splits(model), shares, strict=True)) if shares else {}


def name_levels(model: Model) -> dict[str, str]:
    """Return how the family names the columns of levels, and of what is between two."""
    words = model.study.family.levels.words
    sides = {f"level_{side}": f"{words.level}_{side}" for side in ("inside", "outside")}
    return sides | {f"{end}gap": f"{end}{words.gap}" for end in ("", "low_", "high_")}


def importance_frame(model: Model) -> pd.DataFrame:
    """Return :meth:`Model.importance_frame`."""
    import pandas as pd

    between = model.variable_between()
    columns = {
        "covariate": list(model.study.names),
        "importance": model.variable_importance(),
        "between_sites": between,
        "importance_within": model.variable_importance(within=True),
        "stands_for_site": between > MOSTLY,
    }
    return pd.DataFrame(columns).sort_values(
        "importance", ascending=False, kind="stable", ignore_index=True
    )


def history_frame(model: Model) -> pd.DataFrame:
    """Return :meth:`Model.history_frame`."""
    import pandas as pd

    losses = model.provenance.history
    return pd.DataFrame({"round": range(len(losses)), "objective": losses})


def coefficients_frame(model: Model) -> pd.DataFrame:
    """Return :meth:`Model.coefficients_frame`."""
    import pandas as pd

    told = all(term.path for term in model.terms)
    points = model.provenance.path if told else ()
    columns: dict[str, object] = {"penalty": [point.penalty for point in points]}
    if points:
        columns |= {model.describe(term): term.path for term in model.terms}
    return pd.DataFrame(columns)


def path_frame(model: Model) -> pd.DataFrame:
    """Return :meth:`Model.path_frame`."""
    import pandas as pd

    columns = ["penalty", "deviance", "error", "terms", "rules"]
    return pd.DataFrame([asdict(point) for point in model.provenance.path], columns=columns)


def metrics_frame(evaluation: Evaluation) -> pd.DataFrame:
    """Return :meth:`Evaluation.metrics_frame`."""
    import pandas as pd

    rows = [{"site": name, **vars(found)} for name, found in evaluation.all_measures.items()]
    if evaluation.within is not None:
        rows[0] |= {f"within_{name}": value for name, value in vars(evaluation.within).items()}
    return pd.DataFrame(rows)


def validation_frame(validation: SiteValidation) -> pd.DataFrame:
    """Return :meth:`SiteValidation.metrics_frame`."""
    import pandas as pd

    rows = [{"site": name, **vars(found)} for name, found in validation.sites.items()]
    rows += [{"site": name} for name in validation.too_few]
    names = [field.name for field in fields(validation.family.judge.measures)]
    return pd.DataFrame(rows, columns=["site", *names])


def summary_frame(validation: SiteValidation) -> pd.DataFrame:
    """Return :meth:`SiteValidation.summary_frame`."""
    import pandas as pd

    rows = [
        {"measure": found.name, **vars(found.across), "scale": found.scale}
        for found in validation.summary()
    ]
    names = [field.name for field in fields(Across)]
    return pd.DataFrame(rows, columns=["measure", *names, "scale"])


def levels_frame(evaluation: Evaluation) -> pd.DataFrame:
    """Return :meth:`Evaluation.levels_frame`."""
    import pandas as pd

    rows = evaluation.family.judge.levels_of(evaluation.overall)
    columns = [
        end for c in evaluation.family.judge.level_columns for end in (c.name, c.upto) if end
    ]
    return pd.DataFrame([vars(row) for row in rows], columns=columns)


def calibration_frame(evaluation: Evaluation, n_groups: int) -> pd.DataFrame:
    """Return :meth:`Evaluation.calibration_frame`."""
    import pandas as pd

    judge, told = evaluation.family.judge, evaluation.published
    groups = judge.groups(evaluation.overall, n_groups, told, evaluation.unit)
    return pd.DataFrame([vars(group) for group in groups])


def decision_frame(evaluation: Evaluation) -> pd.DataFrame:
    """Return :meth:`Evaluation.decision_frame`."""
    import pandas as pd

    judge = evaluation.family.judge
    columns = [column.name for column in judge.decision_columns]
    rows = [vars(found) for found in judge.decisions(evaluation.overall)]
    return pd.DataFrame(rows, columns=columns)


def subgroup_curves_frame(model: Model, top: int | None, min_support: float) -> pd.DataFrame:
    """Return :meth:`Model.subgroup_curves_frame`."""
    import pandas as pd

    levels, rows = model.study.family.levels, []
    if not isinstance(levels, RiskLevels):
        raise FedRuleFitError("only of a time to an event there are risks over time")
    for one in list_subgroups(model, "held-out", top=top, min_support=min_support, by_site=False):
        words = model.describe(replace(one.term, level=None))
        for name, side in zip(("inside", "outside"), one.term.sides or (), strict=False):
            last = Moment(levels.ends[-1], side.level, side.error, math.nan, side.events or 0.0)
            for moment in (*side.curve, last):
                low, high = levels.reach(moment)
                found = (moment.time, moment.level, low, high, moment.watched)
                rows.append((words, name, *found))
    columns = ["rule", "side", "time", "risk", "low", "high", "watched"]
    return pd.DataFrame(rows, columns=columns)
