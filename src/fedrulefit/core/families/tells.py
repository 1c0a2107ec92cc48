"""What sums tell of patients, by their kind of outcome: for the bill and for who lets them out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tells:
    """Clauses on what answers tell.

    Parameters
    ----------
    inside : str
        What follows from the rounds of the fit, of patients inside candidate rules.
    slopes : str
        Which patients the last gradient keeps apart.
    summary : str
        What is counted in all and inside each rule of the final model.
    evaluation : str
        What the sums over held-out patients are.
    subgroups : str
        What is told of those of them who satisfy a rule.
    results, held_out_results : str
        What a site tells of itself of those learnt from, and of those held out.
    as_policy : bool
        Whether the policy's own words for kinds of release say as much.
    """

    inside: str = "patients and their summed outcomes"
    slopes: str = "of patients whose loss falls, and whose loss rises, apart"
    summary: str = "the number of patients"
    evaluation: str = "sums and histograms of predictions and outcomes"
    subgroups: str = "how many of these patients satisfy each rule, and their summed outcomes"
    results: str = ""
    held_out_results: str = "its held-out patients, and measures of their predictions"
    as_policy: bool = False
