"""The mathematics, pure: no files, no clocks, no networks.

Read the modules in the order the data walks through them, which is the paper's:

* covariates: :mod:`bins` → :mod:`cutoffs` → :mod:`grid`;
* rules: :mod:`boosting` → :mod:`plan` → :mod:`rules`;
* the model's terms: :mod:`layout` → :mod:`design`, :mod:`class_design`, and how sums over
  patients are declared and bounded: :mod:`sums`, :mod:`fixed`;
* the outcome: :mod:`families`;
* the fit: :mod:`fedda`, or :mod:`curvature` → :mod:`quadratic` → :mod:`newton` → :mod:`path`;
  then :mod:`certificate`;
* what it tells: :mod:`predictor`, :mod:`importance`, :mod:`between`, :mod:`subgroups` (with
  :mod:`shares`), :mod:`heterogeneity`, :mod:`rounding`; how it is judged is for the outcome's
  family.
"""
