"""Do the tests notice a fault? Small faults are put into copies of the code, one at a time.

``python -m tools.mutants --help``. A developer's tool: no part of the package.
"""
