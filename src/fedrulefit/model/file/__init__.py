"""The model file: readable, versioned JSON.

No code in a file is ever run. The words of every rule stand in the file for people; they must
agree with its conditions.

================  ===============================================================
``parts.py``      what stands in a file: names, types, bounds
``writing.py``    model → parts → text
``reading.py``    text → parts, refused where no model has that
``upgrading.py``  parts of older versions → today's
``building.py``   parts → model, refused where they do not fit each other
================  ===============================================================

Oracle: saving, loading and saving again gives the same bytes (``tests/unit/model/test_file.py``);
older files stay in ``tests/golden``.
"""

from fedrulefit.model.file.parts import FORMAT, VERSION
from fedrulefit.model.file.reading import MAX_BYTES, build_model, load_model
from fedrulefit.model.file.writing import digest_model, model_facts, model_text, save_model

__all__ = [
    "FORMAT",
    "MAX_BYTES",
    "VERSION",
    "build_model",
    "digest_model",
    "load_model",
    "model_facts",
    "model_text",
    "save_model",
]
