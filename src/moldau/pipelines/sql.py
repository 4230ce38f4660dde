"""Reads a pipeline in SQL: which sources there are, and where each query is written.

    CREATE SOURCE orders (product STRING, price DOUBLE, time TIMESTAMP)
      WITH (topic = 'orders', value_format = 'json', watermark = 'time 10 seconds');

    CREATE STREAM revenue WITH (topic = 'revenue', key = 'product', mode = 'update') AS
      SELECT product, sum(price) AS total FROM orders GROUP BY product;

    CREATE VIEW cheap AS SELECT * FROM orders WHERE price < 10;
    CREATE TABLE archive WITH (path = 'archive', partition_by = 'product') AS SELECT * FROM orders;

Pure. Only what stands around a query is parsed here; the query itself and the types of columns go to Spark as
they were written. Every mistake is reported with its line.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from moldau.pipelines.errors import PipelineError

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*")
    | (?P<quoted>`[^`]*`)
    | (?P<word>[A-Za-z_]\w*)
    | (?P<number>-?\d+(?:\.\d+)?)
    | (?P<open>['"`]|/\*)
    | (?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = ("SOURCE", "STREAM", "VIEW", "TABLE")
_QUERIES = ("SELECT", "WITH", "FROM", "VALUES")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    start: int
    end: int

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else ""


@dataclass(frozen=True, slots=True)
class Source:
    """A topic under a name; ``columns`` as they were written, None without any."""

    name: str
    line: int
    columns: str | None
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Query:
    """A query under a name: a ``stream`` into a topic, a ``table`` of files, or a ``view`` for others."""

    kind: str
    name: str
    line: int
    text: str
    #: The line in which the text begins.
    text_line: int
    #: Every name that the text mentions, in lower case.
    mentions: frozenset[str] = frozenset()
    options: dict[str, str] = field(default_factory=dict)


Statement = Source | Query


def parse(text: str, file_name: str) -> tuple[Statement, ...]:
    """All statements of a file; PipelineError with the line of the first mistake."""
    reader = _Reader(text, file_name)
    found: list[Statement] = []
    while not reader.at_end:
        if reader.take_sign(";"):
            continue
        statement = reader.statement()
        for other in found:
            if other.name.lower() == statement.name.lower():
                raise reader.error(
                    f"{statement.name} is there twice, first in line {other.line}", statement.line
                )
        found.append(statement)
    if not any(isinstance(each, Query) and each.kind != "view" for each in found):
        raise PipelineError(
            f"{file_name} writes nothing: add CREATE STREAM name WITH (topic = '…') AS SELECT …;"
        )
    return tuple(found)


class _Reader:
    def __init__(self, text: str, file_name: str) -> None:
        self._text = text
        self._file_name = file_name
        self._tokens: list[Token] = []
        self._position = 0
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or ""
            if kind == "open":
                what = "comment" if match.group() == "/*" else "text"
                raise self.error(f"the {what} that begins here has no end", self._line(match.start()))
            if kind != "space":
                self._tokens.append(Token(kind, match.group(), match.start(), match.end()))

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._tokens)

    def error(self, message: str, line: int | None = None) -> PipelineError:
        where = self._here_line() if line is None else line
        return PipelineError(f"{self._file_name}:{where}: {message}")

    def statement(self) -> Statement:
        line = self._here_line()
        self._word("CREATE", "a statement begins with CREATE SOURCE, STREAM, VIEW or TABLE")
        if self._take_word("OR"):
            self._word("REPLACE", "expected CREATE OR REPLACE")
        kind = self._peek().upper
        if kind not in _KINDS:
            raise self.error(f"expected one of {', '.join(_KINDS)} after CREATE, not {self._peek().text!r}")
        self._position += 1
        name = self._name(f"CREATE {kind} wants a name")
        return self._source(name, line) if kind == "SOURCE" else self._query(kind.lower(), name, line)

    def take_sign(self, sign: str) -> bool:
        if not self.at_end and self._peek().text == sign and self._peek().kind == "sign":
            self._position += 1
            return True
        return False

    def _source(self, name: str, line: int) -> Source:
        columns = None
        if not self.at_end and self._peek().text == "(":
            opening = self._peek()
            closing = self._matching_parenthesis()
            columns = self._text[opening.end : closing.start].strip()
            if not columns:
                raise self.error(f"the columns of {name} are missing: (product STRING, price DOUBLE)", line)
        options = self._with(f"CREATE SOURCE {name}") if self._take_word("WITH") else {}
        self._end_of_statement(f"CREATE SOURCE {name}")
        return Source(name, line, columns, options)

    def _query(self, kind: str, name: str, line: int) -> Query:
        options = self._with(f"CREATE {kind.upper()} {name}") if self._take_word("WITH") else {}
        self._word("AS", f"CREATE {kind.upper()} {name}: expected AS SELECT …")
        if self.at_end or not (self._peek().upper in _QUERIES or self._peek().text == "("):
            said = "the end of the file" if self.at_end else repr(self._peek().text)
            raise self.error(f"CREATE {kind.upper()} {name}: expected a query after AS, not {said}")
        first = self._peek()
        last, mentions = first, set()
        while not self.at_end and self._peek().text != ";":
            last = self._peek()
            if last.kind in ("word", "quoted"):
                mentions.add(last.text.strip("`").lower())
            self._position += 1
        self.take_sign(";")
        text = self._text[first.start : last.end]
        return Query(kind, name, line, text, self._line(first.start), frozenset(mentions), options)

    def _with(self, what: str) -> dict[str, str]:
        if not self.take_sign("("):
            raise self.error(f"{what}: expected WITH (name = 'value', …)")
        found: dict[str, str] = {}
        while not self.take_sign(")"):
            name = self._option_name(what)
            if not self.take_sign("="):
                raise self.error(f"{what}: expected = and a value after {name}")
            if name in found:
                raise self.error(f"{what}: {name} is given twice")
            found[name] = self._value(what, name)
            if not self.take_sign(",") and (self.at_end or self._peek().text != ")"):
                raise self.error(f"{what}: expected a comma or ) after the value of {name}")
        return found

    def _option_name(self, what: str) -> str:
        token = self._next(f"{what}: WITH ( … has no end")
        if token.kind == "text":
            return _unquoted(token.text)
        if token.kind not in ("word", "quoted"):
            self._position -= 1
            raise self.error(f"{what}: expected the name of an option, not {token.text!r}")
        parts = [token.text.strip("`")]
        while self.take_sign("."):
            parts.append(self._name(f"{what}: a name cannot end with a dot"))
        return ".".join(parts)

    def _value(self, what: str, name: str) -> str:
        token = self._next(f"{what}: {name} has no value")
        if token.kind == "text":
            return _unquoted(token.text)
        if token.kind in ("number", "word"):
            return token.text.lower() if token.upper in ("TRUE", "FALSE") else token.text
        self._position -= 1
        raise self.error(f"{what}: the value of {name} is a text in quotes or a number, not {token.text!r}")

    def _matching_parenthesis(self) -> Token:
        line, depth = self._here_line(), 0
        while not self.at_end:
            token = self._next("")
            depth += {"(": 1, ")": -1}.get(token.text if token.kind == "sign" else "", 0)
            if depth == 0:
                return token
        raise self.error("the parenthesis that opens here is not closed", line)

    def _end_of_statement(self, what: str) -> None:
        if not self.at_end and not self.take_sign(";"):
            raise self.error(f"{what}: expected ; and not {self._peek().text!r}")

    def _word(self, word: str, message: str) -> None:
        if not self._take_word(word):
            said = "the end of the file" if self.at_end else repr(self._peek().text)
            raise self.error(f"{message}, not {said}")

    def _take_word(self, word: str) -> bool:
        if not self.at_end and self._peek().upper == word:
            self._position += 1
            return True
        return False

    def _name(self, message: str) -> str:
        token = self._next(message)
        if token.kind not in ("word", "quoted"):
            self._position -= 1
            raise self.error(f"{message}, not {token.text!r}")
        return token.text.strip("`")

    def _peek(self) -> Token:
        if self.at_end:
            raise self.error("the file ends in the middle of a statement")
        return self._tokens[self._position]

    def _next(self, message: str) -> Token:
        if self.at_end:
            raise self.error(message or "the file ends in the middle of a statement")
        self._position += 1
        return self._tokens[self._position - 1]

    def _here_line(self) -> int:
        if not self.at_end:
            return self._line(self._tokens[self._position].start)
        return self._line(self._tokens[-1].end) if self._tokens else 1

    def _line(self, offset: int) -> int:
        return self._text.count("\n", 0, offset) + 1


def _unquoted(text: str) -> str:
    """A string without its quotes and escapes."""
    inner = text[1:-1]
    if text[0] == "'":
        inner = inner.replace("''", "\\'")
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), inner, flags=re.DOTALL)


def names(statements: Sequence[Statement]) -> dict[str, Statement]:
    """Statements by their names in lower case, as SQL compares them."""
    return {statement.name.lower(): statement for statement in statements}
