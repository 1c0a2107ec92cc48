"""A hospital: holds its patients, answers requests, keeps its ledger.

In: a request. Out: a reply, already written into the site's ledger. A request
of another study, another run or at the wrong time gets a :class:`Refusal`.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from fedrulefit import __version__
from fedrulefit.core.arrays import Codes, Floats, Ints
from fedrulefit.core.boosting import extract_rules, grow_trees
from fedrulefit.core.certificate import sum_conjugate, sum_slopes
from fedrulefit.core.design import Design, build_design
from fedrulefit.core.fedda import client_update
from fedrulefit.core.grid import (
    Grid,
    count_histograms,
    encode,
    linear_values,
    split_cells,
    sum_spreads,
)
from fedrulefit.core.importance import sum_terms
from fedrulefit.core.losses import logistic_loss
from fedrulefit.core.newton import sum_curvature
from fedrulefit.core.rules import Rule, check_rules, merge_rules
from fedrulefit.errors import DataError, ProtocolError
from fedrulefit.privacy.ledger import EXACT, Ledger, Release
from fedrulefit.privacy.mechanisms import Noise, OpenDPLaplace
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.schedule import make_factors, make_schedule
from fedrulefit.protocol.wire import digest, to_bytes
from fedrulefit.study import Study
from fedrulefit.table import Table

WEIGHT_UNIT: Final = 1024
"""A patient's weight is counted in units of 1/1024, so that noise stays integer."""


