"""What a column's name says: an identifier, another outcome, a hospital, codes, an order, a unit.

Drafts ask it, and say so, and the estimators to know what deserves a question; nothing is ever read
differently for its name.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

OUTCOME_NAMES: Final = (
    "outcome", "mortality", "died", "death", "dead", "deceased", "y", "event", "target",
    "verstorben", "gestorben", "tod", "exitus", "letalitat", "mortalitat", "deces", "decede",
    "muerte", "fallecido", "morte", "decesso", "deceduto", "overleden", "obito", "mortalite",
)  # fmt: skip
"""Names of an outcome, as :func:`fold_name` gives them; the first that fits is taken."""


def _word(*words: str) -> re.Pattern[str]:
    """Match one of the words where it stands by itself in a name: ``pat_id``, not ``lipid``."""
    return re.compile(rf"(?:^|[_\W])(?:{'|'.join(words)})(?:$|[_\W])", re.IGNORECASE)


_SITE: Final = re.compile(
    r"(?:site|hosp|hospital|centre|center|clinic|klinik|krankenhaus|zentrum|standort|hôpital|ospedale"
    r"|ziekenhuis)(?:$|[_\W]|id$)",
    re.IGNORECASE,
)
_OTHER_OUTCOME: Final = re.compile(
    r"^y_|died|death|dead|mortality|surviv|deceased|outcome|verstorben|gestorben|überleb|mortalit"
    r"|letalit|décès|décéd|fallecid|decedut|overleden",
    re.IGNORECASE,
)
_STAY: Final = _word("los", "length_?of_?stay", "liegedauer", "verweildauer")
_SURVIVAL: Final = re.compile(r"surviv|alive|überleb|lebend|vivant|vivo", re.IGNORECASE)
_PATIENT: Final = _word(
    "id", "pid", "mrn", "patient_?id", r"pat(?:ient)?[_\W]*n[or]",
    r"patient[_\W]*(?:number|key|code)", r"(?:code|n[or°]|num|number|numéro)[_\W]*patient",
    "case_?no", "fall_?nr", "fallnummer", "patientennummer", "patientennr", "subject",
    "subject_?id",
)  # fmt: skip
_ALONE: Final = re.compile(r"patient|nombre", re.IGNORECASE)
"""Names that are one of a person only if they say no more: not ``patient_age``, and not the French
``nombre_enfants``."""

_IDENTIFIER: Final = _word(
    "ssn", "nhs", "bsn", "uuid", "name", "surname", "vorname", "nachname", "nom",
    r"nombre[_\W]*(?:y|completo|del?[_\W]paciente|paciente)", "record", "phone", "telefon", "email",
    "address", "adresse",
)  # fmt: skip
_POSTCODE: Final = _word(
    "zip", "zip_?code", "post_?code", "postal", "postal_?code", "plz", "postleitzahl",
    "code_?postal", "postnummer", "postcodes",
)  # fmt: skip
_CODES: Final = _word(
    "type", "group", "code", "region", "class_?code", "blood", "race", "ethnic", "ethnicity",
    "category", "ward", "department", "insurance", "diagnosis", "icd", "typ", "gruppe", "art",
    "kategorie", "station", "abteilung", "versicherung",
)  # fmt: skip
_ORDER: Final = _word(
    "nyha", "asa", "killip", "ecog", "mrs", "rankin", "ccs", "avpu", "grade", "stage", "class",
    "severity", "grad", "stadium", "stade", "klasse", "degree", "rank", "level",
)  # fmt: skip
_UNIT: Final = re.compile(
    r"(?P<name>.*?)\s*[\[(]\s*(?P<unit>[^\[\]()]*[/%°²³][^\[\]()]*|years?|jahre|ans|años|anni|months?"
    r"|monate|days?|tage|jours|hours?|min|[µmck]?g|[mck]?m|[dm]?l|mmhg|kpa|cmh2o|bpm|mmol|[kmµu]?u)\s*"
    r"[\])]",
    re.IGNORECASE,
)

_AMOUNT: Final = re.compile(
    r"class|grade|stage|score|scale|rank|level|tile|severity|triage|gravid|parit|child|birth"
    r"|pregnan|number|count|times|visit|wave|year|month|week|day|likert|^n_|^num",
    re.IGNORECASE,
)
"""Parts of names of ranks and amounts, also inside a word: ``pclass``, ``n_children``."""

_FOLLOW_UP: Final = re.compile(
    r"follow[_\W]?up|nachbeobacht|überlebenszeit|surv\w*[_\W]?(?:time|days|months|years)|futime"
    r"|(?:time|days|weeks|months|years)[_\W]?to[_\W]?|(?:^|[_\W])(?:os|pfs|dfs|efs|rfs|ttp|tte|fu|fup)"
    r"(?:$|[_\W])|^(?:time|surv|survival|t[_\W]?stop|days|weeks|months|years|zeit|tage"
    r"|monate|jahre|temps|suivi|tiempo|tempo)$",
    re.IGNORECASE,
)
_TIME: Final = _word(
    "time", "t", "hours", "days", "weeks", "months", "years", "stop", "duration", "zeit", "dauer",
    "stunden", "tage", "wochen", "monate", "jahre", "temps", "durée", "jours", "mois", "tiempo",
    "días", "dias", "meses", "tempo", "giorni", "mesi", "lenfol",
)  # fmt: skip
_ENTRY: Final = re.compile(
    r"^(?:t[_\W]?)?start$|(?:^|[_\W])(?:entry|entered|truncation)(?:$|[_\W])|eintritt",
    re.IGNORECASE,
)
_EVENT: Final = re.compile(
    r"^status$|^cens$|(?:vital|os|pfs|dfs|efs|rfs|surv\w*|fu|cens\w*)[_\W]?status|status[_\W](?:os|pfs|dfs)"
    r"|(?:^|[_\W])event|died|death|dead|deceased|mortal|censor|relapse|recurr|verstorben|gestorben"
    r"|^tod$|zensiert|ereignis|décès|décéd|deces|fallecid|muerte|morte|decess|decedut|overleden|óbito|obito",
    re.IGNORECASE,
)
_MAYBE_CENSORED: Final = re.compile(r"(?:^|[_\W])cens(?:or)?(?:$|[_\W])", re.IGNORECASE)
_CENSORED: Final = re.compile(r"censored|zensiert|censuré|censurad|censurat", re.IGNORECASE)
_COUNT: Final = re.compile(
    r"^n_|^num|^nr?_?of|count(?!r)|number|anzahl|nombre_d|(?:^|[_\W])(?:visits?|admissions?|readmissions?"
    r"|falls|exacerbations?|attacks?|seizures?|episodes?|infections?)(?:$|[_\W])",
    re.IGNORECASE,
)
_EXPOSURE: Final = re.compile(
    r"exposure|person[_\W]?(?:time|days|months|years)|at[_\W]?risk|observed|observation"
    r"|follow[_\W]?up|futime|beobachtung",
    re.IGNORECASE,
)


def fold_name(column: str) -> str:
    """Return a name in lower case without accents, punctuation and a time at its end.

    Examples
    --------
    >>> [fold_name(name) for name in ("Décédé", "died?", "DEATH_30d", "y1")]
    ['decede', 'died', 'death', 'y1']
    """
    letters = unicodedata.normalize("NFKD", column.casefold())
    plain = "".join(re.findall(r"[^\W_]", letters))
    return re.sub(r"(?<=[a-z]{3})\d+(?:d|days?|months?|years?|y|m|j|jours|tage)?$", "", plain)


def left_out_by_name(column: str, site_column: str | None) -> str:
    """Return why a column should be no covariate, by its name, or an empty text."""
    if column == site_column:
        return "says which site a patient is from"
    if _SITE.match(column):
        return "seems to say which site a patient is from"
    if _OTHER_OUTCOME.search(column) or _STAY.search(column):
        return "looks like another outcome, which is not known beforehand"
    if names_postcodes(column):
        return "looks like postcodes, which point to a person and are no numbers"
    if names_person(column):
        return "looks like an identifier or a name"
    return ""


def names_patient(column: str) -> bool:
    """Whether a name suggests that the column says whose a row is: ``patient_id``."""
    return _PATIENT.search(column) is not None or column.strip().casefold() == "patient"


def names_person(column: str) -> bool:
    """Whether a name suggests an identifier of a person, or a person's name."""
    return bool(
        names_patient(column) or _ALONE.fullmatch(column.strip()) or _IDENTIFIER.search(column)
    )


