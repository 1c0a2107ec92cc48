"""What a hospital lets out: ``policy.toml``, owned by the hospital.

A policy wins over every request. What it does not allow is answered with a coded
refusal that the coordinator shows. Without a file, :class:`Policy` stands for
hospitals that do not know each other's machines; :data:`OPEN` is for tables that
lie in one process anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from fedrulefit.core.rounding import EXACT, PUBLISHED
from fedrulefit.errors import PolicyError
from fedrulefit.toml import load_toml

ReleaseKind = Literal[
    "histograms",
    "exact-histograms",
    "spreads",
    "rules",
    "votes",
    "dual",
    "curvature",
    "own-baselines",
    "slopes",
    "summary",
    "between-sites",
    "evaluation",
    "site-results",
]
KINDS: Final[dict[ReleaseKind, str]] = {
    "histograms": "histograms of each covariate, with differentially private noise; all sites of "
    "the run see them",
    "exact-histograms": "histograms without noise, where the study has none",
    "spreads": "the spread and number of known values of each covariate, exactly",
    "rules": "rules grown on this site's patients (conditions only)",
    "votes": "for each candidate rule, whether this site has enough patients in it",
    "dual": "rounds of the paper's solver: a gradient sum, a loss, the number of patients; a "
    "coordinator that chooses its questions can take these sums apart",
    "curvature": "rounds of the exact solver: gradients, second derivatives and losses",
    "own-baselines": "rounds of the exact solver where each site has a baseline of its own: who "
    "knows such a total, and all sites but two, can work out these two's outcome rates and "
    "baselines, though not whose is which",
    "slopes": "the gradient at the final coefficients, for the certificate",
    "summary": "patients and outcomes in all and inside each rule of the model",
    "between-sites": "how far this site's means of the model's terms lie from the mean of all, in "
    "coarse steps",
    "evaluation": "histograms of the model's scores, and held-out patients inside each of its "
    "rules, with and without the outcome; how well scores tell apart patients of one and the same "
    "site; coarsely, how those inside a rule differ within sites",
    "site-results": "this site's own results, by name and without masks: patients and outcomes in "
    "all and inside rules of the model, and how well it predicts them",
}
"""Every kind of release, in words; all but five that a hospital must choose are allowed."""

MIN_COUNT: Final = 5
"""Fewest patients that anything told about a group may rest on, where nobody says otherwise.

Two numbers of the same size say something else: ``FEWEST`` of :mod:`fedrulefit.protocol.agreed`
is no hospital's choice, and ``PUBLISHED`` of :mod:`fedrulefit.core.rounding` is how coarse the
counts of all sites together become."""

_BY_CHOICE: Final = ("exact-histograms", "spreads", "dual", "own-baselines", "site-results")
_ALLOWED: Final = tuple(kind for kind in KINDS if kind not in _BY_CHOICE)

EXAMPLE: Final = """\
# What may leave this hospital. The hospital owns this file; it wins over every request.

dataset = "patients"       # releases of these patients add up under this name

# A rule leaves only with at least so many patients inside and outside it, and so many
# with and without the outcome inside.
min_count = 5
max_rules_sent = 5000      # in a run
# A rule is summed only if so many sites have min_count patients in it, as above.
min_votes = 2
max_folds = 10             # most folds of a cross-validation
min_changed = 10           # a table in which fewer patients changed since an earlier run is refused

# Kinds of release. Not here: "spreads" and "exact-histograms", which leave without noise;
# "dual", the paper's solver, whose sums depend on how each hospital walks by itself, so that a
# coordinator can take them apart; "own-baselines", of fits with hospitals' own baselines, which
# few hospitals' sums give away; and "site-results", which leave under the hospital's name.
allow = [
    "histograms", "rules", "votes", "curvature", "slopes", "summary", "between-sites", "evaluation",
]

# Sums leave only masked, so that the coordinator sees the total over the sites.
secure_sums = true
min_sites = 3
dropouts = "wait"          # "continue": go on without a lost site, trusting the coordinator

# Most ε, for adding or removing one patient; "none" sets no limit. A spent budget refuses.
# A run over unchanged patients repeats the same noise, and spends nothing.
epsilon_study = 20.0
epsilon_dataset = 40.0     # across all studies
max_sums = 1000            # in one run
max_runs = 20              # runs over this data set
keep_runs_days = 30        # keys of an unfinished run's secure sums are erased after so long

