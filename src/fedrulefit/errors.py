"""The errors a user can meet.

Each message says what is wrong, where, and what to do. None contains a
patient's value: tests in ``tests/disclosure`` check that.
"""

from __future__ import annotations


class FedRuleFitError(ValueError):
    """Base of all errors raised on purpose by fedrulefit."""


class StudyError(FedRuleFitError):
    """The study file contradicts itself or cannot be read."""


class DataError(FedRuleFitError):
    """A site's table does not fit the study."""


class ProtocolError(FedRuleFitError):
    """A message came at the wrong time, from the wrong study, or malformed."""


class FitError(FedRuleFitError):
    """The model could not be fitted with these settings."""


class ModelFileError(FedRuleFitError):
    """A model file is damaged, hostile, or of another version."""
