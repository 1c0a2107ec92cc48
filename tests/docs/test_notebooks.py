"""The notebooks run from top to bottom, and show what their cells give."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from tests.docs.pages import ROOT, load_script

script = load_script("run_notebooks")
NOTEBOOKS = pytest.mark.parametrize("path", script.NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def texts(notebook: dict[str, Any]) -> list[list[tuple[str, str]]]:
    """Return what each cell gives; of a picture only that there is one."""
    return [
        [
            (kind, "" if kind == "image/png" else "".join(text))
            for output in cell.get("outputs", [])
            for kind, text in output.get("data", {"stream": output.get("text")}).items()
        ]
        for cell in notebook["cells"]
    ]


def test_there_is_a_notebook() -> None:
    assert script.NOTEBOOKS


@NOTEBOOKS
def test_it_gives_what_it_shows(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    stored = read(path)
    assert texts(script.run_notebook(stored)) == texts(stored), "run: python docs/run_notebooks.py"
    shown = [kind for cell in texts(stored) for kind, _ in cell]
    assert {"image/png", "text/html", "stream"} <= set(shown)


@NOTEBOOKS
def test_it_is_a_notebook_of_jupyter_s_format(path: Path) -> None:
    """The rules of nbformat 4.5 that a file made without Jupyter can break."""
    notebook = read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    for cell in notebook["cells"]:
        assert all(isinstance(line, str) for line in cell["source"])
        keys = {"cell_type", "id", "metadata", "source"}
        assert cell["cell_type"] in ("code", "markdown")
        if cell["cell_type"] == "code":
            assert isinstance(cell["execution_count"], int)
            keys |= {"execution_count", "outputs"}
        assert set(cell) == keys
    assert path.read_text(encoding="utf-8") == script.write(notebook)
    assert path.stat().st_size < 200_000


def test_a_cell_that_fails_is_noticed() -> None:
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": ["1 / 0"]}
    with pytest.raises(ZeroDivisionError):
        script.run_notebook({"cells": [cell]})


@NOTEBOOKS
def test_the_site_shows_cells_and_outputs(path: Path) -> None:
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    try:
        from notebooks import to_markdown
    finally:
        sys.path.pop(0)
    page = to_markdown(path.read_text(encoding="utf-8"))
    for cell in read(path)["cells"]:
        assert "".join(cell["source"]) in page
    assert page.count("```") % 2 == 0
    assert "data:image/png;base64," in page
    assert "<table>" in page


def test_running_them_needs_no_jupyter() -> None:
    code = "import sys; sys.path.insert(0, 'docs'); import run_notebooks; " \
        "assert not {'IPython', 'nbformat'} & set(sys.modules)"  # fmt: skip
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)  # noqa: S603 - our own