def names_postcodes(column: str) -> bool:
    """Whether a name suggests postcodes: ``zip``, ``PLZ``."""
    return _POSTCODE.search(column) is not None


def split_unit(column: str) -> tuple[str, str]:
    """Return a name without the unit that stands behind it in brackets, and the unit.

    Examples
    --------
    >>> split_unit("CRP [mg/l]")
    ('CRP', 'mg/l')
    >>> split_unit("CRP (baseline)")
    ('CRP (baseline)', '')
    """
    match = _UNIT.fullmatch(column.strip())
    return (match["name"], match["unit"]) if match else (column, "")


def names_survival(column: str) -> bool:
    """Whether a name says that a yes is no event: ``survived``."""
    return _SURVIVAL.search(column) is not None


def names_codes(column: str) -> bool:
    """Whether a name suggests codes without an order: ``blood_group``, ``region``."""
    return _CODES.search(column) is not None and not names_order(column)


def names_order(column: str) -> bool:
    """Whether a name suggests an order: ``nyha``, ``tumour stage``."""
    return _ORDER.search(column) is not None


def names_amount(column: str) -> bool:
    """Whether a name suggests that whole numbers are ranks or amounts, rather than codes."""
    return names_order(column) or _AMOUNT.search(column) is not None


def names_follow_up(column: str) -> bool:
    """Whether a name by itself says time to an event: ``os_days``, ``time``, ``follow_up``."""
    return _FOLLOW_UP.search(column) is not None


def names_time(column: str) -> bool:
    """Whether a name speaks of time at all: ``bleeding_time``, ``days_ventilated``."""
    return names_follow_up(column) or _TIME.search(column) is not None


def names_event(column: str) -> bool:
    """Whether a name says that something happened at the end of a follow-up: ``status``."""
    return _EVENT.search(column) is not None


def names_censoring(column: str) -> bool:
    """Whether a name says that a yes is the end of follow-up, and no event: ``censored``."""
    return _CENSORED.search(column) is not None


def may_name_censoring(column: str) -> bool:
    """Whether a name leaves open if a yes is the event or the end of follow-up: ``cens``."""
    return _MAYBE_CENSORED.search(column) is not None


def names_entry(column: str) -> bool:
    """Whether a name says when somebody came under observation: ``entry``, ``tstart``."""
    return _ENTRY.search(column) is not None


def names_count(column: str) -> bool:
    """Whether a name says that whole numbers are counts: ``n_falls``."""
    return _COUNT.search(column) is not None


def names_exposure(column: str) -> bool:
    """Whether a name says over how long was counted: ``person_years``."""
    return _EXPOSURE.search(column) is not None
