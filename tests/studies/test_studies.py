"""A study goes on after a stop, and writes what its page takes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from benchmarks.studies import make_parser, run_study

from fedrulefit.errors import FitError
from fedrulefit.experiments.units import Row, Unit
from tests.docs.pages import load_script


@dataclass(frozen=True)
class Fake:
    """A unit that writes down that it ran; one fails until its file says otherwise."""

    place: int
    folder: Path

    @property
    def key(self) -> str:
        return f"unit-{self.place}"

    def run(self) -> list[Row]:
        (self.folder / f"ran-{self.place}").open("a").write("x")
        if self.place == 1 and not (self.folder / "works").exists():
            raise FitError("not yet")
        return [{"place": self.place, "value": 2.0 * self.place}]


def run(folder: Path) -> None:
    units: list[Unit] = [Fake(place, folder) for place in range(3)]
    options = make_parser("coverage").parse_args(["--jobs", "1", "--output", str(folder / "out")])
    run_study(
        "coverage",
        units,
        options,
        seed=7,
        command="python -m benchmarks.fake",
        make_texts=lambda rows: {"tables": f"sum {rows['value'].sum():.0f}"},
    )


def test_a_stopped_study_goes_on_and_fills_its_page(tmp_path: Path) -> None:
    with pytest.raises(FitError, match="unit-1"):
        run(tmp_path)
    assert not (tmp_path / "out" / "run.md").exists()
    (tmp_path / "works").touch()
    run(tmp_path)
    assert [(tmp_path / f"ran-{k}").read_text() for k in range(3)] == ["x", "xx", "x"]
    rows = duckdb.read_parquet(str(tmp_path / "out" / "results.parquet")).df()
    assert list(rows["place"]) == [0, 1, 2]
    script = load_script("make_results")
    assert script.check_results(tmp_path / "out") == "coverage"
    marks = "<!-- coverage-{0}:start --><!-- coverage-{0}:end -->"
    page = script.fill_page(
        marks.format("run") + marks.format("tables"), "coverage", tmp_path / "out"
    )
    assert "`python -m benchmarks.fake`" in page
    assert "sum 6" in page
