"""The paper's study, rerun: simulations, cut-offs, trauma patients; and how often intervals hold.

``fedrulefit experiment`` runs them; ``docs/paper-study.md`` shows what came out.
"""
