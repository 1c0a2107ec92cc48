"""Runs the notebooks of the documentation, and stores what their cells give.

``python docs/run_notebooks.py`` rewrites the outputs of every notebook in ``docs/notebooks``; it
needs no Jupyter. ``tests/docs/test_notebooks.py`` fails where a notebook is not current.

As in Jupyter a cell gives what it prints, the value of its last line (as HTML, where the value has
that), and the figure that it draws.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

HERE: Final = Path(__file__).resolve().parent
NOTEBOOKS: Final = sorted((HERE / "notebooks").glob("*.ipynb"))


def run_notebook(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs of its cells, run one after another."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
            continue
        count += 1
        outputs = run_cell("".join(cell["source"]), names, count)
        cells.append({**cell, "execution_count": count, "outputs": outputs})
    return {**notebook, "cells": cells}


def run_cell(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """Run a cell among these names; return its outputs."""
    import matplotlib.pyplot as plt

    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with mpl.rc_context({"savefig.dpi": 80}), contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)  # noqa: S102 - it is our own notebook
        if last is not None:
            expression = ast.Expression(last.value)
            value = eval(compile(expression, "<cell>", "eval"), names)  # noqa: S307
        pictures = [_draw(plt.figure(number)) for number in plt.get_fignums()]
        plt.close("all")
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None and not pictures:
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": count,
                "data": _show(value),
                "metadata": {},
            }
        )
    return outputs + pictures


def _show(value: Any) -> dict[str, list[str]]:
    shown = {"text/plain": repr(value).splitlines(keepends=True)}
    html = value._repr_html_() if hasattr(value, "_repr_html_") else None
    return shown if html is None else {"text/html": html.splitlines(keepends=True), **shown}


def _draw(figure: Any) -> dict[str, Any]:
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def write(notebook: dict[str, Any]) -> str:
    """Return a notebook as Jupyter writes it."""
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Run every notebook."""
    mpl.use("Agg")
    for path in NOTEBOOKS:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(write(run_notebook(notebook)), encoding="utf-8")


if __name__ == "__main__":
    main()
