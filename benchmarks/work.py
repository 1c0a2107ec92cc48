"""The pieces of work that are measured."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

Work = Callable[[], dict[str, Any]]

N_NEW = 20_000
"""New patients that a model is judged on."""


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


def _plain(frame: Any) -> Any:
    """Return the registry for peers that take no text and no missing values."""
    plain = frame.assign(sex=(frame["sex"] == "female").astype(float))
    return plain.fillna(plain.median())


def _data(name: str, n_rows: int) -> Any:
    """Return frames of patients to learn from and new ones, with the outcome in ``y``."""
    import numpy as np
    import pandas as pd

    from benchmarks.simulation import draw

    if name == "demo":
        frame, fresh = _registry(n_rows)
        return (f.rename(columns={"mortality": "y"}) for f in (frame, fresh))
    rng = np.random.default_rng(11)
    frames = []
    for size in (n_rows, N_NEW):
        X, y = draw(name, size, rng)
        frames.append(pd.DataFrame(X, columns=[f"x{j}" for j in range(10)]).assign(y=y))
    return frames


def _judge(y: Any, chance: Any, **facts: Any) -> dict[str, Any]:
    from sklearn.metrics import log_loss, roc_auc_score

    return {"auc": roc_auc_score(y, chance), "loss": log_loss(y, chance), **facts}


def federated(data: str, n_rows: int, n_sites: int, settings: dict[str, Any]) -> Work:
    """Fit over `n_sites` sites of equal size, in one process."""
    import time

    import lightgbm  # noqa: F401 - loaded before the clock starts
    import narwhals
    import numpy as np
    import opendp.prelude  # noqa: F401

    from fedrulefit import FederatedRuleFitClassifier, demo

    frame, fresh = _data(data, n_rows)
    names = [name for name in frame.columns if name != "y"]
    narwhals.from_native(frame[names])  # loads its part for pandas
    study = demo.demo_study() if data == "demo" else None
    model = FederatedRuleFitClassifier(
        study=study, **{"preset": "default", "random_state": 0, **settings}
    )

    def work() -> dict[str, Any]:
        model.fit(frame[names], frame["y"], sites=np.arange(len(frame)) % n_sites)
        origin = model.model_.provenance
        start = time.perf_counter()
        chance = model.predict_proba(fresh[names])[:, 1]
        return _judge(
            fresh["y"],
            chance,
            predict=time.perf_counter() - start,
            terms=len(model.model_.terms),
            candidates=origin.candidates,
            rounds=origin.rounds,
            gap=origin.certificate.gap,
        )

    return work


def imodels_rulefit(data: str, n_rows: int, alpha: float | None) -> Work:
    """Fit imodels' RuleFit on the pooled data: 333 trees, all their rules."""
    import imodels

    frame, fresh = _data(data, n_rows)
    if data == "demo":
        frame, fresh = _plain(frame), _plain(fresh)
    X, y = frame.drop(columns="y").to_numpy(float), frame["y"].to_numpy()
    options = {"max_rules": 10_000} if alpha is None else {"alpha": alpha, "max_rules": None}

    def work() -> dict[str, Any]:
        model = imodels.RuleFitClassifier(
            n_estimators=333, tree_size=4, memory_par=0.01, random_state=0, **options
        )
        model.fit(X, y)
        chance = model.predict_proba(fresh.drop(columns="y").to_numpy(float))[:, 1]
        return _judge(fresh["y"], chance, terms=int(model.complexity_))

    return work


def h2o_rulefit(data: str, n_rows: int, n_trees: int) -> Work:
    """Fit H2O's RuleFit on the pooled data; its CPU time is the server's.

    Its defaults but for the number of trees (its own is 50).
    """
    import h2o
    from h2o.estimators import H2ORuleFitEstimator

    frame, fresh = _data(data, n_rows)
    h2o.init(nthreads=2, max_mem_size="8g", verbose=False, log_level="FATA")
    h2o.no_progress()
    train, new = h2o.H2OFrame(frame), h2o.H2OFrame(fresh.drop(columns="y"))
    train["y"] = train["y"].asfactor()
    server = h2o.connection()._local_server._process.pid

    def work() -> dict[str, Any]:
        before = _cpu_of(server)
        model = H2ORuleFitEstimator(seed=1, max_num_rules=-1, rule_generation_ntrees=n_trees)
        model.train(x=[c for c in frame.columns if c != "y"], y="y", training_frame=train)
        cpu = _cpu_of(server) - before
        chance = model.predict(new).as_data_frame()["p1"]
        terms = len(model.rule_importance().as_data_frame())
        facts = _judge(fresh["y"], chance, terms=terms, cpu=cpu, peak=_peak_of(server))
        h2o.cluster().shutdown()
        return facts

    return work


def pooled_peer(data: str, n_rows: int, name: str) -> Work:
    """Fit one of :mod:`benchmarks.peers` on the pooled data."""
    import lightgbm  # noqa: F401 - loaded before the clock starts

    from benchmarks import peers

    if name == peers.EBM:
        import interpret.glassbox  # noqa: F401
    frame, fresh = _data(data, n_rows)
    categories = ["sex"] if data == "demo" else []

    def work() -> dict[str, Any]:
        model = peers.fit_peer(name, frame.drop(columns="y"), frame["y"], categories=categories)
        chance = model.predict_proba(fresh.drop(columns="y"))[:, 1]
        return _judge(fresh["y"], chance, terms=peers.count_terms(name, model))

    return work


def _cpu_of(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_of(pid: int) -> float:
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
