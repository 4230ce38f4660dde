"""Functions of users, written in Python and called in SQL.

    from moldau.sql.user_functions import sql_function

    @sql_function(takes=("STRING", "BIGINT"), gives="STRING")
    def repeat(text, times):
        "a text so many times"
        return text * times

They come from modules that whoever starts a shell or a server names (``--functions shop.functions``): no
statement can bring Python with it, or name a module.

Invariant: a function that gets NULL gives NULL, unless it says that it takes NULL; one that raises gives NULL
for that row, as the functions that are built in. It has to be deterministic: a batch may be done again.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from moldau.sql.dialect import parse_type
from moldau.sql.errors import SqlError
from moldau.sql.functions import FUNCTIONS, add
from moldau.sql.types import NULL, SqlType, caster, type_of, wider

_F = TypeVar("_F", bound=Callable[..., Any])
#: Where each function of a user comes from: a module that is loaded again may bring its own again.
_OWNERS: dict[str, str] = {}


def sql_function(
    takes: Sequence[str], gives: str, *, name: str | None = None, takes_null: bool = False
) -> Callable[[_F], _F]:
    """Makes a function known by its name in upper case, or by ``name``; types are written as in SQL."""
    wanted = [type_of(parse_type(each)) for each in takes]
    result = type_of(parse_type(gives))

    def known(function: _F) -> _F:
        called = (name or function.__name__).upper()
        if called in FUNCTIONS and _OWNERS.get(called) != function.__module__:
            raise SqlError(
                f"There is a function {called} already: give the one of {function.__module__} another name."
            )
        help_text = (function.__doc__ or "").strip().split("\n")[0] or f"of {function.__module__}"
        add(
            called,
            (len(wanted), len(wanted)),
            lambda given: _checked(called, given, wanted, result),
            _converting(function, wanted, result),
            help_text,
            takes_null=takes_null,
        )
        _OWNERS[called] = function.__module__
        return function

    return known


def _checked(name: str, given: Sequence[SqlType], wanted: Sequence[SqlType], result: SqlType) -> SqlType:
    for number, (one, other) in enumerate(zip(given, wanted, strict=True), 1):
        if (
            one != NULL
            and one != other
            and not (one.is_number and other.is_number and wider(one, other) == other)
        ):
            raise SqlError(f"Argument {number} of {name} is {other}, not {one}.")
    return result


def _converting(
    function: Callable[..., Any], wanted: Sequence[SqlType], result: SqlType
) -> Callable[..., Any]:
    casts, convert = [caster(each) for each in wanted], caster(result)

    def call(*values: Any) -> Any:
        given = [cast(value) for cast, value in zip(casts, values, strict=True)]
        try:
            return convert(function(*given))
        except Exception as error:
            # Whatever a user's code raises is a NULL here; the caller knows these kinds.
            raise ValueError(str(error)) from error

    return call


def load_functions(modules: Sequence[str]) -> None:
    """Imports modules whose functions then are known; SqlError where one cannot be imported."""
    for each in modules:
        try:
            importlib.import_module(each)
        except ImportError as error:
            raise SqlError(
                f"The functions of {each} cannot be loaded: {error}. Is it on PYTHONPATH?"
            ) from error
