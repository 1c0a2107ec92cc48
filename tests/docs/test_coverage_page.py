"""The page on coverage says what its rows say."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from fedrulefit.experiments.coverage import coverage_table, summarise
from tests.docs.pages import ROOT, load_script

page = load_script("make_coverage")


def test_the_page_says_what_its_rows_say() -> None:
    text = (ROOT / "docs" / page.PAGE).read_text(encoding="utf-8")
    rows = duckdb.read_parquet(str(ROOT / "docs" / page.ROWS)).df()
    assert coverage_table(summarise(rows)) in text


def test_a_run_is_put_in_its_place_and_a_quick_one_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no finished run"):
        page.check_results(tmp_path)
    for name in ("run", "tables"):
        (tmp_path / f"{name}.md").write_text(f"the {name} here\n")
    text = (ROOT / "docs" / page.PAGE).read_text(encoding="utf-8")
    filled = page.fill_page(text, tmp_path)
    assert "the run here" in filled
    assert "the tables here" in filled
    (tmp_path / "run.json").write_text('{"facts": {"quick": true}}')
    with pytest.raises(SystemExit, match="quick run"):
        page.check_results(tmp_path)
