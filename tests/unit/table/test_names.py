"""What a column's name says."""

from __future__ import annotations

import pytest

from fedrulefit.table.measures import KNOWN
from fedrulefit.table.names import (
    OUTCOME_NAMES,
    fold_name,
    left_out_by_name,
    names_patient,
    names_postcodes,
    split_unit,
)


@pytest.mark.parametrize(
    "name",
    [
        "patient_id", "id_patient", "Patient", "PatientId", "Patient No", "Pat.-Nr.", "MRN",
        "numéro patient", "patient code", "subject", "Fallnummer",
    ],
)  # fmt: skip
def test_names_that_say_whose_a_row_is(name: str) -> None:
    assert names_patient(name)
    assert left_out_by_name(name, None) == "looks like an identifier or a name"


@pytest.mark.parametrize(
    "name",
    [
        "patient_age", "patient weight", "age_of_patient", "nombre_enfants", "nombre de grossesses",
        "lipid", "inpatient",
    ],
)  # fmt: skip
def test_names_that_only_look_so(name: str) -> None:
    """A draft left the age out, or took it for the column of patients."""
    assert not names_patient(name)
    assert left_out_by_name(name, None) == ""


@pytest.mark.parametrize("name", ["nombre", "Nombre y apellidos", "nombre_paciente", "surname"])
def test_names_of_people(name: str) -> None:
    assert left_out_by_name(name, None) == "looks like an identifier or a name"
    assert not names_patient(name)


@pytest.mark.parametrize("name", ["zip", "PLZ", "code postal", "código postal", "postcode"])
def test_postcodes(name: str) -> None:
    assert names_postcodes(name)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("CRP [mg/l]", "mg/l"), ("Alter (Jahre)", "Jahre"), ("SBP (mmHg)", "mmHg"),
        ("SpO2 [%]", "%"), ("weight (kg)", "kg"), ("CRP (baseline)", ""), ("score (1-5)", ""),
        ("[mg/l]", "mg/l"), ("plain", ""),
    ],
)  # fmt: skip
def test_a_unit_behind_a_name(name: str, unit: str) -> None:
    bare = name.replace(f"[{unit}]", "").replace(f"({unit})", "").strip() if unit else name
    assert split_unit(name) == (bare, unit)


def test_a_known_measure_with_its_unit_is_known() -> None:
    assert split_unit("Alter (Jahre)")[0].casefold() in KNOWN


@pytest.mark.parametrize("name", ["Décédé", "died?", "DEATH30", "death_30d", "Mortality (30 days)"])
def test_usual_names_of_an_outcome_in_any_spelling(name: str) -> None:
    """These had to be named with --outcome, beside "death", which was found."""
    assert fold_name(name) in OUTCOME_NAMES


@pytest.mark.parametrize("name", ["y1", "event2x", "deadline", "age"])
def test_names_that_are_no_usual_outcome(name: str) -> None:
    assert fold_name(name) not in OUTCOME_NAMES


def test_usual_names_are_as_they_are_compared() -> None:
    assert [fold_name(name) for name in OUTCOME_NAMES] == list(OUTCOME_NAMES)


@pytest.mark.parametrize("name", ["HOSP", "hosp_id", "hospital"])
def test_names_of_a_site(name: str) -> None:
    assert "which site" in left_out_by_name(name, None)
