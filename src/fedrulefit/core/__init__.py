"""The mathematics, pure: no files, no clocks, no networks.

Read the modules in the order the data walks through them, which is the
paper's: :mod:`grid` → :mod:`boosting` → :mod:`rules` → :mod:`layout` →
:mod:`design` →
:mod:`families` → :mod:`fedda`, or :mod:`quadratic` → :mod:`newton` → :mod:`path` →
:mod:`certificate`; then :mod:`importance`.
"""
