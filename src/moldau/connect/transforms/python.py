"""Functions of Python as transforms: ``transforms.x.type=python``, ``transforms.x.function=rules:clean``.

A function gets a record and answers with a record (``record.replaced(…)``), or None to drop it. The worker's
``transforms.python.modules`` lists the modules that may be used; without it there are none.

Invariant: a module that is not listed is never imported; an error of a function is one of its record.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from moldau.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from moldau.connect.config.validators import NonEmptyString
from moldau.connect.errors import ConfigException, DataException, JavaError
from moldau.connect.records import ConnectRecord
from moldau.connect.transforms.base import R, Transformation

TYPE = "python"
MODULES = "transforms.python.modules"


class PythonTransform(Transformation):
    config = ConfigDef(
        ConfigKey(
            "function",
            ConfigType.STRING,
            importance=Importance.HIGH,
            doc="package.module:function, of a module that the worker permits.",
            validator=NonEmptyString(),
        )
    )

    def __init__(self, given: Mapping[str, object], allowed: Sequence[str]) -> None:
        super().__init__(given)
        self._name = str(given.get("function", ""))
        self._function = load(self._name, allowed)

    def apply(self, record: R) -> R | None:
        try:
            found = self._function(record)
        except JavaError:
            raise
        except Exception as error:
            raise DataException(f"{self._name} failed: {type(error).__name__} {error}") from error
        if found is not None and not isinstance(found, type(record)):
            raise DataException(
                f"{self._name} answered with a {type(found).__name__}, not with a record or None"
            )
        return found


def load(name: str, allowed: Sequence[str]) -> Callable[[ConnectRecord], object]:
    """The function ``module:function``, if its module may be used."""
    module, _, function = name.partition(":")
    if not module or not function.isidentifier() or function.startswith("_"):
        raise ConfigException.of("function", name, "A function is written as package.module:function")
    if module not in allowed:
        raise ConfigException(
            f"The module {module} is not permitted. Next: the worker's {MODULES} has to list it"
        )
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigException(f"{name} cannot be loaded: {error}") from error
    if not callable(found):
        raise ConfigException(f"{name} is no function")
    return cast("Callable[[ConnectRecord], object]", found)
