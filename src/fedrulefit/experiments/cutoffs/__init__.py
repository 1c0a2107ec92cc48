"""The paper's appendix 2: how many bins and cut-offs the histograms need.

Scenario 1 with 5 clients, the same patients as in the simulations, preset
``paper``: bins B × quantile levels Q, against no histogram at all. For each:
AUC, accuracy, F1, seconds, rules of the model, and candidate rules.

Departures: the paper does not list the B and Q that it tried. Without a histogram its
clients split at any of their own values; ours take the pooled values as
cut-offs, which a code of one byte limits to 254 quantiles. So clients share cut-offs in
both cases, fine or coarse. What sharing saves is seen in the number of candidate rules,
which is also counted where every client has cut-offs of its own; no model is fitted to these.
"""

from fedrulefit.experiments.cutoffs.repetitions import make_units
from fedrulefit.experiments.cutoffs.results import write_results

__all__ = ["make_units", "write_results"]
