"""How sqlglot reads the statements: ksqlDB's quotes, and functions by their names.

Invariant: sqlglot gives its own meaning to no function; ``functions.py`` and ``aggregates.py`` say what there
is.
"""

from typing import Any, ClassVar

import sqlglot
from sqlglot import exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from moldau.sql.errors import SqlError

#: How many levels an expression may have.
_DEEPEST = 100


class StreamSql(Dialect):
    class Tokenizer(tokens.Tokenizer):
        QUOTES: ClassVar[list[Any]] = ["'"]
        IDENTIFIERS: ClassVar[list[Any]] = ["`", '"']
        STRING_ESCAPES: ClassVar[list[str]] = ["'"]
        COMMANDS: ClassVar[set[Any]] = set()  # SHOW and the like are read token by token as well

    class Parser(parser.Parser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CAST": lambda self: self._parse_cast(True)}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        # x => x + 1; an arrow with one line is a field of a struct, also among the arguments of a function.
        LAMBDAS: ClassVar[dict[Any, Any]] = {
            TokenType.FARROW: lambda self, variables: exp.Lambda(
                this=self._parse_disjunction(), expressions=variables
            )
        }


def tokenize(text: str) -> list[Any]:
    """sqlglot's tokens: ``text``, ``token_type``, ``start`` and ``end`` (of its last character)."""
    try:
        return list(sqlglot.tokenize(text, dialect=StreamSql))
    except SqlglotError as error:
        raise SqlError(_first_line(error)) from None


def parse_select(text: str) -> exp.Select:
    found = _parse(text)
    if not isinstance(found, exp.Select):
        raise SqlError(f"This is not a SELECT: {text[:100]}")
    return found


def parse_expression(text: str) -> exp.Expression:
    return parse_expressions(text)[0]


def parse_expressions(text: str) -> list[exp.Expression]:
    return list(parse_select(f"SELECT {text}").expressions)


def parse_type(text: str) -> exp.DataType:
    cast = parse_expression(f"CAST(NULL AS {text})")
    kind = cast.args.get("to")
    if not isinstance(kind, exp.DataType):
        raise SqlError(f"{text} is not a type.")
    return kind


def name_of(identifier: Any) -> str:
    """A name as the catalogue keeps it: upper case, unless it stands in quotes."""
    if isinstance(identifier, exp.Column):
        identifier = identifier.this
    return str(identifier.this) if identifier.args.get("quoted") else str(identifier.this).upper()


def _parse(text: str) -> Any:
    try:
        found = sqlglot.parse_one(text, dialect=StreamSql)
    except SqlglotError as error:
        raise SqlError(_first_line(error)) from None
    except RecursionError:
        raise SqlError(f"An expression is nested too deeply, take it apart: {text[:100]}") from None
    except (IndexError, KeyError, AttributeError) as error:  # what its parser lets through
        raise SqlError(f"This cannot be understood: {text[:100]}") from error
    _check_depth(found)
    return found


def _check_depth(expression: exp.Expr) -> None:
    """Whoever compiles an expression calls itself for its parts; a chain of ANDs or ORs is one level."""
    waiting = [(expression, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST:
            raise SqlError(f"An expression is nested more than {_DEEPEST} levels deep: take it apart.")
        for part in node.iter_expressions():
            is_chain = isinstance(node, exp.And | exp.Or) and type(part) is type(node)
            waiting.append((part, depth + (not is_chain)))


def _first_line(error: Exception) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return str(error).splitlines()[0]
    first = details[0]
    before, here, behind = (first.get(part) or "" for part in ("start_context", "highlight", "end_context"))
    near = f"{before}>>{here}<<{behind}"
    return f"{first.get('description')} Line {first.get('line')}, near {near.strip()[-120:]!r}"
