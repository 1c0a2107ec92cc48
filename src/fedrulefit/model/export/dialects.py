"""What the databases spell differently: names, literals, and how a cell is read.

Three dialects, one class each. All three read a *cell* in the same steps:

1. ``cell``: the raw column, of whatever type, as text without blanks around it,
   compared letter by letter (no collation). A boolean becomes ``1`` or ``0``.
   SQLite, whose cells have a type each, keeps numbers as they are.
2. ``spell``: of a number, the cell with a decimal point and nothing else, however it is
   spelled: ``3,5``, ``1.234,5``, ``1 234`` (:mod:`fedrulefit.table.spelling`). Typographic
   spaces, apostrophes and minus signs are left alone: not every database can store them.
3. ``number``: that cell as a 64-bit float, or NULL where it is not the text of a
   number. Infinity is the largest float: either is beyond any range. A cell never
   stops the query.

Names and texts come from the study, and so from anyone: they enter a query only
through :func:`quote_name` and ``Dialect.text``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fedrulefit.errors import FedRuleFitError

_BLANKS: Final = (9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 160)
"""What Python's ``strip`` takes for blank, up to the no-break space."""

_NUMBER: Final = r"[+-]?([0-9]{1,255}[.]?[0-9]{0,255}|[.][0-9]{1,255})([eE][+-]?[0-9]{1,3})?"
_POWER: Final = "([eE][+-]?[0-9]{1,3})?"
_THOUSANDS: Final = {sign: f"[1-9][0-9]{{0,2}}([{sign}][0-9]{{3}})" for sign in ".,' "}
_SPACED: Final = f"{_THOUSANDS[' ']}+|{_THOUSANDS[chr(39)]}+"
_DECIMAL_COMMA: Final = f"[+-]?([0-9]*|{_THOUSANDS['.']}+|{_SPACED}),[0-9]+{_POWER}"
_EITHER: Final = "[+-]?[1-9][0-9]{0,2},[0-9]{3}"
_SET_APART: Final = (
    f"[+-]?(({_THOUSANDS[',']}+|{_SPACED})[.][0-9]+{_POWER}|{_THOUSANDS[',']}{{2,}}|{_SPACED})"
)
_POINTS: Final = f"[+-]?{_THOUSANDS['.']}{{2,}}"
"""As :mod:`fedrulefit.table.spelling`, without what only some databases know."""

_LARGEST: Final = "1.7976931348623157e308"
_INFINITE: Final = "('inf', '+inf', 'infinity', '+infinity')"
_MINUS_INFINITE: Final = "('-inf', '-infinity')"


def quote_name(name: str) -> str:
    """Return a name of a table or column, quoted."""
    return '"' + _storable(name).replace('"', '""') + '"'


def _storable(text: str) -> str:
    if "\0" in text or (not text.isascii() and not _is_unicode(text)):
        raise FedRuleFitError(f"{text!r} holds a character that no database can store: rename it")
    return text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Dialect:
    """What is common to the dialects."""

    name = ""

    def text(self, value: str) -> str:
        """Return a text as a literal."""
        return "'" + _storable(value).replace("'", "''") + "'"

    def real(self, value: float) -> str:
        """Return a number as a literal of a 64-bit float, which may be an ulp off."""
        raise NotImplementedError

    def exact(self, value: float) -> str:
        """Return a number as a literal of exactly this 64-bit float."""
        return self.real(value)

    def cell(self, column: str) -> str:
        """Return the cell of a raw column, see the module."""
        raise NotImplementedError

    def spell(self, cell: str) -> str:
        """Return a cell's number with a decimal point and nothing else, another cell as it is."""
        text = f"translate({cell}, chr(160), ' ')"
        comma, either, apart, points = (
            self.matches(text, pattern)
            for pattern in (_DECIMAL_COMMA, _EITHER, _SET_APART, _POINTS)
        )
        return (
            f"CASE WHEN {comma} AND NOT {either} "
            f"THEN replace(translate({text}, '. ''', ''), ',', '.') "
            f"WHEN {apart} THEN translate({text}, ', ''', '') "
            f"WHEN {points} THEN replace({text}, '.', '') ELSE {cell} END"
        )

    def matches(self, cell: str, pattern: str) -> str:
        """Return whether the whole of a cell matches a regular expression."""
        raise NotImplementedError

    def number(self, cell: str) -> str:
        """Return a cell's number, NULL where it has none."""
        raise NotImplementedError

    def digits(self, cell: str) -> str:
        """Return a cell's text without zeros in front."""
        return f"ltrim({cell}, '0')"

    def _number(self, cell: str, finite: str, largest: str) -> str:
        """Return a number: what says infinity, or what stands for a finite one."""
        return (
            f"CASE WHEN lower({cell}) IN {_INFINITE} THEN {largest} "
            f"WHEN lower({cell}) IN {_MINUS_INFINITE} THEN -{largest} {finite} END"
        )

    def _blanks(self) -> str:
        return " || ".join(f"chr({code})" for code in _BLANKS)


