"""Notebooks as pages: their cells as Markdown, with the output that is stored in them.

``docs/run_notebooks.py`` runs the cells and stores the output; here nothing runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def to_markdown(notebook: str) -> str:
    """Return a notebook, a text of JSON, as Markdown."""
    return "\n\n".join(_write_cells(json.loads(notebook)["cells"])) + "\n"


def _write_cells(cells: list[dict[str, Any]]) -> Iterator[str]:
    for cell in cells:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield text
            continue
        yield _fence("python", text)
        for output in cell["outputs"]:
            yield _write_output(output)


def _write_output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _fence("text", "".join(output["text"]).rstrip("\n"))
    data = output["data"]
    if "image/png" in data:
        picture = (
            f'<img alt="The figure of this cell" src="data:image/png;base64,{data["image/png"]}">'
        )
        return _fence("{raw} html", picture)
    if "text/html" in data:
        return _fence("{raw} html", "".join(data["text/html"]))
    return _fence("text", "".join(data["text/plain"]))


def _fence(kind: str, text: str) -> str:
    return f"```{kind}\n{text}\n```"
