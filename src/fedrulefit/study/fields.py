"""What the parts of a study file have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A part of a study file: it does not change, and has no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