class DuckDB(Dialect):
    """DuckDB 1.1 or later."""

    name = "duckdb"

    def real(self, value: float) -> str:
        """Return a literal with an exponent: without, it would be a DECIMAL."""
        return _scientific(value)

    def cell(self, column: str) -> str:
        """Return the cell as text."""
        text = f"CAST({column} AS VARCHAR)"
        return (
            f"(CASE WHEN typeof({column}) = 'BOOLEAN' "
            f"THEN CASE {text} WHEN 'true' THEN '1' WHEN 'false' THEN '0' END "
            f"ELSE trim({text}, {self._blanks()}) END) COLLATE C"
        )

    def matches(self, cell: str, pattern: str) -> str:
        """Return the test."""
        return f"regexp_full_match({cell}, {self.text(pattern)})"

    def number(self, cell: str) -> str:
        """Return the number; a cast alone would take ``1_000`` and ``inf``."""
        cast = f"TRY_CAST({cell} AS DOUBLE)"
        return self._number(
            cell,
            f"WHEN {self.matches(cell, _NUMBER)} THEN "
            f"CASE WHEN abs({cast}) <= {_LARGEST} THEN {cast} "
            f"WHEN left({cell}, 1) = '-' THEN -{_LARGEST} ELSE {_LARGEST} END",
            _LARGEST,
        )


class PostgreSQL(Dialect):
    """PostgreSQL 12 or later."""

    name = "postgresql"

    def text(self, value: str) -> str:
        """Return a literal that means the same whatever standard_conforming_strings says."""
        quoted = super().text(value)
        return "E" + quoted.replace("\\", "\\\\") if "\\" in value else quoted

    def real(self, value: float) -> str:
        """Return a typed literal: a bare one would be a numeric."""
        return f"float8 '{value!r}'"

    def cell(self, column: str) -> str:
        """Return the cell as text."""
        text = f"CAST({column} AS text)"
        return (
            f"(CASE WHEN pg_typeof({column}) = 'boolean'::regtype "
            f"THEN CASE {text} WHEN 'true' THEN '1' WHEN 'false' THEN '0' END "
            f'ELSE btrim({text}, {self._blanks()}) END) COLLATE "C"'
        )

    def matches(self, cell: str, pattern: str) -> str:
        """Return the test."""
        return f"{cell} ~ {self.text(f'^({pattern})$')}"

    def number(self, cell: str) -> str:
        """Return the number, by way of numeric: float8 raises on 1e400 and on 1e-400."""
        exact, largest = f"CAST({cell} AS numeric)", f"float8 '{_LARGEST}'"
        return self._number(
            cell,
            f"WHEN {self.matches(cell, _NUMBER)} THEN "
            f"CASE WHEN {exact} > {_LARGEST} THEN {largest} "
            f"WHEN {exact} < -{_LARGEST} THEN -{largest} "
            f"WHEN abs({exact}) < 1e-300 THEN 0 ELSE CAST({exact} AS float8) END",
            largest,
        )


