"""Formulas of the site say what their TeX says (``make docs`` installs what this needs)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.docs.pages import load_script

pytest.importorskip("sphinx")


@pytest.fixture(scope="module")
def mathml() -> Any:
    return load_script("site/mathml")


def outline(text: str) -> str:
    """Return MathML without attributes, ends and what only layout needs."""
    names = re.sub(r"<(/?)(\w+)[^>]*>", r"<\1\2>", text)
    return re.sub(r"\s+|</m[ino]>|</?math>|<mspace>", "", names)


@pytest.mark.parametrize(
    ("tex", "expected"),
    [
        (r"\tilde h_b", "<msub><mover><mi>h<mo>~</mover><mi>b</msub>"),
        (r"\hat h_b^c", "<msubsup><mover><mi>h<mo>ˆ</mover><mi>b<mi>c</msubsup>"),
        (r"\tfrac12 d", "<mfrac><mn>1<mn>2</mfrac><mi>d"),
        (r"\frac1W d", "<mfrac><mn>1<mi>W</mfrac><mi>d"),
        (r"1 \dots q", "<mn>1<mi>…<mi>q"),
        (r"a \log b", "<mi>a<mi>log<mo>\u2061<mi>b"),
        (r"\sum_{k=1}^K", "<munderover><mo>∑<mrow><mi>k<mo>=<mn>1</mrow><mi>K</munderover>"),
    ],
)
def test_formulas_are_read_as_tex_reads_them(mathml: Any, tex: str, expected: str) -> None:
    assert outline(mathml.translate(tex)) == expected


def test_an_unknown_command_is_an_error(mathml: Any) -> None:
    from docutils.utils.math import MathError

    with pytest.raises(MathError, match="unknown"):
        mathml.translate(r"\unknown x")
