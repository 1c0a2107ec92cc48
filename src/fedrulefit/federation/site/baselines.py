"""The hospital's own baselines of finished models, in the state folder: for its owner alone.

In: what the site found (:mod:`fedrulefit.protocol.site.own`). Out: ``runs/RUN/baseline.toml``. A
file that is there stays: the run asks once, and the date is that of the answer.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from fedrulefit.errors import ModelFileError
from fedrulefit.files import make_private_folder
from fedrulefit.model.own_file import OwnBaseline

log = logging.getLogger(__name__)

FILE: Final = "baseline.toml"


def baseline_path(state: Path, run: str) -> Path:
    """Return where a run's baseline lies."""
    return state / "runs" / run / FILE


def keep_baseline(state: Path, run: str, own: OwnBaseline) -> None:
    """Write the hospital's own baseline of a run's model; a full disk does not end the run."""
    path = baseline_path(state, run)
    if path.exists():
        return
    try:
        make_private_folder(path.parent.parent)
        make_private_folder(path.parent)
        own.save(path)
    except (OSError, ModelFileError):
        log.error("the hospital's own baseline of run %s could not be written", run)
        return
    log.info("wrote the hospital's own baseline of run %s: it stays here", run)
