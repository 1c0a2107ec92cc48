"""Formulas as MathML, which browsers set themselves, without scripts and without a network.

docutils translates TeX; what it sets badly is mended here. A formula that it cannot read
is a warning.
"""

from __future__ import annotations

import re
from typing import Any, Final
from xml.etree import ElementTree as ET

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

NAMESPACE: Final = "http://www.w3.org/1998/Math/MathML"
APPLY: Final = "\u2061"  # stands between a function and its argument, unseen
THIN: Final = "0.17em"

logger = logging.getLogger(__name__)


def translate(tex: str, *, block: bool = False) -> str:
    """Return a formula as MathML, or raise MathError."""
    # docutils would read \frac12 as \frac{12}, and has only one of TeX's names for dots.
    tex = re.sub(r"(\\[td]?frac)(\d)(\w)", r"\1{\2}{\3}", tex)
    tex = re.sub(r"\\dots\b", r"\\ldots", tex)
    text = tex2mathml(tex, as_block=block).replace("&ApplyFunction;", APPLY)
    ET.register_namespace("", NAMESPACE)
    root = ET.fromstring(text)  # noqa: S314 - written by docutils
    for parent in reversed(list(root.iter())):  # what stands inside comes first
        _mend_accent(parent)
        _mend_spaces(parent)
    return ET.tostring(root, encoding="unicode")


def _tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"


def _mend_accent(node: ET.Element) -> None:
    """Set an index beside an accented letter, where docutils sets it below."""
    if node.tag == _tag("msup") and node[0].tag == _tag("msub"):
        node.tag = _tag("msubsup")
        node[:] = [*node[0], node[1]]
    if node.tag != _tag("munderover") or node[2].get("stretchy") != "false":
        return
    base, index, accent = node
    letter = ET.Element(_tag("mover"), accent="true")
    letter.extend([base, accent])
    node.tag = _tag("msub")
    node[:] = [letter, index]


def _mend_spaces(parent: ET.Element) -> None:
    """Set bars and slashes tight, braces small, and functions apart from what they stand by."""
    for before, node in zip([None, None, *parent], [None, *parent], strict=False):
        if node is None or node.tag != _tag("mo"):
            continue
        if node.text in ("|", "/"):
            node.attrib |= {"lspace": "0", "rspace": "0"}
        elif node.text in ("{", "}") and "minsize" not in node.attrib:
            node.set("stretchy", "false")
        elif node.text == APPLY and before is not None:
            place = list(parent).index(before)
            if place + 2 < len(parent) and parent[place + 2].tag != _tag("mo"):
                node.attrib |= {"lspace": "0", "rspace": THIN}
            if place and parent[place - 1].tag not in (_tag("mo"), _tag("mspace")):
                parent.insert(place, ET.Element(_tag("mspace"), width=THIN))


def _write(visitor: Any, node: nodes.Element, *, block: bool) -> None:
    try:
        visitor.body.append(translate(node.astext(), block=block))
    except MathError as error:
        logger.warning("a formula cannot be read: %s", error, location=node)


def visit_inline(visitor: Any, node: nodes.Element) -> None:
    """Write a formula in a line."""
    _write(visitor, node, block=False)
    raise nodes.SkipNode


def visit_block(visitor: Any, node: nodes.Element) -> None:
    """Write a displayed formula, in a box that scrolls where it is narrow."""
    visitor.body.append('<div class="formula" tabindex="0">')
    _write(visitor, node, block=True)
    visitor.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
