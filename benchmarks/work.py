"""The pieces of work that are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Work = Callable[[], dict[str, Any]]


def _registry(n_rows: int) -> Any:
    """Return a synthetic registry of `n_rows` patients and fresh patients to test on."""
    import numpy as np
    import pandas as pd

    from fedrulefit import demo

    rng = np.random.default_rng(7)
    share = {"academic": 0.6, "regional": 0.28, "rural": 0.12}
    frames = []
    for name, hospital in demo.HOSPITALS.items():
        size = round(n_rows * share[name])
        mix = (hospital.mean_age, hospital.mean_severity, hospital.share_coma)
        frames.append(demo.draw_hospital(demo.Hospital(size, *mix), rng))
    frame = pd.concat(frames, ignore_index=True).sample(frac=1, random_state=0)
    return frame.reset_index(drop=True), demo.draw_fresh()


def federated(n_rows: int, n_sites: int, preset: str) -> Work:
    """Fit the demo's study over `n_sites` sites of equal size."""
    import lightgbm  # noqa: F401 - loaded before the clock starts
    import numpy as np
    import opendp.prelude  # noqa: F401
    from sklearn.metrics import roc_auc_score

    from fedrulefit import FederatedRuleFitClassifier, demo

    frame, fresh = _registry(n_rows)
    study = demo.demo_study()
    names = list(study.names)
    sites = np.arange(n_rows) % n_sites

    def work() -> dict[str, Any]:
        model = FederatedRuleFitClassifier(study=study, preset=preset, random_state=0)
        model.fit(frame[names], frame["mortality"], sites=sites)
        auc = roc_auc_score(fresh["mortality"], model.predict_proba(fresh[names])[:, 1])
        return {
            "auc": auc,
            "terms": len(model.model_.terms),
            "candidates": model.model_.provenance.candidates,
        }

    return work


def imodels_rulefit(n_rows: int, choose_alpha: bool) -> Work:
    """Fit imodels' RuleFit on the pooled data: 333 trees, all their rules."""
    import imodels
    import numpy as np
    from sklearn.metrics import roc_auc_score

    frame, fresh = _registry(n_rows)

    def matrix(data: Any) -> Any:
        # imodels takes no missing values and no text.
        plain = data.drop(columns="mortality").assign(sex=(data["sex"] == "female").astype(float))
        return plain.fillna(plain.median()).to_numpy(dtype=np.float64)

    X, y, X_new = matrix(frame), frame["mortality"].to_numpy(), matrix(fresh)
    # alpha = N·λ is the penalty that the paper's λ = 0.01 on the mean loss stands for.
    alpha = {} if choose_alpha else {"alpha": 0.01 * n_rows, "max_rules": None}

    def work() -> dict[str, Any]:
        options = {"max_rules": 10_000, **alpha}
        model = imodels.RuleFitClassifier(
            n_estimators=333, tree_size=4, memory_par=0.01, random_state=0, **options
        )
        model.fit(X, y)
        auc = roc_auc_score(fresh["mortality"], model.predict_proba(X_new)[:, 1])
        return {"auc": auc, "terms": int(model.complexity_), "candidates": None}

    return work


def rules_and_gradient(n_rows: int, n_sites: int) -> Work:
    """Grow rules at all sites and take one gradient at each, in one process."""
    import lightgbm  # noqa: F401
    import numpy as np
    import opendp.prelude  # noqa: F401

    from fedrulefit.engines import inprocess
    from fedrulefit.study import Study
    from fedrulefit.table import Table

    rng = np.random.default_rng(3)
    study = Study.from_mapping(
        {
            "name": "paper, model 2",
            "outcome": {"column": "y"},
            "covariates": {f"x{j}": {"kind": "number", "range": [-5, 5]} for j in range(10)},
            "settings": {"preset": "paper", "rounds": 1, "local_steps": 1},
        }
    )
    X = rng.standard_normal((n_rows, 10))
    eta = 10 * np.exp(-2 * X[:, 0] ** 2) - 10 * np.exp(-2 * X[:, 1] ** 2)
    eta += 6 * np.sin(X[:, 2]) - 4 * np.sin(X[:, 3]) + 2 * np.sin(X[:, 4])
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-eta))).astype(float)
    tables = {
        f"site{s}": Table(X[s::n_sites], y[s::n_sites], np.ones(len(y[s::n_sites])))
        for s in range(n_sites)
    }

    def work() -> dict[str, Any]:
        model = inprocess.fit(study, tables).model
        return {"candidates": model.provenance.candidates}

    return work
