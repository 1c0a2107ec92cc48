"""What people read of an outcome's kind comes from its family: other words appear instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from types import MappingProxyType

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from fedrulefit import plot
from fedrulefit.core import families
from fedrulefit.core.families import Words, YesNo
from fedrulefit.core.families.side_shares import ShareLevels
from fedrulefit.core.families.sides import LevelWords
from fedrulefit.model import Model
from fedrulefit.model.publish import tell_changes
from fedrulefit.report import render_report
from tests.reports import empty_model, path_model, sample_model

mpl.use("Agg")
COLUMNS = ("level", "gap")
YES_NO_WORDS = re.compile(r"\bodds|\brisk|probabilit|logist|the outcome\b", re.IGNORECASE)


class MarkedLevels(ShareLevels):
    """Shares of patients under such words; their columns keep names."""

    words = LevelWords(
        **{
            field.name: f"«level_{field.name}»" if field.name not in COLUMNS else field.name
            for field in fields(LevelWords)
        }
    )


class Marked(YesNo):
    """Yes/no outcomes under words that stand nowhere else."""

    words = Words(**{field.name: f"«{field.name}»" for field in fields(Words)})
    levels = MarkedLevels()

    def tell(self, prediction: float) -> str:
        return f"«{prediction:.3f}»"

    def tell_move(self, most: float) -> str:
        return f"«moves by {most:.3f}»"


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give yes/no outcomes the marked words, in models that no other test sees."""
    monkeypatch.setattr(families, "FAMILIES", MappingProxyType({"yes/no": Marked}))
    for make in (sample_model, path_model, empty_model):
        make.cache_clear()
    yield
    for make in (sample_model, path_model, empty_model):
        make.cache_clear()


def read(page: str) -> str:
    """Return what a reader sees of a page, and the labels that are read out."""
    labels = " ".join(re.findall(r'aria-label="([^"]*)"', page))
    shown = re.sub(r"<(style|script)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"<[^>]*>", " ", shown) + labels


@pytest.mark.parametrize("make", [sample_model, path_model, empty_model])
def test_no_page_says_what_the_family_does_not(make: Callable[[], Model]) -> None:
    model = make()
    page = render_report(model)
    text = read(page)
    for item in (*model.privacy.exact, *model.privacy.sums):  # in the words of the messages
        text = text.replace(item, "")
    assert "«prediction»" in text
    left = {text[max(0, m.start() - 40) : m.end() + 20] for m in YES_NO_WORDS.finditer(text)}
    # About any outcome: whom a rule serves, and topics of checklists.
    allowed = ("predicted the outcome well", "Harmonisation of predictors and outcome")
    assert {words for words in left if not any(known in words for known in allowed)} == set()
    assert 'sign: "«effect_sign»"' in page
    assert 'level: "«level»"' in page


def test_frames_exports_and_figures_are_named_by_the_family() -> None:
    model = sample_model()
    assert "«effect_column»" in model.rules_frame()
    assert "«predictor_column»" in model.partial_dependence("age")
    heading, *query = model.to_sql("duckdb", linear_predictor=True).splitlines()
    assert heading == "-- sepsis: «prediction» of died«by»"
    assert query[-4].endswith(" AS «prediction_column»,")
    assert [part.strip() for part in query[-3:-1]] == ["«predictor_column»,", "flags"]
    assert [o.name for o in model.to_onnx().graph.output] == [
        "«predictor_column»",
        "«prediction_column»",
        "flags",
    ]
    assert "«moves by" in " ".join(tell_changes(model, model.rounded(10, 20)))
    for axes in (
        plot.rules(model, Figure().subplots()),
        plot.partial_dependence(model, "age", Figure().subplots()),
        plot.partial_dependence(model, ("age", "sex"), Figure().subplots()),
    ):
        said = [text.get_text() for text in axes.figure.findobj(Text)]
        assert any("«" in words for words in said)
        assert not any(YES_NO_WORDS.search(words) for words in said)
