"""What the databases spell differently: names, literals, and how a cell is read.

Three dialects, one class each. All three read a *cell* in the same steps:

1. ``cell``: the raw column, of whatever type, as text without blanks around it,
   compared letter by letter (no collation). A boolean becomes ``1`` or ``0``.
   SQLite, whose cells have a type each, keeps numbers as they are.
2. ``number``: that cell as a 64-bit float, or NULL where it is not the text of a
   number. Infinity is the largest float: either is beyond any range. A cell never
   stops the query.

Names and texts come from the study, and so from anyone: they enter a query only
through :func:`quote_name` and ``Dialect.text``.
"""

from __future__ import annotations

from typing import Final

from fedrulefit.errors import FedRuleFitError

_BLANKS: Final = (9, 10, 11, 12, 13, 28, 29, 30, 31, 32, 160)
"""What Python's ``strip`` takes for blank, up to the no-break space."""

_NUMBER: Final = r"[+-]?([0-9]{1,255}[.]?[0-9]{0,255}|[.][0-9]{1,255})([eE][+-]?[0-9]{1,3})?"
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

    def number(self, cell: str) -> str:
        """Return the number; a cast alone would take ``1_000`` and ``inf``."""
        cast = f"TRY_CAST({cell} AS DOUBLE)"
        return self._number(
            cell,
            f"WHEN regexp_full_match({cell}, '{_NUMBER}') THEN "
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

    def number(self, cell: str) -> str:
        """Return the number, by way of numeric: float8 raises on 1e400 and on 1e-400."""
        exact, largest = f"CAST({cell} AS numeric)", f"float8 '{_LARGEST}'"
        return self._number(
            cell,
            f"WHEN {cell} ~ '^{_NUMBER}$' THEN "
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

    def number(self, cell: str) -> str:
        """Return the number: beside a NUMERIC, only the text of a number becomes one."""
        kept = f"max(min(CAST({cell} AS REAL), {_LARGEST}), -{_LARGEST})"
        return self._number(cell, f"WHEN CAST({cell} AS NUMERIC) = {cell} THEN {kept}", _LARGEST)

    def digits(self, cell: str) -> str:
        """Return the digits, of a number or a text."""
        return f"ltrim(CAST({cell} AS TEXT), '0')"


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
