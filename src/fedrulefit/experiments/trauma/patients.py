"""The paper's trauma patients: where they are, and that they are the right ones.

371 patients of three hospitals (Draaisma et al. 1989), as shipped with the R
package BFI (MIT licence). They are no part of this project: a user has the
file, or it is downloaded from the package's repository, at a fixed commit.

Whatever its form (separator, order of columns, the package's name ``hospital`` for
the site), a file is brought into one form, whose SHA-256 must be
:data:`SHA256`.
"""

from __future__ import annotations

import csv
import hashlib
import http.client
import os
import urllib.request
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fedrulefit.errors import DataError
from fedrulefit.files import write_whole
from fedrulefit.study import Study

if TYPE_CHECKING:
    import pandas as pd

URL: Final = (
    "https://raw.githubusercontent.com/hassanpazira/BFI/"
    "3629c7e1b39f4b1a2e241b769872e5db62186420/data-raw/trauma.csv"
)
SHA256: Final = "6ad16a41fcc4292dc5bfccc3e4cca0a89c659476807627e328400c00285982fe"
COLUMNS: Final = ("site", "age", "sex", "ISS", "GCS", "mortality")
NAME: Final = "trauma.csv"
DATA_VARIABLE: Final = "FEDRULEFIT_DATA"
"""Environment variable that names a folder with the file."""


def trauma_study() -> Study:
    """Return the study of the trauma patients, with public ranges."""
    return Study.from_mapping(
        {
            "name": "Trauma",
            "outcome": {"column": "mortality", "label": "Mortality"},
            "covariates": {
                "age": {"kind": "number", "range": [0, 110], "unit": "years", "step": 1},
                "sex": {"kind": "yes/no", "labels": ["male", "female"]},
                "ISS": {"kind": "number", "range": [1, 75], "step": 1},
                "GCS": {"kind": "number", "range": [3, 15], "step": 1},
            },
        }
    )


def load_trauma(path: Path | None, *, folder: Path) -> pd.DataFrame:
    """Return the patients: columns :data:`COLUMNS`, one row each.

    Parameters
    ----------
    path : Path, optional
        The file, or a folder with it. None looks into the folder named by
        ``FEDRULEFIT_DATA`` or, if it is not set, into `folder`, and downloads the file
        otherwise.
    folder : Path
        Where a downloaded file is kept.

    Raises
    ------
    DataError
        Where there is no file and no network, or the file is another one.
    """
    found = _find(path, folder)
    if found is not None:
        return parse_trauma(_read(found), where=str(found))
    frame = parse_trauma(_download(), where=URL)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / NAME, _canonical(frame).encode())
    except OSError as error:
        raise DataError(f"cannot write to {folder}: {error.strerror}") from None
    return frame


def parse_trauma(text: str, *, where: str) -> pd.DataFrame:
    """Read the file's text, and check that it is the paper's data."""
    import pandas as pd

    try:
        frame = pd.read_csv(StringIO(text), sep=None, engine="python")
        frame = frame.rename(columns={"hospital": "site"})[list(COLUMNS)].astype(int)
    except (ValueError, KeyError, csv.Error):
        raise DataError(
            f"{where} is not the trauma data, which has the columns {', '.join(COLUMNS)}, all "
            f"whole numbers: {_advice()}"
        ) from None
    if hashlib.sha256(_canonical(frame).encode()).hexdigest() != SHA256:
        raise DataError(
            f"{where} is not the trauma data of the paper, its checksum differs: {_advice()}"
        )
    return frame


def _canonical(frame: pd.DataFrame) -> str:
    return frame.to_csv(index=False, lineterminator="\n")


def _find(path: Path | None, folder: Path) -> Path | None:
    if path is not None:
        file = path / NAME if path.is_dir() else path
        if not file.is_file():
            raise DataError(f"{file} does not exist: {_advice()}")
        return file
    named = os.environ.get(DATA_VARIABLE)
    if named:
        file = Path(named) / NAME
        if not file.is_file():
            raise DataError(f"{DATA_VARIABLE} is {named}, but {file} does not exist: {_advice()}")
        return file
    return folder / NAME if (folder / NAME).is_file() else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{file} cannot be read as text") from None


def _download() -> str:
    try:
        with urllib.request.urlopen(URL, timeout=30) as reply:
            text: str = reply.read().decode("utf-8")
    except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
        reason = getattr(error, "reason", error)
        raise DataError(f"the trauma data cannot be downloaded ({reason}): {_advice()}") from None
    return text


def _advice() -> str:
    return (
        f"get {URL} (or 'write.csv(BFI::trauma, \"{NAME}\")' in R) and pass it with --data, "
        f"or set {DATA_VARIABLE} to its folder"
    )
