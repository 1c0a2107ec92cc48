"""The small faults: a module's source → its mutants.

A mutant changes one expression or statement: a comparison, a sign, a bound, a number by one,
a condition, ``min`` for ``max``; or a statement is left out. Annotations, decorators,
f-strings and the words of errors are left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}

OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}

NAMES: Final = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "any": "all",
    "all": "any",
    "argmin": "argmax",
    "argmax": "argmin",
    "floor": "ceil",
    "ceil": "floor",
}
"""Functions and methods, each with its opposite."""

_PLAIN: Final = (ast.stmt, ast.Slice, ast.Constant, ast.Name, ast.Attribute)

SIDES: Final = {"left": "right", "right": "left"}


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Parameters
    ----------
    file : str
        Path from the project's root.
    function : str
        Where in the file, like ``Newton.update``; empty between functions.
    number : int
        The line where the changed code begins, from 1.
    line : str
        That line's text, without its indent.
    change : str
        The changed code before and after.
    lines : range
        Lines of the statement: who runs one of them runs the mutant.
    call_time : bool
        Whether the code runs in calls only, not when the module is imported.
    start, end : int
        Bytes of the source that `text` stands for.
    text : str
    """

    file: str
    function: str
    number: int
    line: str
    change: str
    lines: range
    call_time: bool
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """Return the source with the fault."""
        raw = source.encode()
        return (raw[: self.start] + self.text.encode() + raw[self.end :]).decode()


def find_mutants(file: str, source: str) -> list[Mutant]:
    """Return all mutants of a module that still compile, in the order of its lines."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    compiled = [mutant for mutant in finder.found if _compiles(mutant.apply(source))]
    return sorted(compiled, key=lambda mutant: (mutant.start, mutant.end, mutant.change))


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


class _Finder(ast.NodeVisitor):
    """Walks through a module and notes its mutants."""

    def __init__(self, file: str, source: str) -> None:
        self.found: list[Mutant] = []
        self._file = file
        self._raw = source.encode()
        self._lines = source.splitlines(keepends=True)
        ends = [0]
        for line in self._lines:
            ends.append(ends[-1] + len(line.encode()))
        self._starts = ends
        self._statement: ast.stmt | None = None
        self._above: list[ast.expr] = []  # the expressions around the one that is looked at
        self._names: list[str] = []  # of the classes and functions around
        self._call_time = False
        self._in_if = False

    def visit(self, node: ast.AST) -> None:
        """Note the mutants of a node and of what it holds."""
        if isinstance(node, ast.expr):
            self._above.append(node)
        if isinstance(node, ast.stmt):
            self._statement, self._above = node, []
            for statement in _statement_variants(node, in_if=self._in_if):
                self._note(node, statement)
        elif isinstance(node, ast.expr):
            for expression in _expression_variants(node):
                self._note(node, expression)
        super().visit(node)
        if isinstance(node, ast.expr):
            self._above.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Leave out decorators and annotations; cached functions run once for many tests."""
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        before = self._call_time, self._in_if
        cached = any("cache" in ast.unparse(each) for each in node.decorator_list)
        self._call_time, self._in_if = not cached, False
        self._visit_body(node)
        self._call_time, self._in_if = before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Leave out decorators and bases."""
        self._visit_body(node)

    def _visit_body(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    def visit_If(self, node: ast.If) -> None:
        """Know what stands under a condition."""
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return
        self.visit(node.test)
        before, self._in_if = self._in_if, True
        for statement in (*node.body, *node.orelse):
            self.visit(statement)
        self._in_if = before

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Of an annotation only calls do something: bounds of a field."""
        if ast.unparse(node.annotation) == "TypeAlias":
            return
        for part in ast.walk(node.annotation):
            if isinstance(part, ast.Call):
                self.visit(part)
        if node.value is not None:
            self.visit(node.value)

    def visit_keyword(self, node: ast.keyword) -> None:
        """``zip(strict=…)`` says what the code relies on; it changes nothing."""
        if node.arg != "strict":
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave out f-strings."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave out what an error says."""

    def _note(self, old: ast.expr | ast.stmt, new: ast.AST) -> None:
        if self._statement is None:
            return
        plain = text = ast.unparse(new)
        if not (isinstance(old, _PLAIN) and isinstance(new, _PLAIN)):
            text = f"({text})"  # in brackets, an expression stands in place of any other
        (start, end), (left, right) = self._place(old), self._place(self._context(old))
        around = self._raw[left:start], self._raw[end:right]
        before, after = (
            " ".join((around[0] + part + around[1]).decode().split())
            for part in (self._raw[start:end], plain.encode())
        )
        self.found.append(
            Mutant(
                file=self._file,
                function=".".join(self._names),
                number=old.lineno,
                line=self._lines[old.lineno - 1].strip(),
                change=f"{before} → {after}",
                lines=_header(self._statement),
                call_time=self._call_time,
                start=start,
                end=end,
                text=text,
            )
        )

    def _place(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the bytes where a node begins and ends."""
        last, after = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self._starts[node.lineno - 1] + node.col_offset, self._starts[last - 1] + after

    def _context(self, node: ast.expr | ast.stmt) -> ast.expr | ast.stmt:
        """Return what tells a number or name from its like in the same line."""
        if not isinstance(node, ast.Constant | ast.Name | ast.Attribute):
            return node
        for each in reversed(self._above[:-1]):
            if not isinstance(each, ast.Attribute | ast.UnaryOp | ast.Slice):
                return each if each.end_lineno == each.lineno else node
        return node


def _header(statement: ast.stmt) -> range:
    """Return the lines of a statement, without those that it holds."""
    body: list[ast.stmt] = getattr(statement, "body", [])
    last = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno
    return range(statement.lineno, (last or statement.lineno) + 1)


def _statement_variants(node: ast.stmt, *, in_if: bool) -> Iterator[ast.AST]:
    match node:
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Subscript()]):
            yield ast.Pass()
        case ast.AugAssign(target, op, value):
            yield ast.Pass()
            if type(op) in OPERATORS:
                yield ast.AugAssign(target, OPERATORS[type(op)](), value)
        case ast.Return() if in_if:
            yield ast.Pass()
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()


def _expression_variants(node: ast.expr) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(left, ops, comparators):
            for place, op in enumerate(ops):
                for other in COMPARISONS[type(op)]:
                    changed = [*ops[:place], other(), *ops[place + 1 :]]
                    yield ast.Compare(left, changed, comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.UnaryOp(ast.Invert(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            yield ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.Constant(value):
            yield from map(ast.Constant, _other_values(value))
        case ast.Name(name) if name in NAMES:
            yield ast.Name(NAMES[name])
        case ast.Attribute(value, name) if name in NAMES:
            yield ast.Attribute(value, NAMES[name])
        case ast.Slice(lower, upper, step):
            if lower is not None and not isinstance(lower, ast.Constant):
                yield ast.Slice(_plus_one(lower), upper, step)
            if upper is not None and not isinstance(upper, ast.Constant):
                yield ast.Slice(lower, _plus_one(upper), step)
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)


def _plus_one(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.Add(), ast.Constant(1))


def _other_values(value: object) -> tuple[bool | int | float | str, ...]:
    match value:
        case bool():
            return (not value,)
        case int():
            return value + 1, value - 1
        case float():
            return (value + 1,)
        case str() if value in SIDES:
            return (SIDES[value],)
    return ()