class Site:
    """One hospital of a study.

    Parameters
    ----------
    name : str
    table : Table
        The site's patients, checked against the study.
    study : Study
    ledger : Ledger, optional
        Where releases are recorded; in memory by default.
    noise : Noise, optional
        Adds noise to histograms; OpenDP's discrete Laplace by default.
    n_threads : int
        Threads for growing trees; the result does not depend on it.
    """

    def __init__(
        self,
        name: str,
        table: Table,
        study: Study,
        *,
        ledger: Ledger | None = None,
        noise: Noise | None = None,
        n_threads: int = 1,
    ) -> None:
        if table.outcome is None:
            raise DataError(f"site {name!r}: a site needs the outcome of its patients")
        if not table.weights.sum() > 0:
            raise DataError(f"site {name!r}: no patient with a weight above 0")
        self.name = name
        self.study = study
        self.ledger = ledger if ledger is not None else Ledger()
        self._values: Floats = table.values
        self._outcome: Floats = table.outcome
        self._weights: Floats = table.weights
        self._noise = noise
        self._n_threads = n_threads
        self._run: str | None = None
        self._histograms: m.GridReply | None = None
        self._epsilons: list[float | None] = [None] * study.n_features
        self._grid: Grid | None = None
        self._codes: Codes | None = None
        self._design: Design | None = None
        self._factors: Floats = np.empty(0)
        self._folds = _draw_folds(self._outcome, study.settings.folds, study.settings.seed, name)

    def handle(self, request: m.Request) -> m.Reply:
        """Answer a request, and record what leaves."""
        try:
            self._check_header(request.header)
            if self._run is None and not isinstance(request, m.JoinRequest):
                raise ProtocolError(f"site {self.name!r} has not joined a run yet")
            reply = self._answer(request)
        except ProtocolError as error:
            return m.Refusal(request.header, "bad-request", str(error))
        self._record(reply, _round_of(request))
        return reply

    def _check_header(self, header: m.Header) -> None:
        if header.version != m.PROTOCOL_VERSION:
            raise ProtocolError(
                f"protocol version {header.version}, but site {self.name!r} speaks "
                f"{m.PROTOCOL_VERSION}: install the same version of fedrulefit everywhere"
            )
        if header.site != self.name:
            raise ProtocolError(f"a message for {header.site!r} reached site {self.name!r}")
        if header.study != self.study.digest:
            raise ProtocolError(
                f"site {self.name!r} holds another study: all sites need the same study file"
            )
        if self._run is not None and header.run != self._run:
            raise ProtocolError(f"site {self.name!r} takes part in another run")

    def _answer(self, request: m.Request) -> m.Reply:
        match request:
            case m.JoinRequest(header):
                self._run = header.run
                return m.JoinReply(header, f"fedrulefit {__version__}")
            case m.GridRequest():
                return self._count(request)
            case m.RulesRequest():
                return self._grow(request)
            case m.TermsRequest():
                return self._build(request)
            case m.DualRequest():
                return self._descend(request)
            case m.CurvatureRequest():
                return self._curve(request)
            case m.SlopesRequest():
                return self._slope(request)
            case m.SummaryRequest():
                return self._summarise(request)

    def _count(self, request: m.GridRequest) -> m.GridReply:
        """Paper 2.2.1, step 1. Noise is drawn once: asked again, the site repeats itself."""
        if self._histograms is not None:
            return dataclasses.replace(self._histograms, header=request.header)
        settings, bins = self.study.settings, self.study.bins
        units, most = self._units()
        counts = count_histograms(self._values, units, bins)
        mechanism = EXACT
        if settings.epsilon is not None:
            noise = self._noise if self._noise is not None else OpenDPLaplace()
            mechanism = noise.name
            noisy = [
                noise.add(cells, sensitivity=most, epsilon=settings.epsilon)
                for cells in split_cells(counts, bins)
            ]
            counts = np.concatenate([cells for cells, _ in noisy])
            self._epsilons = [epsilon for _, epsilon in noisy]
        squares, freedom = np.empty(0), np.empty(0)
        if settings.spreads == "exact":
            sums = sum_spreads(self._values, self._weights, bins)
            squares, freedom = sums.squares, sums.freedom
        private = None not in self._epsilons
        self._histograms = m.GridReply(request.header, mechanism, private, counts, squares, freedom)
        return self._histograms

    def _units(self) -> tuple[Ints, int]:
        """What each patient counts, and the most that one patient can count."""
        weight = self.study.weight
        if weight is None:
            return np.ones(len(self._weights), dtype=np.int64), 1
        units = np.rint(self._weights * WEIGHT_UNIT).astype(np.int64)
        return units, int(np.ceil(weight.max * WEIGHT_UNIT))

    def _grow(self, request: m.RulesRequest) -> m.RulesReply:
        """Paper 2.2.2: trees on the site's own patients."""
        settings, grid = self.study.settings, request.grid
        try:
            self.study.check_grid(grid)
        except ValueError as error:
            raise ProtocolError(str(error)) from None
        self._grid = grid
        self._codes = encode(self._values, grid)
        folds = range(settings.folds) if settings.penalty == "cv" else ()
        return m.RulesReply(
            request.header,
            rules=self._grow_rules(self._codes, grid, fold=-1),
            fold_rules=tuple(self._grow_rules(self._codes, grid, fold=fold) for fold in folds),
        )

    def _grow_rules(self, codes: Codes, grid: Grid, *, fold: int) -> tuple[Rule, ...]:
        """Grow trees without the patients of one fold (-1: with all)."""
        settings = self.study.settings
        trees = grow_trees(
            codes,
            self._outcome,
            np.where(self._folds == fold, 0.0, self._weights),
            grid,
            n_trees=settings.n_trees,
            mean_leaves=settings.mean_leaves,
            learning_rate=settings.learning_rate,
            subsample=settings.subsample,
            min_leaf=settings.min_leaf,
            rng=_site_rng(settings.seed, self.name, purpose=fold + 2),
            n_threads=self._n_threads,
        )
        return merge_rules([extract_rules(trees, grid)], grid, drop_complements=False)

    def _build(self, request: m.TermsRequest) -> m.TermsReply:
        if self._grid is None or self._codes is None:
            raise ProtocolError("rules came before the grid")
        try:
            check_rules(request.rules, self._grid)
        except ValueError as error:
            raise ProtocolError(str(error)) from None
        n_linear = len(self._grid.linear) if self.study.settings.linear_terms else 0
        linear = linear_values(self._values, self._grid)[:, :n_linear]
        self._design = build_design(self._codes, request.rules, linear)
        self._factors = make_factors(self.study.settings, request.rules, self._design.n_terms)
        return m.TermsReply(request.header, self._design.n_terms)

    def _descend(self, request: m.DualRequest) -> m.DualReply:
        """Paper 2.2.3, algorithm 3."""
        design = self._ready_design()
        _check_length(request.dual, design.n_terms, "dual variables")
        schedule = make_schedule(self.study.settings)
        if not 0 <= request.round < schedule.rounds:
            raise ProtocolError(f"round {request.round} of {schedule.rounds}")
        local = client_update(
            design,
            self._outcome,
            self._weights,
            self._factors,
            request.dual,
            request.round,
            schedule,
        )
        weight = float(self._weights.sum()) if self._by_patients else 1.0
        return m.DualReply(request.header, weight * local.increment, weight * local.loss, weight)

    def _curve(self, request: m.CurvatureRequest) -> m.CurvatureReply:
        """A round of the exact solver, for every fold asked for."""
        design, settings = self._ready_design(), self.study.settings
        if not 1 <= len(request.queries) <= settings.folds + 1:
            raise ProtocolError(f"expected 1 to {settings.folds + 1} points")
        found = []
        for query in request.queries:
            _check_terms(query.active, design.n_terms)
            _check_coefs(query.terms, query.start, design.n_terms)
            _check_coefs(query.terms, query.end, design.n_terms)
            if not -1 <= query.fold < settings.folds:
                raise ProtocolError(f"there is no fold {query.fold}")
            found.append(
                sum_curvature(design, self._outcome, self._scaled_weights, self._folds, query)
            )
        return m.CurvatureReply(
            request.header,
            weights=np.array([sums.weight for sums in found]),
            held_weights=np.array([sums.held_weight for sums in found]),
            losses=np.concatenate([sums.losses for sums in found]),
            held_losses=np.array([sums.held_loss for sums in found]),
            gradients=np.concatenate([sums.gradient for sums in found]),
            hessians=np.concatenate([sums.hessian for sums in found]),
        )

    def _slope(self, request: m.SlopesRequest) -> m.SlopesReply:
        design, terms = self._ready_design(), request.terms
        _check_coefs(terms, request.coef, design.n_terms)
        predictor = design.take(terms).dot(request.coef)
        slopes = sum_slopes(design, self._outcome, self._scaled_weights, predictor)
        return m.SlopesReply(request.header, slopes.cases, slopes.others)

    def _summarise(self, request: m.SummaryRequest) -> m.SummaryReply:
        """Paper 2.3, for the terms of the final model only."""
        design, terms = self._ready_design(), request.terms
        _check_coefs(terms, request.coef, design.n_terms)
        _check_length(request.scales, 2, "scales")
        if not ((request.scales >= 0) & (request.scales <= 1)).all():
            raise ProtocolError("the scales of the certificate must lie in [0, 1]")
        final = design.take(terms)
        sums = sum_terms(final, self._outcome, self._weights)
        predictor, weights = final.dot(request.coef), self._scaled_weights
        cases, others = request.scales.tolist()
        return m.SummaryReply(
            request.header,
            total=sums.total,
            events=sums.events,
            inside=sums.inside,
            events_inside=sums.events_inside,
            squares=sums.squares,
            loss=logistic_loss(predictor, self._outcome, weights),
            conjugate=sum_conjugate(self._outcome, weights, predictor, (cases, others)),
        )

    @property
    def _by_patients(self) -> bool:
        return self.study.settings.weighting == "patients"

    @property
    def _scaled_weights(self) -> Floats:
        """Patients' weights in the objective: all equal, or all sites equal."""
        return self._weights if self._by_patients else self._weights / self._weights.sum()

    def _ready_design(self) -> Design:
        if self._design is None:
            raise ProtocolError("a fitting round came before the rules")
        return self._design

    def _record(self, reply: m.Reply, round_: int | None) -> None:
        """Write every patient-derived field into the ledger, before it leaves."""
        if isinstance(reply, m.Refusal):
            return
        bytes_digest = digest(to_bytes(reply))
        for release in self._releases(reply):
            self.ledger.append(dataclasses.replace(release, digest=bytes_digest, round=round_))

    def _releases(self, reply: m.Reply) -> Iterator[Release]:
        name = type(reply).__name__
        for field in dataclasses.fields(reply):
            if field.metadata.get("mechanism", "no patient data") == "no patient data":
                continue
            if isinstance(reply, m.GridReply) and field.name == "counts":
                histograms = zip(self.study.names, self.study.bins, self._epsilons, strict=True)
                for covariate, bins, epsilon in histograms:
                    quantity = f"histogram of {covariate}"
                    yield Release(name, quantity, (bins.n_cells,), reply.mechanism, epsilon, "")
                continue
            value = getattr(reply, field.name)
            if field.name == "fold_rules":
                value = sum(value, ())
            shape: tuple[int, ...] = (len(value),) if isinstance(value, (np.ndarray, tuple)) else ()
            if shape != (0,):
                yield Release(name, field.name, shape, EXACT, None, "")


