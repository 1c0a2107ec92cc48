"""What all figures share: axes, colours, and a model where an estimator is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from fedrulefit.errors import printable
from fedrulefit.model import Model
from fedrulefit.model.wording import STANDS_FOR_SITE
from fedrulefit.study import Number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)

RAISES: Final = "#b2182b"
LOWERS: Final = "#2166ac"
NEUTRAL: Final = "#4d4d4d"
INSIDE: Final = "#762a83"
OUTSIDE: Final = "#bdbdbd"
_WIDEST: Final = 48


class Fitted(Protocol):
    """A fitted estimator: it has a model."""

    model_: Model


class Figured(Protocol[P, R_co]):
    """A figure of a model, or of a fitted estimator's."""

    def __call__(self, model: Model | Fitted, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Draw."""


def of_model(draw: Callable[Concatenate[Model, P], R_co]) -> Figured[P, R_co]:
    """Let a figure take a fitted estimator for its model."""

    @wraps(draw)
    def drawn(model: Model | Fitted, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return draw(_find_model(model, draw.__name__), *args, **kwargs)

    return drawn


def _find_model(of: Any, name: str) -> Model:
    """Return the model of an estimator, or refuse what has none."""
    found = getattr(of, "model_", of)
    if isinstance(found, Model):
        return found
    given = of.__name__ if isinstance(of, type) else type(of).__name__
    raise TypeError(
        f"plot.{name} takes a Model or a fitted estimator, not {given}: "
        + (
            "call its 'fit' first; of a Pipeline give the step"
            if hasattr(of, "fit")
            else "give 'estimator.model_'"
        )
    )


def find_axes(ax: Axes | None) -> Axes:
    """Return the axes, or new ones."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(layout="constrained")[1]


def draw_patch(colour: str, label: str) -> object:
    """Return a patch of a colour, for a legend."""
    from matplotlib.patches import Patch

    return Patch(color=colour, label=label)


def draw_stripes(bars: BarContainer, frame: pd.DataFrame) -> None:
    """Draw white stripes over the bars of what stands for the hospital."""
    for bar, stands in zip(bars, frame["stands_for_site"], strict=True):
        if stands:
            bar.set(hatch="//", edgecolor="white")


def list_stripes(frame: pd.DataFrame) -> list[object]:
    """Return the legend of the stripes; nothing where there are none."""
    from matplotlib.patches import Patch

    striped = Patch(facecolor=NEUTRAL, hatch="//", edgecolor="white", label=STANDS_FOR_SITE)
    return [striped] if frame["stands_for_site"].any() else []


def say(ax: Axes, text: str) -> Axes:
    """Write why there is nothing to draw."""
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes)
    ax.set_axis_off()
    return ax


def shorten(text: str) -> str:
    """Cut long names, and keep matplotlib from reading ``$`` as mathematics."""
    text = printable(text)
    text = text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
    return text.replace("$", r"\$")


def title_axis(model: Model, name: str) -> str:
    """Return a covariate's name with its unit."""
    covariate = model.study.covariates[name]
    unit = f" ({covariate.unit})" if isinstance(covariate, Number) and covariate.unit else ""
    return shorten(name + unit)