class SQLite(Dialect):
    """SQLite 3.35 or later, with its mathematical functions."""

    name = "sqlite"

    def real(self, value: float) -> str:
        """Return a plain literal."""
        return _scientific(value)

    def exact(self, value: float) -> str:
        """Return a fraction where there are too many digits for SQLite to read them exactly."""
        over, under = value.as_integer_ratio()
        plain = len(f"{value!r}".partition("e")[0].strip("-0.").replace(".", "")) <= 15
        if plain or abs(over) >= 2**53 or under >= 2**63:
            return self.real(value)
        return f"({over} / CAST({under} AS REAL))"

    def cell(self, column: str) -> str:
        """Return the cell: text or number, as it is stored."""
        blanks = f"char({', '.join(str(code) for code in _BLANKS)})"
        return (
            f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN {column} "
            f"ELSE trim(CAST({column} AS TEXT), {blanks}) END"
        )

    def spell(self, cell: str) -> str:
        """Return the cell as the others do; there are no regular expressions.

        Whole numbers are written out with commas, and compared.
        """
        signs = {sign: self.text(sign) for sign in ".,' "}
        spaced = f"({_is_grouped('w', signs[' '])} OR {_is_grouped('w', signs[chr(39)])})"
        whole, fraction = "w NOT GLOB '*[^0-9]*'", "f <> '' AND f NOT GLOB '*[^0-9]*'"
        either = " OR ".join(f"u GLOB '[1-9]{'[0-9]' * n},[0-9][0-9][0-9]'" for n in range(3))
        decimal = f"THEN s || {_drop('w', signs.values())} || '.' || f"
        plain = f"THEN s || {_drop('u', signs.values())}"
        last = "max(instr(u, ','), instr(u, '.'))"
        return (
            f"CASE WHEN typeof({cell}) <> 'text' THEN {cell} ELSE (SELECT CASE "  # noqa: S608
            f"WHEN commas = 1 AND points = 0 AND ({either}) THEN s || u "
            f"WHEN commas = 1 AND {fraction} AND u GLOB '*,' || f "
            f"AND ({whole} OR {_is_grouped('w', signs['.'])} OR {spaced}) {decimal} "
            f"WHEN points = 1 AND {fraction} AND u GLOB '*.' || f AND NOT {whole} "
            f"AND ({_is_grouped('w', signs[','])} OR {spaced}) {decimal} "
            f"WHEN points = 0 AND commas <> 1 AND "
            f"({' OR '.join(_is_grouped('u', signs[sign]) for sign in ', ' + chr(39))}) {plain} "
            f"WHEN points > 1 AND {_is_grouped('u', signs['.'])} {plain} ELSE s || u END "
            f"FROM (SELECT s, u, {_count('u', '.')} AS points, {_count('u', ',')} AS commas, "
            f"substr(u, 1, {last} - 1) AS w, substr(u, {last} + 1) AS f FROM ("
            "SELECT CASE WHEN t GLOB '[+-]*' THEN substr(t, 1, 1) ELSE '' END AS s, "
            "CASE WHEN t GLOB '[+-]*' THEN substr(t, 2) ELSE t END AS u "
            f"FROM (SELECT replace({cell}, char(160), ' ') AS t)))) END"
        )

    def number(self, cell: str) -> str:
        """Return the number: beside a NUMERIC, only the text of a number becomes one."""
        kept = f"max(min(CAST({cell} AS REAL), {_LARGEST}), -{_LARGEST})"
        return self._number(cell, f"WHEN CAST({cell} AS NUMERIC) = {cell} THEN {kept}", _LARGEST)

    def digits(self, cell: str) -> str:
        """Return the digits, of a number or a text."""
        return f"ltrim(CAST({cell} AS TEXT), '0')"


def _count(text: str, sign: str) -> str:
    return f"length({text}) - length(replace({text}, '{sign}', ''))"


def _drop(text: str, signs: Iterable[str]) -> str:
    for sign in signs:
        text = f"replace({text}, {sign}, '')"
    return text


def _is_grouped(text: str, sign: str) -> str:
    """Return whether a text is a whole number whose thousands, if any, are set apart by a sign."""
    bare, commas = f"replace({text}, {sign}, '')", f"replace({text}, {sign}, ',')"
    alone = "" if sign == "','" else f" AND instr({text}, ',') = 0"
    return f"({bare} NOT GLOB '*[^0-9]*' AND {commas} = printf('%,d', {bare}){alone})"


def _scientific(value: float) -> str:
    """Return a literal with an exponent; a negative one in brackets, lest ``--`` appear."""
    spelt = repr(value) if "e" in repr(value) else f"{value!r}e0"
    return f"({spelt})" if spelt.startswith("-") else spelt


DIALECTS: Final = {dialect.name: dialect for dialect in (DuckDB(), SQLite(), PostgreSQL())}
"""By name."""


def find_dialect(name: str) -> Dialect:
    """Return a dialect by its name."""
    if name not in DIALECTS:
        raise FedRuleFitError(f"dialect {name!r} is not known: choose {', '.join(DIALECTS)}")
    return DIALECTS[name]
