"""A model as one web page: rules, effects, privacy bill and a risk calculator.

In: a :class:`~fedrulefit.model.Model`, and nothing else: no table, ledger, clock
or network. Out: one HTML text that opens from disk. So the page shows no number
that cannot be worked out from the model file.

======================  ==================================================
``contents.py``         the model → rows and sentences (data first)
``subgroups.py``        outcome rates inside and outside rules → rows
``charts.py``           effects → lines and ticks on paper
``curves.py``           the evaluation → lines and ticks on paper
``forest.py``           sites left out → one under the other
``tripod.py``           the TRIPOD+AI checklist
``embedded.py``         what the page's calculator computes with
``page.html, .css, .js``  how all that looks and acts; ``macros.html``: its repeated parts;
                        ``survival.js``, ``levels.js``: the calculator's part for such
                        outcomes; ``tables.js``
======================  ==================================================

Oracles: :meth:`Model.predict` for the calculator, in a real browser
(``tests/browser``); the model file for every number (``tests/disclosure``).
"""

from __future__ import annotations

from fedrulefit.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
