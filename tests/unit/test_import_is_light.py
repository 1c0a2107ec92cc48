"""``import fedrulefit`` must not make a terminal wait."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = [
    "pandas", "polars", "sklearn", "scipy", "numpy", "lightgbm", "matplotlib", "duckdb", "opendp",
    "pydantic", "typer", "rich", "narwhals", "msgpack", "jinja2",
]  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """Return the top-level modules that are loaded after `code`, in a fresh process."""
    program = f"{code}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = loaded_after("import fedrulefit; fedrulefit.__version__; dir(fedrulefit)")
    assert "fedrulefit" in loaded
    assert not loaded & set(HEAVY)


def test_a_study_loads_neither_frames_nor_trees() -> None:
    loaded = loaded_after("from fedrulefit import Study")
    assert "pydantic" in loaded
    assert not loaded & {"pandas", "sklearn", "lightgbm", "matplotlib", "duckdb", "opendp", "typer"}


def test_names_load_when_used_and_others_do_not_exist() -> None:
    import fedrulefit

    for name in fedrulefit.__all__:
        assert getattr(fedrulefit, name) is not None
        assert name in dir(fedrulefit)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = fedrulefit.nonsense
