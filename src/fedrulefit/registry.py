"""What can be chosen by name, such as an engine: loaded when it is chosen, and not before.

A choice of somebody else's is one file of theirs. It is made known by :meth:`Registry.add`,
or by an entry point of an installed package, in its ``pyproject.toml``::

    [project.entry-points."fedrulefit.engines"]
    pigeons = "their_package.pigeons:Pigeons"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import Generic, TypeVar

from fedrulefit.errors import FedRuleFitError

T = TypeVar("T")


@dataclass(frozen=True)
class Choice:
    """One thing that can be chosen.

    Parameters
    ----------
    target : str
        ``"package.module:Class"``.
    needs : str
        A package that must be installed for it; empty for none.
    advice : str
        What to say where that is missing: who needs it, and how to get it.
    """

    target: str
    needs: str = ""
    advice: str = ""


class Registry(Generic[T]):
    """Choices of one kind, by name.

    Parameters
    ----------
    kind : str
        What is chosen, in a word: ``"engine"``.
    group : str
        The entry points by which installed packages add choices.
    error : type
        What is raised where a name is unknown or something is missing.
    choices : mapping of str to Choice
        Our own.
    """

    def __init__(
        self, kind: str, group: str, error: type[FedRuleFitError], choices: Mapping[str, Choice]
    ) -> None:
        self._kind, self._group, self._error = kind, group, error
        self._choices = dict(choices)

    def add(self, name: str, choice: Choice) -> None:
        """Make a choice known to this process."""
        self._choices[name] = choice

    def remove(self, name: str) -> None:
        """Forget a choice that was added."""
        del self._choices[name]

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        installed = (point.name for point in entry_points(group=self._group))
        return tuple(sorted({*self._choices, *installed}))

    def find(self, name: str) -> Choice:
        """Return the choice of a name.

        Raises
        ------
        FedRuleFitError
            If there is none.
        """
        choice = self._choices.get(name) or self._installed(name)
        if choice is None:
            known = ", ".join(self.names())
            raise self._error(f"there is no {self._kind} {name!r}; there are: {known}")
        return choice

    def check(self, name: str) -> Choice:
        """Return a choice that could be loaded, without loading it.

        Raises
        ------
        FedRuleFitError
            If there is none of that name, or what it needs is not installed.
        """
        choice = self.find(name)
        if choice.needs and find_spec(choice.needs) is None:
            raise self._error(f"{choice.needs} is not installed: {choice.advice}")
        return choice

    def load(self, name: str) -> type[T]:
        """Import a choice, and return its class.

        Raises
        ------
        FedRuleFitError
            As for :meth:`check`.
        """
        module, _, attribute = self.check(name).target.partition(":")
        found: type[T] = getattr(import_module(module), attribute)
        return found

    def _installed(self, name: str) -> Choice | None:
        for point in entry_points(group=self._group, name=name):
            return Choice(point.value)
        return None
