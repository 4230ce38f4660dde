"""What differs between databases: how to connect, quote, list tables, read types, and write rows.

Invariant: names that come from records are always quoted; an error that may pass by itself, such as a lost
connection, is a RetriableException, every other one a ConnectException without the password in it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from moldau.connect.connectors.jdbc.urls import DatabaseAddress
from moldau.connect.data.schema import Schema
from moldau.connect.errors import ConnectException, DataException, RetriableException


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    schema: str
    name: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    #: None for a type that Connect has no word for.
    connect: Schema | None
    #: A value of the driver as one that fits the schema.
    read: Callable[[Any], object]
    nullable: bool = True
    auto_increment: bool = False
    primary_key: bool = False
    #: Whether the column holds moments, in a form that knows its zone.
    is_timestamp: bool = False
    has_zone: bool = False


#: Errors of drivers (PEP 249) about what was to be written, not about how.
_ABOUT_VALUES = frozenset({"DataError", "IntegrityError"})


class Dialect(ABC):
    """One open connection, made when it is first needed."""

    mark: ClassVar[str] = "%s"
    quote_mark: ClassVar[str] = '"'
    max_parameters: ClassVar[int] = 30_000

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self._connection: Any = None

    # --- the connection -------------------------------------------------------------------------------

    @abstractmethod
    def connect(self) -> Any:
        """A new connection whose work is committed by ``commit`` only."""

    @abstractmethod
    def passes(self, error: Exception) -> bool:
        """Whether an error of the driver may pass by itself."""

    @property
    @abstractmethod
    def errors(self) -> type[Exception]:
        """The base class of the driver's errors."""

    @property
    def connection(self) -> Any:
        if self._connection is None:
            with self.translated():
                self._connection = self.connect()
        return self._connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception:  # it may be broken already
                return

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except self.errors as error:
            passes = self.passes(error)
            text = f"{self.address.kind} says: {self._without_secrets(str(error).strip())}"
            if passes:
                self.close()
                raise RetriableException(text) from None
            kinds = {kind.__name__ for kind in type(error).__mro__}
            raise (DataException if kinds & _ABOUT_VALUES else ConnectException)(text) from None

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A cursor whose work is committed at the end, or not at all."""
        with self.translated():
            cursor = self.connection.cursor()
            try:
                yield cursor
                self.connection.commit()
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._end(cursor)

    def _roll_back(self) -> None:
        try:
            if self._connection is not None:
                self._connection.rollback()
        except Exception:
            self.close()

    def _end(self, cursor: Any) -> None:
        try:
            cursor.close()
        except Exception:
            self.close()

    def _without_secrets(self, text: str) -> str:
        return text.replace(self.address.password, "[hidden]") if self.address.password else text

    # --- names ----------------------------------------------------------------------------------------

    def quoted(self, name: str) -> str:
        if "\0" in name:
            raise ConnectException("A name of a table or column has a zero byte in it")
        return f"{self.quote_mark}{name.replace(self.quote_mark, self.quote_mark * 2)}{self.quote_mark}"

    def table(self, name: TableName) -> str:
        return ".".join(self.quoted(each) for each in (name.schema, name.name) if each)

    # --- reading --------------------------------------------------------------------------------------

    @abstractmethod
    def tables(self, cursor: Any, schema: str | None, kinds: Sequence[str]) -> list[TableName]: ...

    @abstractmethod
    def columns(self, cursor: Any, table: TableName) -> list[Column]: ...

    @abstractmethod
    def result_columns(self, cursor: Any) -> list[Column]:
        """The columns of the query that ``cursor`` has just executed."""

    @abstractmethod
    def now_us(self, cursor: Any) -> int:
        """The database's time in microseconds since 1970."""

    def timestamp_text(self, column: str) -> str:
        """An expression with which timestamps of a column are compared."""
        return column

    @abstractmethod
    def timestamp_parameter(self, column: Column, microseconds: int) -> object:
        """What a column of timestamps is compared with."""

    def big_cursor(self) -> Any:
        """A cursor for a result that may not fit into memory."""
        return self.connection.cursor()

    # --- writing --------------------------------------------------------------------------------------

    @abstractmethod
    def type_of(self, schema: Schema, key: bool) -> str:
        """The type of a column that holds values of a schema."""

    @abstractmethod
    def upsert(self, table: TableName, keys: Sequence[str], others: Sequence[str], rows: str) -> str:
        """Inserts ``rows`` (parenthesised lists of marks), or updates those that are there."""

    def insert(self, table: TableName, columns: Sequence[str], rows: str) -> str:
        names = ", ".join(map(self.quoted, columns))
        return f"INSERT INTO {self.table(table)} ({names}) VALUES {rows}"

    def locked(self, select: str) -> str:
        """A SELECT whose rows nobody else changes until the transaction ends."""
        return f"{select} FOR UPDATE"

    def begin_writing(self, cursor: Any) -> None:
        """Begins a transaction that is going to write, where the database has to know that early."""
        return

    def split(self, name: str) -> TableName:
        """The table that a setting or a topic names."""
        schema, _, table = name.rpartition(".")
        return TableName(schema, table)

    def written(self, schema: Schema | None, value: object) -> object:
        """A value of Connect as the driver takes it."""
        from moldau.connect.connectors.jdbc.values import plain

        return plain(schema, value)


def dialect_of(address: DatabaseAddress) -> Dialect:
    if address.kind == "sqlite":
        from moldau.connect.connectors.jdbc.sqlite import Sqlite

        return Sqlite(address)
    if address.kind == "postgresql":
        from moldau.connect.connectors.jdbc.postgresql import PostgreSQL

        return PostgreSQL(address)
    from moldau.connect.connectors.jdbc.mysql import MySQL

    return MySQL(address)


def marks(mark: str, columns: int, rows: int) -> str:
    row = f"({', '.join([mark] * columns)})"
    return ", ".join([row] * rows)


def address_of(settings: Mapping[str, Any]) -> DatabaseAddress:
    password = settings.get("connection.password")
    return DatabaseAddress.parse(
        settings["connection.url"],
        settings.get("connection.user"),
        None if password is None else password.secret,
    )
