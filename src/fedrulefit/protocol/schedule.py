"""The study's settings as FedDA's schedule, the same for site and coordinator."""

from __future__ import annotations

from fedrulefit.core.fedda import Schedule
from fedrulefit.study import Settings


def make_schedule(settings: Settings) -> Schedule:
    """Return R, G, η_s, η_c and λ of the study."""
    return Schedule(
        rounds=settings.rounds,
        local_steps=settings.local_steps,
        server_step=settings.server_step,
        client_step=settings.client_step,
        penalty=settings.penalty,
    )
