"""What an engine is: it makes a site of each table, and carries bytes to them and back.

All else is the same everywhere, and is here or in :func:`~fedrulefit.engines.drive.drive`:
what is asked, in which order, what is asked again, and what becomes of the answers. So every
engine gives the same model, bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from threadpoolctl import threadpool_limits

from fedrulefit.core.arrays import Floats
from fedrulefit.core.grid import Grid
from fedrulefit.core.rules import Rule
from fedrulefit.engines.drive import Exchange, drive
from fedrulefit.model import Model
from fedrulefit.model.own_file import OwnBaseline
from fedrulefit.model.terms import TermKey
from fedrulefit.privacy.identity import make_consortium
from fedrulefit.privacy.ledger import Ledger
from fedrulefit.privacy.mechanisms import Noise
from fedrulefit.privacy.policy import OPEN, Policy
from fedrulefit.protocol.coordinator import Coordinator, Progress
from fedrulefit.protocol.site import Site
from fedrulefit.protocol.store import Memory
from fedrulefit.study import Study
from fedrulefit.table.patients import Table


@dataclass(frozen=True, eq=False)
class SitePlan:
    """What the sites of one run are made from.

    Parameters
    ----------
    study : Study
    tables : mapping of site name to Table
    policy : Policy
        Of every site.
    secure : bool
        Whether sums are masked, as between hospitals.
    make_noise, make_ledger : callable
        Give each site its noise (None: OpenDP's) and its ledger.
    n_threads : int
        Sites that should work at the same time.
    """

    study: Study
    tables: Mapping[str, Table]
    policy: Policy = OPEN
    secure: bool = False
    make_noise: Callable[[str], Noise | None] = lambda site: None
    make_ledger: Callable[[str], Ledger] = lambda site: Ledger()
    n_threads: int = 1

    def make_sites(self) -> dict[str, Site]:
        """Return a site per table, for an engine that keeps them in this process."""
        identities, trust = make_consortium(list(self.tables)) if self.secure else ({}, None)
        return {
            name: Site(
                name,
                table,
                self.study,
                policy=self.policy,
                ledger=self.make_ledger(name),
                noise=self.make_noise(name),
                identity=identities.get(name),
                trust=trust,
            )
            for name, table in self.tables.items()
        }


@dataclass(frozen=True, eq=False)
class Reached:
    """Sites that can be asked.

    Parameters
    ----------
    exchange : Exchange
        Sends each site its bytes; returns the answers of those that answered in time.
    ledgers : mapping of site name to Ledger
        What each site records as having left it.
    journal : Memory, optional
        Keeps every step of the run, where an engine can be interrupted.
    sites : mapping of site name to Site
        Those that are in this process themselves.
    """

    exchange: Exchange
    ledgers: Mapping[str, Ledger]
    journal: Memory | None = None
    sites: Mapping[str, Site] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A finished run.

    Parameters
    ----------
    model : Model
    ledgers : mapping of site name to Ledger
        What each site recorded as having left it.
    candidates : tuple of Rule
        The rules that the fit to all patients could choose from.
    held : (n_folds,) float64 or None
        Mean losses of the patients of each fold, who were held out, of the chosen fit; None
        without cross-validation.
    own_baselines : mapping of site name to OwnBaseline
        Of sites that are in this process, where each has a baseline of its own.
    """

    model: Model
    ledgers: Mapping[str, Ledger]
    candidates: tuple[Rule, ...]
    held: Floats | None = None
    own_baselines: Mapping[str, OwnBaseline] = field(default_factory=dict)


class Engine(ABC):
    """Fits studies with one site per table; a subclass says how the sites are reached."""

    @abstractmethod
    def open(self, plan: SitePlan) -> AbstractContextManager[Reached]:
        """Make the sites of a run, and let go of them when the block ends."""

    def fit(
        self,
        study: Study,
        tables: Mapping[str, Table],
        *,
        grid: Grid | None = None,
        rules: Sequence[Rule] | None = None,
        only: Collection[TermKey] | None = None,
        policy: Policy = OPEN,
        secure: bool = False,
        make_noise: Callable[[str], Noise | None] = lambda site: None,
        make_ledger: Callable[[str], Ledger] = lambda site: Ledger(),
        n_threads: int = 1,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Fitted:
        """Fit the study's model with one site per table.

        Parameters
        ----------
        study : Study
        tables : mapping of site name to Table
        grid : Grid, optional
            Known cut-offs: then no histogram is asked for.
        rules : sequence of Rule, optional
            Known candidates, on a known grid: then the sites' own are not used.
        only : collection of terms, optional
            What of these, and of the linear terms, the fit may use.
        policy : Policy
            Of every site; open by default, since all tables lie in this process.
        secure : bool
            Whether sums are masked, as between hospitals; the model is the same.
        make_noise, make_ledger : callable
            Give each site its noise (None: OpenDP's) and its ledger.
        n_threads : int
            Sites that work at the same time.
        on_progress : callable, optional
            Told where the run is, before every step.
        """
        plan = SitePlan(study, tables, policy, secure, make_noise, make_ledger, n_threads)
        known: dict[str, Any] = {"grid": grid, "rules": rules, "only": only}
        coordinator = Coordinator(study, list(tables), **known, secure=secure)
        # One thread of BLAS per site: more would fight over the cores, and could
        # change the order of sums.
        with threadpool_limits(1, "blas"), self.open(plan) as reached:
            model = drive(
                coordinator,
                reached.exchange,
                journal=reached.journal,
                on_status=on_progress and (lambda status: on_progress(status.progress)),
            )
        found = {name: site.own_baseline for name, site in reached.sites.items()}
        own = {name: baseline for name, baseline in found.items() if baseline is not None}
        return Fitted(model, reached.ledgers, coordinator.candidates, coordinator.held, own)
