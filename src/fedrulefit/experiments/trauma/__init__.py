"""The paper's section 4: the trauma patients.

Table 1 and figure 3 come from one model of all patients; figure 4 from splits, 70 % of
every hospital's patients to learn from and 30 % to test on, drawn anew in each
repetition from (seed, repetition).
"""

from fedrulefit.experiments.trauma.patients import load_trauma
from fedrulefit.experiments.trauma.repetitions import fit_all, make_units
from fedrulefit.experiments.trauma.results import write_results

__all__ = ["fit_all", "load_trauma", "make_units", "write_results"]
