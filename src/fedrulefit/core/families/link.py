"""How a prediction follows from the linear predictor, as a family declares it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedrulefit.core.arrays import Floats


@dataclass(frozen=True)
class Link:
    """How a prediction follows from the linear predictor F, in every language that we write.

    Parameters
    ----------
    name : str
    inverse : callable
        F → the mean of the outcome.
    forward : callable
        The mean of the outcome → F.
    sql : callable
        An expression for F, and how the database writes a number → an expression for the mean.
    onnx : tuple of (str,) or (str, float)
        The ONNX operators that make F the mean, one after another; some take a number, too.
    javascript : str
        A function from F to the mean.
    """

    name: str
    inverse: Callable[[Floats], Floats]
    forward: Callable[[Floats], Floats]
    sql: Callable[[str, Callable[[float], str]], str]
    onnx: tuple[tuple[str] | tuple[str, float], ...]
    javascript: str
