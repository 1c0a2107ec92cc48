"""What every part of a model file is."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

Numbers = dict[str, float | None]
"""Numbers by name, null where one is not known: of which names, the outcome's family knows."""


class Part(BaseModel):
    """Facts that stand together in a file: no others beside them, no number that is none."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