def _site_rng(seed: int, site: str, purpose: int) -> np.random.Generator:
    """A stream of its own for every site and purpose, whatever order they answer in."""
    name = int.from_bytes(hashlib.sha256(site.encode()).digest()[:8], "little")
    return np.random.default_rng([seed, name, purpose])


def _draw_folds(outcome: Floats, n_folds: int, seed: int, site: str) -> Ints:
    """Deal the site's patients into folds, cases and others evenly."""
    rng = _site_rng(seed, site, purpose=0)
    order = np.lexsort((rng.random(len(outcome)), outcome))
    folds = np.empty(len(outcome), dtype=np.int64)
    folds[order] = (np.arange(len(outcome)) + rng.integers(n_folds)) % n_folds
    return folds


def _round_of(request: m.Request) -> int | None:
    """The round that the ledger names; the exact solver's are the steps of the run."""
    match request:
        case m.DualRequest():
            return request.round
        case m.CurvatureRequest():
            return request.header.step
    return None


def _check_coefs(terms: Ints, coef: Floats, n_terms: int) -> None:
    _check_terms(terms, n_terms)
    _check_length(coef, len(terms), "coefficients")


def _check_terms(terms: Ints, n_terms: int) -> None:
    inside = (terms >= 0) & (terms < n_terms)
    if not (len(terms) and terms[0] == 0 and inside.all() and (np.diff(terms) > 0).all()):
        raise ProtocolError("terms must be increasing positions that start with 0")


def _check_length(array: Floats, expected: int, what: str) -> None:
    if array.shape != (expected,):
        raise ProtocolError(f"expected {expected} {what}, got {array.shape}")
