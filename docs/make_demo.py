"""Takes a run of the demo into README: ``python docs/make_demo.py DEMO_FOLDER``.

The folder is one that ``fedrulefit demo -o DEMO_FOLDER`` has written. Its model becomes
``docs/results/demo.json``, its drawing ``docs/images/demo-model.png``, and the README shows what
``fedrulefit rules`` prints of it. Then ``python docs/make_screenshots.py DEMO_FOLDER``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from typer.testing import CliRunner

from fedrulefit.cli.app import app

ROOT: Final = Path(__file__).resolve().parent.parent
MODEL: Final = "docs/results/demo.json"
COMMAND: Final = f"fedrulefit rules {MODEL} --top 4"
HEAD: Final = "rule  "


def print_rules() -> str:
    """Return the table of rules that the README's command prints."""
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"})
    words = COMMAND.replace(MODEL, str(ROOT / MODEL)).split()[1:]
    result = runner.invoke(app, words)
    if result.exit_code:
        raise SystemExit(result.output)
    parts = result.output.split("\n\n")
    tables = [part for part in parts if any(x.startswith(HEAD) for x in part.splitlines())]
    return "\n".join(line.rstrip() for line in tables[0].splitlines())


def fill_readme(text: str, table: str) -> str:
    """Return the README with the table under its command."""
    start = text.index(f"$ {COMMAND}\n") + len(COMMAND) + 3
    return text[:start] + table + text[text.index("\n```", start) :]


def main(folder: Path) -> None:
    """Copy model and drawing, and rewrite the README."""
    shutil.copy(folder / "model.json", ROOT / MODEL)
    shutil.copy(folder / "model.png", ROOT / "docs" / "images" / "demo-model.png")
    readme = ROOT / "README.md"
    readme.write_text(fill_readme(readme.read_text(encoding="utf-8"), print_rules()), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
