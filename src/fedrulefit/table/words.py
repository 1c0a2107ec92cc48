"""Words that tables use in hospitals of several languages: yes and no, and levels in an order.

They are only ever guesses, for a draft that a person completes and for questions in findings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


YES_WORDS: Final = _words(
    "1 yes y true dead died death deceased positive pos event case present "
    "ja wahr tot verstorben gestorben positiv vorhanden "
    "oui vrai décédé décédée mort présent présente positif "
    "si sí verdadero muerto fallecido fallecida positivo presente "
    "sì vero morto deceduto deceduta "
    "waar dood overleden positief aanwezig "
    "sim verdadeiro óbito obito "
    "död avliden sant død sand kyllä kuollut tak zgon"
)
"""Values that usually say that the event came, in lower case."""

NO_WORDS: Final = _words(
    "0 no n false alive none negative neg survived survivor control absent censored "
    "nein falsch lebend lebt überlebt negativ keine nicht zensiert "
    "non faux vivant vivante absente négatif "
    "falso vivo viva negativo ausente assente "
    "nee onwaar levend negatief afwezig "
    "não nao nej levande falskt nei levende falsk ei elossa nie żyje"
)
"""Values that usually say that it did not."""

_NOT: Final = re.compile(r"(?:no|not|non|nicht|kein|keine|geen|niet|sin|senza|sem|ikke|inte)[ _-]+")
"""How a text begins that says no of what follows: "not dead", "keine Infektion"."""

_SCALES: Final = (
    "none absent no minimal mild slight light moderate marked severe critical extreme",
    "none never rarely seldom sometimes occasionally often frequently always",
    "never former current",
    "very_low low normal high very_high",
    "low medium high",
    "low intermediate high",
    "low moderate high",
    "small medium large",
    "poor fair good very_good excellent",
    "keine leicht mittel mäßig schwer sehr_schwer",
    "keine leichte mittlere mäßige schwere",
    "nie selten manchmal oft immer",
    "niedrig normal hoch",
    "gering mittel hoch",
    "niedrig mittel hoch",
    "klein mittel groß",
    "schlecht mäßig gut sehr_gut",
    "aucun aucune léger légère modéré modérée sévère",
    "jamais rarement parfois souvent toujours",
    "faible moyen moyenne élevé élevée",
    "petit moyen grand",
    "ninguno ninguna leve moderado moderada grave severo severa",
    "bajo medio alto",
    "baja media alta",
    "nessuno nessuna lieve moderato moderata grave severo severa",
    "basso medio alto",
    "geen licht matig ernstig",
    "laag middel hoog",
    "laag gemiddeld hoog",
    "nenhum nenhuma leve moderado moderada grave",
    "baixo médio alto",
)
"""Words in an order; levels follow one where all are in it, each at its own place."""

_ROMAN: Final = ("0", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_STAGE: Final = re.compile(r"(.*?)[ _-]*(\d{1,2}|[ivx]+)([abc]?)", re.IGNORECASE)


def says_no(text: str) -> bool:
    """Whether a value usually says that something is not so."""
    folded = text.strip().casefold()
    return folded in NO_WORDS or _NOT.match(folded) is not None


def says_yes(text: str) -> bool:
    """Whether a value usually says that something is so."""
    return text.strip().casefold() in YES_WORDS


def find_order(levels: Iterable[str]) -> list[str] | None:
    """Return two levels or more in the order that their words suggest, lowest first, or None.

    Examples
    --------
    >>> find_order(["severe", "none", "mild"])
    ['none', 'mild', 'severe']
    >>> find_order(["Stage III", "Stage I", "Stage II"])
    ['Stage I', 'Stage II', 'Stage III']
    """
    chosen = list(levels)
    folded = [re.sub(r"[\s_-]+", "_", level.strip().casefold()) for level in chosen]
    for scale in map(str.split, _SCALES):
        if set(folded) <= set(scale) and len(set(folded)) == len(folded):
            return _sort(chosen, [(scale.index(word),) for word in folded])
    return _order_stages(chosen)


def _order_stages(levels: Sequence[str]) -> list[str] | None:
    """Return levels that are one word and a number in their order: NYHA I, NYHA II."""
    found = [_STAGE.fullmatch(level.strip()) for level in levels]
    if not all(found):
        return None
    parts = [match.groups() for match in found if match]
    if len({word.casefold() for word, _, _ in parts}) > 1:
        return None
    if all(number.isdigit() for _, number, _ in parts):
        if not parts[0][0]:
            return None  # bare numbers are for others to judge
        places = [(int(number), letter.casefold()) for _, number, letter in parts]
    elif all(number.casefold() in _ROMAN for _, number, _ in parts):
        places = [(_ROMAN.index(n.casefold()), letter.casefold()) for _, n, letter in parts]
    else:
        return None
    return _sort(levels, places) if len(set(places)) == len(places) else None


def _sort(levels: Sequence[str], places: Sequence[tuple[object, ...]]) -> list[str]:
    return [level for _, level in sorted(zip(places, levels, strict=True))]