# Counts in the published model are multiples of the first, and none is below the second.
round_counts = 5
min_published = 10         # some regulators say 11

approval = "auto"          # "review": a person accepts or declines each kind of release
audits = "tell"            # "require": no new run before each earlier one has passed an audit

# Fingerprints of the other hospitals' certificates, where you want to be sure of them.
# [peers]
# south = "SHA-256 of its certificate"
"""


def read_fingerprint(text: str) -> str:
    """Return a fingerprint as 64 digits, however people and openssl write it."""
    plain = re.sub(r"[:\s]", "", text).lower()
    if not re.fullmatch("[0-9a-f]{64}", plain):
        raise ValueError("a fingerprint is a SHA-256: 64 hexadecimal digits")
    return plain


_RENAMED: Final = {"max_rules": "max_rules_sent", "max_rounds": "max_sums"}
"""Keys of older files: a study's settings have the same names, for something else."""


class Policy(BaseModel):
    """A hospital's own rules about what may leave; each field tells its own meaning."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    dataset: str = Field(
        default="patients",
        min_length=1,
        max_length=200,
        description="Name under which releases of these patients add up, across studies and "
        "versions of the file.",
    )
    min_count: int = Field(
        default=MIN_COUNT,
        ge=0,
        description="k: a rule leaves only with at least k patients inside and outside it, and k "
        "with and k without the outcome inside; and no difference of two nested rules may hold "
        "fewer (but more than 0). Results under the site's name (`site-results`) rest on at least "
        "k patients as well, and never on fewer than 5.",
    )
    max_rules_sent: int = Field(
        default=5000,
        ge=1,
        description="Most different rules sent in a run, those of the folds included.",
    )
    min_votes: int = Field(
        default=2,
        ge=0,
        description="v: with secure sums, a candidate rule is summed only if at least v sites "
        "have k patients in it, as for a rule that leaves; 0 asks for no votes. From 2 on, no "
        "site brings a rule through alone, whatever it says.",
    )
    max_folds: int = Field(
        default=10,
        ge=2,
        description="Most folds of a cross-validation. The site has at least k patients with and "
        "k without the outcome in each, or nobody in any; likewise among held-out patients.",
    )
    min_changed: int = Field(
        default=10,
        ge=0,
        description="Fewest patients in which two tables differ that take part in runs; 0 "
        "differences are fine, too.",
    )
    allow: tuple[ReleaseKind, ...] = Field(
        default=_ALLOWED, description="Kinds of release allowed; they are listed below."
    )
    secure_sums: bool = Field(default=True, description="Whether sums leave only under masks.")
    min_sites: int = Field(default=3, ge=1, description="Fewest sites in a secure sum.")
    dropouts: Literal["wait", "continue"] = Field(
        default="wait",
        description="`wait`: all sums over these patients are among the same sites, and a run "
        "waits for one that is lost. `continue`: a round may be repeated among the rest, and "
        "other runs may have other sites; from sums before and after, the coordinator can nearly "
        "tell those of a site that left, and is trusted with them.",
    )
    epsilon_study: float | None = Field(
        default=20.0,
        gt=0,
        description='Most ε (adding or removing one patient) for one study; `"none"` sets no '
        "limit. Noise that is repeated spends none.",
    )
    epsilon_dataset: float | None = Field(
        default=40.0, gt=0, description="The same for the data set, across studies."
    )
    max_sums: int = Field(default=1000, ge=1, description="Most sums answered in one run.")
    max_runs: int = Field(
        default=20, ge=1, description="Most runs over the data set, across studies."
    )
    keep_runs_days: float = Field(
        default=30.0,
        gt=0,
        le=3650,
        description="Days without a question after which a run counts as abandoned: the keys of "
        "its secure sums are erased, and it cannot go on.",
    )
    round_counts: int = Field(
        default=PUBLISHED.multiple,
        ge=1,
        le=1000,
        description="Patients and outcomes in the published model are multiples of it; the "
        "largest of all sites' policies holds.",
    )
    min_published: int = Field(
        default=PUBLISHED.smallest,
        ge=0,
        le=1000,
        description="Smallest count over all sites that the published model tells, likewise: 10, "
        "as many statistical offices ask; some regulators say 11.",
    )
    approval: Literal["auto", "review"] = Field(
        default="auto",
        description="`review`: a person accepts or refuses each kind of release of a run.",
    )
    audits: Literal["tell", "require"] = Field(
        default="tell",
        description="`tell`: `site status` says which runs answered sums and were never audited. "
        "`require`: no new run while there is one; it is refused until `federation audit` has "
        "passed.",
    )
    peers: dict[str, str] = Field(
        default_factory=dict,
        description="Other sites' certificates (SHA-256), where the consortium's root is not "
        "enough.",
    )

    @model_validator(mode="before")
    @classmethod
    def _refuse_old_names(cls, facts: Any) -> Any:
        old = [name for name in _RENAMED if isinstance(facts, Mapping) and name in facts]
        if old:
            raise ValueError(
                "; ".join(f"{name!r} is called {_RENAMED[name]!r} now: rename it" for name in old)
            )
        return facts

    @field_validator("epsilon_study", "epsilon_dataset", mode="before")
    @classmethod
    def _read_none(cls, value: object) -> object:
        return None if value == "none" else value  # TOML has no null

    @field_validator("peers")
    @classmethod
    def _read_fingerprints(cls, peers: dict[str, str]) -> dict[str, str]:
        plain = {}
        for site, text in peers.items():
            try:
                plain[site] = read_fingerprint(text)
            except ValueError:
                raise ValueError(f"the fingerprint of {site!r} is not a SHA-256") from None
        return plain

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """Read a policy file.

        Raises
        ------
        PolicyError
            Saying which key is wrong.
        """
        advice = "write one with 'fedrulefit site policy'"
        return load_toml(path, cls, "policy", PolicyError, advice)

    def _check_words(self) -> list[str]:
        """Say what is asked of rules that others sent, of folds, and of a changed table."""
        words = [f"Cross-validation has at most {self.max_folds} folds."]
        if self.min_votes > 0:
            words.insert(
                0,
                f"A rule is summed only if at least {self.min_votes} sites have {self.min_count} "
                "such patients in it; folds and held-out patients are of at least "
                f"{self.min_sites} sites.",
            )
        if self.min_changed > 1:
            words.append(
                f"A table in which 1 to {self.min_changed - 1} patients changed since an earlier "
                "run is refused."
            )
        return words

    def words(self) -> list[str]:
        """Return the policy as sentences for the person who signs it."""
        kinds = [f"  - {KINDS[kind]}" for kind in self.allow]
        caps = [
            f"{'no limit' if cap is None else f'ε ≤ {cap:g}'} {what}"
            for cap, what in (
                (self.epsilon_study, "in one study"),
                (self.epsilon_dataset, "across all studies"),
            )
        ]
        return [
            f"Data set: {self.dataset}.",
            "May leave:",
            *kinds,
            f"A rule leaves only with at least {self.min_count} patients inside and outside it, "
            f"and {self.min_count} with and without the outcome inside; "
            f"at most {self.max_rules_sent} rules.",
            *self._check_words(),
            f"Sums leave only masked, among at least {self.min_sites} sites."
            if self.secure_sums
            else "Sums may leave without masks: the coordinator sees this site's own.",
            "All sums are among the same sites: a run waits for one that is lost."
            if self.dropouts == "wait"
            else "A round may be repeated without a site that is lost; the coordinator is trusted "
            "not to compare the sums with and without it.",
            f"Budget: {'; '.join(caps)}; at most {self.max_sums} sums in one run, and "
            f"{self.max_runs} runs. Keys of a run without questions are erased after "
            f"{self.keep_runs_days:g} days.",
            f"Counts in the published model are multiples of {self.round_counts}; fewer than "
            f"{self.min_published} patients are not told.",
            "A person accepts or refuses each kind of release."
            if self.approval == "review"
            else "Releases that fit this policy leave without asking.",
            *["No new run before every earlier one has passed an audit."]
            * (self.audits == "require"),
        ]


OPEN: Final = Policy(
    min_count=0,
    max_rules_sent=10**9,
    min_votes=0,
    max_folds=100,
    min_changed=0,
    allow=tuple(KINDS),
    secure_sums=False,
    min_sites=1,
    dropouts="continue",
    epsilon_study=None,
    epsilon_dataset=None,
    max_sums=10**9,
    max_runs=10**9,
    round_counts=EXACT.multiple,
    min_published=EXACT.smallest,
)
"""No limits: for tables that lie in one process anyway."""
