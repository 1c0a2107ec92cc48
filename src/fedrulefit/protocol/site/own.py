"""A site's own baseline of the finished model: found here, written here, and never sent.

In: the model as it was handed out, and the site's patients. Out: what the hospital keeps.
"""

from __future__ import annotations

from fedrulefit.model.own_file import OwnBaseline, hash_predictor
from fedrulefit.protocol import messages as m
from fedrulefit.protocol.patients import Patients


def find_baseline(
    patients: Patients, model: m.ShareModelRequest, site: str = ""
) -> OwnBaseline | None:
    """Return the own baseline of the site named so; None where all sites share one."""
    public, terms, coef = patients.public, model.terms, model.coef
    spread = public.settings.own_spread
    if spread is None:
        return None
    n_baseline = public.layout.n_baseline
    effects = zip(public.keys_of(terms), coef[n_baseline:].tolist(), strict=True)
    named = [(*key, effect) for key, effect in effects]
    own = hash_predictor(public.study, public.grid, coef[:n_baseline], named, public.dispersion)
    found = patients.estimate_own(terms, coef, spread)
    return OwnBaseline.of(public.family, own, found, site=site)
