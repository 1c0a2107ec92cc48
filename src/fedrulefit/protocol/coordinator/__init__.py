"""The coordinator's side of the protocol: asks, until there is a model.

===============  ==================================================================
``coordinator``  the conversation, from top to bottom
``asking``       one question to all sites; sums, masks, sites that are lost
``agreeing``     histograms → cut-offs; the sites' rules → candidates → terms
``fitting``      coefficients: cross-validation, the exact solver, the paper's FedDA
``concluding``   the sums of the final model → :class:`~fedrulefit.model.Model`
``judging``      how well it predicts, and what single sites tell of themselves
===============  ==================================================================
"""

from fedrulefit.protocol.coordinator.asking import STEPS, Progress, Talk
from fedrulefit.protocol.coordinator.coordinator import Coordinator

__all__ = ["STEPS", "Coordinator", "Progress", "Talk"]
