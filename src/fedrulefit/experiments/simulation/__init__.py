"""The paper's simulations: scenarios 1–3, models 1–2, all methods.

A unit is one repetition of one scenario and model: all settings and methods on
the same patients. Its rows hold AUC, accuracy, F1, the number of rules (a mean over
clients for local RuleFit) and the seconds of the fit. Methods on pooled data
are fitted once per unit; their setting is ``all``.

Figure 2 shows differences to centralised RuleFit in the same repetition, as
the paper's text has them (its caption says: to the proposed method). The reference is
centralised RuleFit with Friedman and Popescu's samples; the one without stands beside it.
"""

from fedrulefit.experiments.simulation.repetitions import leave_out_known, make_units
from fedrulefit.experiments.simulation.results import write_results

__all__ = ["leave_out_known", "make_units", "write_results"]
