"""How often the 95 % intervals that the program shows hold what they are about.

Patients are drawn from a model whose AUC, slope and intercept are known (:mod:`.patients`), judged
as the program judges, and it is counted how often an interval holds the truth
(:mod:`.repetitions`). Not one of the paper's studies.
"""

from fedrulefit.experiments.coverage.repetitions import make_units
from fedrulefit.experiments.coverage.results import write_results
from fedrulefit.experiments.coverage.tables import coverage_table, summarise

__all__ = ["coverage_table", "make_units", "summarise", "write_results"]
