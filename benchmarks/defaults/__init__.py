"""Which settings should be the default, and whether they keep what they promise.

In order: one method on one draw of simulated patients (:mod:`.draws`), tables and verdicts from the
rows (:mod:`.tables`), the command (``python -m benchmarks.defaults``).
"""
