"""fedrulefit and its peers on real hospitals' data: ``make study``.

In order: the data as studies (:mod:`.patients`), one method on one split (:mod:`.splits`), tables
and verdicts from the rows (:mod:`.tables`), the command (``python -m benchmarks.real``).
"""
