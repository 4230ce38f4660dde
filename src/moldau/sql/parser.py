"""From text to statements.

Standard SQL is left to sqlglot. What ksqlDB adds to a SELECT (WINDOW, WITHIN, PARTITION BY, EMIT, AS OF) is
cut out of the text by its tokens first; CREATE, DROP and the like are read token by token.

Invariant: a text is understood as a whole or refused with SqlError; nothing of it is passed over.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal, cast

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from moldau.sql.dialect import name_of, parse_expressions, parse_select, parse_type, tokenize
from moldau.sql.errors import SqlError
from moldau.sql.statements import (
    ColumnDefinition,
    Control,
    CreateAs,
    CreateSource,
    Describe,
    Drop,
    Explain,
    InsertSelect,
    InsertValues,
    Join,
    Kind,
    PrintTopic,
    Query,
    SetProperty,
    Show,
    Statement,
    Window,
    Within,
)
from moldau.sql.types import type_of

#: Milliseconds of the units of time, also in the plural.
_UNITS = {
    "MILLISECOND": 1,
    "SECOND": 1_000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
}
#: The ends of windows have to stay times that Kafka can write.
_LONGEST_MS = (1 << 62) - 1
_SHOWN = ("STREAMS", "TABLES", "TOPICS", "QUERIES", "FUNCTIONS", "PROPERTIES")
#: What may follow PARTITION BY in a SELECT.
_AFTER_PARTITION_BY = ("EMIT", "LIMIT", "HAVING", "GROUP BY")


def parse(text: str) -> list[Statement]:
    """All statements of a text, which end with semicolons."""
    return [parse_statement(each) for each in split(text)]


def split(text: str) -> list[str]:
    """The statements of a text, without their semicolons and without comments alone."""
    statements, start = [], 0
    tokens = tokenize(text)
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            statements.append(text[start : token.start])
            start = token.end + 1
    statements.append(text[start:])
    return [each.strip() for each in statements if tokenize(each)]


def parse_statement(text: str) -> Statement:
    cursor = _Cursor(text)
    word = cursor.peek()
    handler = _STATEMENTS.get(word)
    if handler is None:
        raise SqlError(
            f"No statement begins with {word or 'nothing'}; there are {', '.join(sorted(_STATEMENTS))}."
        )
    statement = handler(cursor)
    cursor.expect_end()
    return statement


class _Cursor:
    """A place in the tokens of one statement."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        if self.tokens and self.tokens[-1].token_type is TokenType.SEMICOLON:
            self.tokens.pop()
        self.at = 0

    @property
    def token(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def peek(self, ahead: int = 0) -> str:
        """The next word in upper case; nothing at the end and for texts in quotes."""
        at = self.at + ahead
        if at >= len(self.tokens) or self.tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            return ""
        return str(self.tokens[at].text).upper()

    def take(self) -> Token:
        token = self.token
        if token is None:
            raise SqlError(f"The statement ends too early: {self.text[-60:]!r}")
        self.at += 1
        return token

    def accept(self, *words: str) -> bool:
        if any(self.peek(ahead) != word for ahead, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.accept(word):
                raise SqlError(f"{word} is expected where {self._here()} stands.")

    def expect_end(self) -> None:
        if self.token is not None:
            raise SqlError(f"The statement goes on where it should end: {self._here()}")

    def _here(self) -> str:
        return "the end" if self.token is None else repr(self.text[self.token.start : self.token.start + 40])

    def name(self) -> str:
        token = self.take()
        if token.token_type is TokenType.IDENTIFIER:
            return str(token.text)
        if token.token_type is TokenType.STRING or not str(token.text)[:1].isidentifier():
            raise SqlError(f"A name is expected where {token.text!r} stands.")
        return str(token.text).upper()

    def string(self) -> str:
        token = self.take()
        if token.token_type is not TokenType.STRING:
            raise SqlError(f"A text in quotes is expected where {token.text!r} stands.")
        return str(token.text)

    def rest(self) -> str:
        """All that is left, as text."""
        token = self.token
        if token is None:
            raise SqlError("The statement ends too early.")
        self.at = len(self.tokens)
        return self.text[token.start :].rstrip().rstrip(";")

    def until_comma_or_end(self) -> str:
        """The text up to a comma or a closing bracket of the outer level."""
        start, depth = self.at, 0
        while (token := self.token) is not None:
            word = str(token.text)
            if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
                word = ""
            if word in ("(", "[", "<"):
                depth += 1
            elif word in (")", "]", ">"):
                if depth == 0:
                    break
                depth -= 1
            elif word == ">>":
                depth -= 2
            elif word == "," and depth == 0:
                break
            self.at += 1
        if self.at == start:
            raise SqlError(f"Something is missing where {self._here()} stands.")
        return self.text[self.tokens[start].start : self.tokens[self.at - 1].end + 1]


# --- CREATE ---------------------------------------------------------------------------------------


def _create(cursor: _Cursor) -> Statement:
    cursor.expect("CREATE")
    or_replace = cursor.accept("OR", "REPLACE")
    cursor.accept("SOURCE")
    kind = _kind(cursor)
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    columns = _columns(cursor) if cursor.peek() == "(" else ()
    properties = _properties(cursor) if cursor.accept("WITH") else {}
    if cursor.accept("AS"):
        if columns:
            raise SqlError(f"CREATE {kind} … AS SELECT takes its columns from the SELECT.")
        query = parse_query(cursor.rest())
        return CreateAs(kind, name, query, properties, if_not_exists, or_replace, cursor.text)
    if not properties:
        raise SqlError(f"CREATE {kind} {name} needs WITH (KAFKA_TOPIC = …, VALUE_FORMAT = …) or AS SELECT ….")
    return CreateSource(kind, name, columns, properties, if_not_exists, or_replace, cursor.text)


def _kind(cursor: _Cursor) -> Kind:
    kinds: tuple[Kind, ...] = ("STREAM", "TABLE")
    for kind in kinds:
        if cursor.accept(kind):
            return kind
    raise SqlError("STREAM or TABLE is expected.")


def _columns(cursor: _Cursor) -> tuple[ColumnDefinition, ...]:
    cursor.expect("(")
    columns: list[ColumnDefinition] = []
    while True:
        name = cursor.name()
        written = cursor.until_comma_or_end()
        is_key = False
        for suffix in ("PRIMARY KEY", "KEY"):
            if written.upper().endswith(f" {suffix}"):
                written, is_key = written[: -len(suffix)].strip(), True
                break
        columns.append(ColumnDefinition(name, type_of(parse_type(written)), is_key))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise SqlError(f"A column has its name twice: {', '.join(names)}")
    return tuple(columns)


def _properties(cursor: _Cursor) -> dict[str, Any]:
    cursor.expect("(")
    properties: dict[str, Any] = {}
    while not cursor.accept(")"):
        name = cursor.name()
        cursor.expect("=")
        token = cursor.take()
        if token.token_type is TokenType.NUMBER:
            properties[name] = _whole_number(token.text, name)
        elif str(token.text).upper() in ("TRUE", "FALSE") and token.token_type is not TokenType.STRING:
            properties[name] = str(token.text).upper() == "TRUE"
        else:
            properties[name] = str(token.text)
        if not cursor.accept(",") and cursor.peek() != ")":
            raise SqlError("A comma or ) is expected in WITH (…).")
    return properties


# --- SELECT ---------------------------------------------------------------------------------------


def parse_query(text: str) -> Query:
    """A SELECT with all that is added to it."""
    cutter = _Cutter(text)
    window = cutter.window()
    within = cutter.withins()
    partition_by = cutter.partition_by()
    emit = cutter.emit()
    as_of_ms = cutter.as_of()
    select = parse_select(cutter.rest())
    for part in ("distinct", "order", "laterals", "offset", "qualify"):
        if select.args.get(part):
            raise SqlError(f"{part.upper()} is not supported in a SELECT over topics.")
    source = select.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table):
        raise SqlError("A SELECT needs FROM with the name of a stream or a table.")
    name, alias = _table(source.this)
    joins = _joins(select, within)
    group = select.args.get("group")
    where, having, limit = (select.args.get(part) for part in ("where", "having", "limit"))
    return Query(
        text,
        tuple(select.expressions),
        name,
        alias,
        joins,
        window,
        where.this if where else None,
        tuple(group.expressions) if group else (),
        partition_by,
        having.this if having else None,
        emit,
        _whole_number(limit.expression.sql(), "LIMIT") if limit else None,
        as_of_ms,
    )


def _whole_number(written: Any, what: str) -> int:
    text = str(written)
    if not text.isdecimal() or len(text) > 18:
        raise SqlError(f"{what} takes a whole number, not {text[:40]!r}.")
    return int(text)


def _table(table: exp.Table) -> tuple[str, str]:
    name = name_of(table.this)
    alias = table.args.get("alias")
    return name, name_of(alias.this) if alias else name


def _joins(select: exp.Select, within: dict[int, Within]) -> tuple[Join, ...]:
    joins = []
    for number, join in enumerate(select.args.get("joins") or ()):
        if not isinstance(join.this, exp.Table):
            raise SqlError("Only streams and tables can be joined.")
        side, kind = (join.args.get(part) or "" for part in ("side", "kind"))
        on = join.args.get("on")
        if on is None:
            raise SqlError("A join needs ON, as in ON a.id = b.id.")
        if side == "RIGHT":
            raise SqlError("There is no RIGHT JOIN: exchange the sides and use LEFT JOIN.")
        is_outer = side == "FULL" or (kind == "OUTER" and not side)
        found: Literal["INNER", "LEFT", "OUTER"] = "OUTER" if is_outer else "LEFT" if side else "INNER"
        joins.append(Join(*_table(join.this), found, on, within.get(number)))
    return tuple(joins)


class _Cutter:
    """Takes clauses out of a SELECT; what is left is standard SQL."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.cut: list[tuple[int, int]] = []
        depth, self.outer = 0, []
        for number, token in enumerate(self.tokens):
            if token.token_type in (TokenType.L_PAREN, TokenType.L_BRACKET):
                depth += 1
            elif token.token_type in (TokenType.R_PAREN, TokenType.R_BRACKET):
                depth -= 1
            elif depth == 0:
                self.outer.append(number)

    def word(self, number: int) -> str:
        if not 0 <= number < len(self.tokens):
            return ""
        token = self.tokens[number]
        is_quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        return "" if is_quoted else str(token.text).upper()

    def find(self, *words: str) -> int | None:
        for number in self.outer:
            if all(self.word(number + ahead) == word for ahead, word in enumerate(words)):
                return number
        return None

    def drop(self, first: int, behind: int) -> None:
        self.cut.append((self.tokens[first].start, self.tokens[behind - 1].end + 1))

    def closing(self, number: int) -> int:
        depth = 0
        for at in range(number, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.word(at), 0)
            if depth == 0:
                return at
        raise SqlError("A bracket is not closed.")

    def duration(self, number: int) -> tuple[int, int]:
        """Milliseconds, and the number of the token behind them."""
        amount, unit = self.word(number), self.word(number + 1)
        factor = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("S"))
        if not amount.isdecimal() or factor is None:
            raise SqlError(f"A length of time is expected, as in 5 MINUTES, not {amount} {unit}.")
        milliseconds = _whole_number(amount, "A length of time") * factor
        if milliseconds > _LONGEST_MS:
            raise SqlError(f"{amount} {unit} is too long: at most {_LONGEST_MS // _UNITS['DAY']} DAYS.")
        return milliseconds, number + 2

    def window(self) -> Window | None:
        found = next(
            (kind for kind in ("TUMBLING", "HOPPING", "SESSION") if self.find("WINDOW", kind) is not None),
            None,
        )
        if found is None:
            return None
        first = cast(int, self.find("WINDOW", found))
        end = self.closing(first + 2)
        sizes: dict[str, int] = {}
        at = first + 3
        while at < end:
            name = "SIZE"
            for words in (("SIZE",), ("ADVANCE", "BY"), ("GRACE", "PERIOD"), ("RETENTION",)):
                if all(self.word(at + ahead) == word for ahead, word in enumerate(words)):
                    name, at = words[0], at + len(words)
                    break
            sizes[name], at = self.duration(at)
            if self.word(at) == ",":
                at += 1
            elif at != end:
                raise SqlError(f"WINDOW {found} (…) has {self.word(at)} where a comma should be.")
        if "SIZE" not in sizes:
            raise SqlError(f"WINDOW {found} needs a size, as in (SIZE 1 HOUR).")
        if found == "HOPPING" and "ADVANCE" not in sizes:
            raise SqlError("WINDOW HOPPING needs ADVANCE BY.")
        self.drop(first, end + 1)
        return Window(
            cast(Any, found), sizes["SIZE"], sizes.get("ADVANCE"), sizes.get("GRACE"), sizes.get("RETENTION")
        )

    def withins(self) -> dict[int, Within]:
        """What stands behind WITHIN, by the number of the join."""
        found: dict[int, Within] = {}
        join = -1
        for number in self.outer:
            if self.word(number) == "JOIN":
                join += 1
            if self.word(number) != "WITHIN":
                continue
            if self.word(number + 1) == "(":
                before, at = self.duration(number + 2)
                if self.word(at) != ",":
                    raise SqlError("WITHIN (before, after) has two lengths of time.")
                after, at = self.duration(at + 1)
                at += 1
            else:
                before, at = self.duration(number + 1)
                after = before
            grace = None
            if self.word(at) == "GRACE" and self.word(at + 1) == "PERIOD":
                grace, at = self.duration(at + 2)
            found[join] = Within(before, after, grace)
            self.drop(number, at)
        return found

    def partition_by(self) -> tuple[exp.Expression, ...]:
        first = self.find("PARTITION BY")
        if first is None:
            return ()
        ends = [each for each in self.outer if each > first and self.word(each) in _AFTER_PARTITION_BY]
        end = min(ends, default=len(self.tokens))
        if end == first + 1:
            raise SqlError("PARTITION BY needs an expression.")
        text = self.text[self.tokens[first + 1].start : self.tokens[end - 1].end + 1]
        self.drop(first, end)
        return tuple(parse_expressions(text))

    def emit(self) -> Literal["CHANGES", "FINAL"] | None:
        first = self.find("EMIT")
        if first is None:
            return None
        word = self.word(first + 1)
        if word not in ("CHANGES", "FINAL"):
            raise SqlError("EMIT is followed by CHANGES or by FINAL.")
        self.drop(first, first + 2)
        return cast(Literal["CHANGES", "FINAL"], word)

    def as_of(self) -> int | None:
        first = self.find("AS", "OF")
        if first is None:
            return None
        if first + 2 >= len(self.tokens):
            raise SqlError("AS OF needs a moment.")
        moment = self.tokens[first + 2]
        self.drop(first, first + 3)
        if moment.token_type is TokenType.NUMBER:
            return _whole_number(moment.text, "AS OF")
        try:
            parsed = datetime.fromisoformat(str(moment.text))
        except ValueError:
            raise SqlError(
                f"AS OF takes milliseconds or a time such as '2026-01-31T12:00:00', not {moment.text!r}."
            ) from None
        aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000)

    def rest(self) -> str:
        kept, position = [], 0
        for start, end in sorted(self.cut):
            kept.append(self.text[position:start])
            position = end
        return " ".join([*kept, self.text[position:]])


# --- the others -----------------------------------------------------------------------------------


def _select(cursor: _Cursor) -> Statement:
    return parse_query(cursor.rest())


def _insert(cursor: _Cursor) -> Statement:
    cursor.expect("INSERT", "INTO")
    name = cursor.name()
    if cursor.peek() == "SELECT":
        return InsertSelect(name, parse_query(cursor.rest()), cursor.text)
    columns: list[str] = []
    if cursor.accept("("):
        columns.append(cursor.name())
        while cursor.accept(","):
            columns.append(cursor.name())
        cursor.expect(")")
    cursor.expect("VALUES")
    rows = []
    while True:
        cursor.expect("(")
        values = [cursor.until_comma_or_end()]
        while cursor.accept(","):
            values.append(cursor.until_comma_or_end())
        cursor.expect(")")
        rows.append(tuple(each for text in values for each in parse_expressions(text)))
        if not cursor.accept(","):
            break
    return InsertValues(name, tuple(columns), tuple(rows))


def _drop(cursor: _Cursor) -> Statement:
    cursor.expect("DROP")
    kind = _kind(cursor)
    if_exists = cursor.accept("IF", "EXISTS")
    return Drop(kind, cursor.name(), if_exists, cursor.accept("DELETE", "TOPIC"))


def _show(cursor: _Cursor) -> Statement:
    cursor.take()
    cursor.accept("ALL")
    word = cursor.name()
    if word not in _SHOWN:
        raise SqlError(f"There is no SHOW {word}; there are {', '.join(_SHOWN)}.")
    cursor.accept("EXTENDED")
    return Show(word)


def _describe(cursor: _Cursor) -> Statement:
    cursor.take()
    name = cursor.name()
    return Describe(name, cursor.accept("EXTENDED"))


def _explain(cursor: _Cursor) -> Statement:
    cursor.expect("EXPLAIN")
    if cursor.peek() == "SELECT":
        return Explain(query=parse_query(cursor.rest()))
    if cursor.peek() == "CREATE":
        made = _create(cursor)
        if not isinstance(made, CreateAs):
            raise SqlError("Only a statement with a SELECT can be explained.")
        return Explain(query=made.query, replacing=made if made.or_replace else None)
    return Explain(query_id=cursor.name())


def _control(cursor: _Cursor) -> Statement:
    action = str(cursor.take().text).upper()
    query_id = None if cursor.accept("ALL") else cursor.name()
    return Control(cast(Any, action), query_id)


def _set(cursor: _Cursor) -> Statement:
    if cursor.accept("UNSET"):
        return SetProperty(cursor.string(), None)
    cursor.expect("SET")
    name = cursor.string()
    cursor.expect("=")
    return SetProperty(name, cursor.string())


def _print(cursor: _Cursor) -> Statement:
    cursor.expect("PRINT")
    token = cursor.take()
    from_beginning = cursor.accept("FROM", "BEGINNING")
    limit = _whole_number(cursor.take().text, "LIMIT") if cursor.accept("LIMIT") else None
    return PrintTopic(str(token.text), from_beginning, limit)


_STATEMENTS: dict[str, Callable[[_Cursor], Statement]] = {
    "CREATE": _create,
    "SELECT": _select,
    "INSERT": _insert,
    "DROP": _drop,
    "SHOW": _show,
    "LIST": _show,
    "DESCRIBE": _describe,
    "EXPLAIN": _explain,
    "TERMINATE": _control,
    "PAUSE": _control,
    "RESUME": _control,
    "SET": _set,
    "UNSET": _set,
    "PRINT": _print,
}


def parse_duration(text: str) -> int:
    """Milliseconds of a text such as ``1 HOUR``."""
    return _Cutter(text).duration(0)[0]
