"""A fit at another λ, on the rules of an earlier fit.

In: what the earlier fit released, and the same patients. Out: the model at the new λ, as a fit
from the beginning would give it. Nothing is grown, counted or drawn again, so what the earlier fit
cost stays, and what the new one releases is added.

Oracle: a fit from the beginning (``tests/unit/estimators/test_penalty.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fedrulefit.core.rules import Rule
from fedrulefit.engines import inprocess
from fedrulefit.engines.base import Fitted
from fedrulefit.errors import DataError
from fedrulefit.model import Model
from fedrulefit.model.own_file import fingerprint
from fedrulefit.privacy.bill import PrivacyBill
from fedrulefit.privacy.ledger import Ledger, Release
from fedrulefit.protocol.coordinator import Progress
from fedrulefit.study import Settings, Study, override_settings
from fedrulefit.table.patients import Table


@dataclass(frozen=True, eq=False)
class Earlier:
    """The fit to go on from.

    Parameters
    ----------
    model : Model
    study : Study
        That it was fitted for.
    candidates : tuple of Rule
        That it could choose from.
    ledgers : mapping of site name to tuple of Release
        What it released.
    """

    model: Model
    study: Study
    candidates: tuple[Rule, ...]
    ledgers: Mapping[str, tuple[Release, ...]]

    def settings(self, penalty: Any) -> Settings:
        """Return the settings of the fit, with another λ."""
        return override_settings(self.study.settings, {"penalty": penalty})

    def fit_again(
        self,
        study: Study,
        tables: Mapping[str, Table],
        *,
        n_threads: int,
        on_progress: Callable[[Progress], None] | None,
    ) -> Fitted:
        """Return the fit at the λ of `study`."""
        self._check_asked(study, tables)
        fitted = inprocess.fit(
            study.with_settings(n_trees=0),  # the candidates are there: nothing has to grow
            tables,
            grid=self.model.grid,
            rules=self.candidates,
            make_ledger=lambda site: Ledger(releases=list(self.ledgers[site])),
            n_threads=n_threads,
            on_progress=on_progress,
        )
        self._check_patients(fitted.model)
        model = replace(
            fitted.model,
            study=study,
            distribution=self.model.distribution,
            privacy=_add_up(self.model.privacy, fitted.model),
        )
        # Of the model under its own study: that of the refit grows no trees.
        whole = fingerprint(model)
        baselines = {name: replace(own, model=whole) for name, own in fitted.own_baselines.items()}
        return replace(fitted, model=model, own_baselines=baselines)

    def _check_asked(self, study: Study, tables: Mapping[str, Table]) -> None:
        """Refuse other columns, outcomes or sites."""
        outcome = "classes" if study.outcome.kind == "yes/no" else "outcome's facts"
        for name, before, now in (
            ("columns", self.study.covariates, study.covariates),
            (outcome, self.study.outcome, study.outcome),
            ("weights", self.study.weight, study.weight),
            ("patients", self.study.patient, study.patient),
            ("sites", set(self.ledgers), set(tables)),
        ):
            if before != now:
                raise DataError(
                    f"the {name} are not those of the fit: another λ is for the same patients, "
                    "so give 'with_penalty' what 'fit' was given, or call 'fit'"
                )

    def _check_patients(self, model: Model) -> None:
        """Refuse other patients, as far as their number tells."""
        before, now = self.model.provenance, model.provenance
        if (before.patients, before.events) != (now.patients, now.events):
            told = [f"{now.patients:g} patients", f"{before.patients:g}"]
            if before.events is not None and now.events is not None:
                words = self.study.family.words.with_outcome
                told[0] += f", {now.events:g} of them {words},"
                told[1] += f" and {before.events:g}"
            raise DataError(
                f"{told[0]} are not those of the fit ({told[1]}): give 'with_penalty' what 'fit' "
                "was given, or call 'fit'"
            )


def _add_up(before: PrivacyBill, model: Model) -> PrivacyBill:
    """Return the bill of the earlier fit and the sums of the new one."""
    again = f"once more, at λ = {model.provenance.penalty:.3g}: "
    later = model.privacy
    return replace(before, sums=(*before.sums, again + ", ".join(later.sums)))
