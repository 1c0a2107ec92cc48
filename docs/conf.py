"""Builds the documentation as a site: ``make docs``, then open ``build/docs/index.html``.

The pages are plain Markdown, to be read in the repository as well. What only the site
needs is added here as a page is read: the contents (:data:`CHAPTERS`), and, in place of
the tables of ``api.md``, what the code says about itself. ``site/`` holds the rest. The
site asks no other server for anything; it can be read from disk.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from docutils import nodes
from pydantic import BaseModel
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import fedrulefit

HERE: Final = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "site")]
import public_names  # noqa: E402
from notebooks import to_markdown  # noqa: E402

CHAPTERS: Final = {
    "Tutorial": ["tutorial", "notebooks/rules-in-a-notebook"],
    "Other outcomes": [
        "outcomes-number",
        "outcomes-count",
        "outcomes-time",
        "outcomes-ordered",
        "outcomes-classes",
    ],
    "How to": ["wishes", "scikit-learn", "howto-consortium", "howto-data-protection", "export"],
    "Reference": ["tables", "api", "protocol", "model-file"],
    "Method": ["method", "statistics", "defaults"],
    "Results": ["real-data", "outcomes-results", "paper-study", "benchmarks", "coverage"],
    "Development": ["site/contributing", "architecture", "site/changes"],
}

project = "fedrulefit"
author = "The fedrulefit developers"
copyright = author  # noqa: A001 - the name that Sphinx reads
version = release = fedrulefit.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "mathml"]
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings name them
maximum_signature_line_length = 80
numpydoc_show_class_members = False
nitpicky = True
nitpick_ignore = [  # not public
    ("py:attr", "Family.n_baseline"),
    ("py:mod", "fedrulefit.study.outcomes"),
    ("py:data", "fedrulefit.study.PRESETS"),
    ("py:data", "KINDS"),
    ("py:data", "OUTCOMES"),
    ("py:data", "PLANTED"),
    ("py:data", "Source"),
    ("py:func", "read_releases"),
    ("py:func", "run"),
]

html_theme = "furo"
html_title = f"fedrulefit {release}"
html_static_path = ["site/static"]
html_css_files = ["style.css"]
html_copy_source = False
html_math_renderer = "mathml"


# --- pages --------------------------------------------------------------------------------


def complete_page(app: Sphinx, page: str, source: list[str]) -> None:
    """Add to a page what only the site needs."""
    if page.startswith("notebooks/"):
        source[0] = to_markdown(source[0])
    # In the repository "sh" says that no test runs the block; it may show output all the same.
    source[0] = source[0].replace("```sh\n$ ", "```console\n$ ")
    if not page.startswith("site/"):  # pages beside the folder are shown from within it
        source[0] = source[0].replace("../CHANGELOG.md", "site/changes.md")
        source[0] = source[0].replace("../CONTRIBUTING.md", "site/contributing.md")
    if page == "index":
        source[0] = "\n".join([source[0], *make_contents()])
    elif page == "api":
        tables = r"(?<=<!-- api:start -->).*(?=<!-- api:end -->)"
        reference = "\n".join(make_reference())
        source[0] = re.sub(tables, lambda _: f"\n\n{reference}\n", source[0], flags=re.S)


def make_contents() -> Iterator[str]:
    """Yield the lines of the contents."""
    for caption, pages in CHAPTERS.items():
        yield from ("", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```")


def make_reference() -> Iterator[str]:
    """Yield the lines of the reference: the public names with their docstrings."""
    for title, names in public_names.API:
        yield from ("", f"## {title}", "", "```{eval-rst}")
        for name in names:
            if not _is_member(name):
                yield from _document(name, names)
        yield "```"


def _is_member(name: str) -> bool:
    return inspect.isclass(public_names.find(name.rpartition(".")[0]))


def _document(name: str, names: Sequence[str]) -> Iterator[str]:
    found = public_names.find(name)
    if inspect.ismodule(found):
        yield from (f".. automodule:: {name}", "")
    elif inspect.isclass(found):
        members = [n.rpartition(".")[2] for n in names if n.rpartition(".")[0] == name]
        yield f".. autoclass:: {name}"
        yield from [f"   :members: {', '.join(members)}"] if members else []
        yield ""
    elif callable(found):
        yield from (f".. autofunction:: {name}", "")
    else:
        yield from (f".. py:data:: {name}", "", f"   {public_names.tell_meaning(name)}", "")


# --- docstrings ---------------------------------------------------------------------------


def hide_signature(
    app: Sphinx, what: str, name: str, found: object, *_: object
) -> tuple[str, None] | None:
    """Leave out the signature of a file's part: pages of their own tell its keys."""
    hidden = inspect.isclass(found) and issubclass(found, BaseModel)
    return ("", None) if hidden else None


def find_elsewhere(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, text: nodes.TextElement
) -> nodes.Element | None:
    """Resolve a docstring's short name of something public in another module."""
    if node["refdomain"] != "py" or node["reftarget"].startswith("."):
        return None
    domain = env.domains["py"]
    names = [n for n, *_ in domain.get_objects() if n.endswith(f".{node['reftarget']}")]
    if len({public_names.find(n) for n in names}) != 1:
        return None
    kind, target = node["reftype"], min(names, key=len)
    return domain.resolve_xref(env, node["refdoc"], app.builder, kind, target, node, text)


def setup(app: Sphinx) -> None:
    """Register the above with Sphinx."""
    app.add_source_suffix(".ipynb", "markdown")
    app.connect("source-read", complete_page)
    app.connect("autodoc-process-signature", hide_signature)
    app.connect("missing-reference", find_elsewhere)
