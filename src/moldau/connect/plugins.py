"""What can be named in a configuration: connectors, converters, transforms and predicates.

Connectors of other packages are found by the entry points ``moldau.connectors``; each names a class.

Invariant: two plugins never have the same class name; a name that is not known is None, never an import.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points

from moldau.connect.config.definition import ConfigDef
from moldau.connect.connector import Connector
from moldau.connect.converters.catalogue import CONVERTERS, HEADER_CONVERTERS
from moldau.connect.converters.catalogue import full_name as full_converter_name
from moldau.connect.transforms.catalogue import PREDICATES, TRANSFORMS, full_name

ENTRY_POINTS = "moldau.connectors"
VERSION = "4.3.0"


@dataclass(frozen=True, slots=True)
class Plugin:
    class_name: str
    kind: str
    config: ConfigDef
    version: str = VERSION

    def description(self) -> dict[str, str]:
        return {"class": self.class_name, "type": self.kind, "version": self.version}


class Plugins:
    def __init__(self, connectors: Iterable[type[Connector]]) -> None:
        self._connectors = {each.class_name: each for each in connectors}

    def connector(self, name: str) -> type[Connector] | None:
        """A connector by its full name, or by the last part of it with or without the word Connector."""
        for each in self._connectors.values():
            simple = each.class_name.rpartition(".")[2]
            if name in (each.class_name, simple, simple.removesuffix("Connector"), *each.synonyms):
                return each
        return None

    def connectors(self) -> list[type[Connector]]:
        return sorted(self._connectors.values(), key=lambda each: each.class_name)

    def listed(self, connectors_only: bool) -> list[Plugin]:
        found = [Plugin(each.class_name, each.kind, each.config, each.version) for each in self.connectors()]
        if connectors_only:
            return sorted(found, key=lambda plugin: (plugin.kind, plugin.class_name))
        found += [Plugin(name, "converter", kind.config) for name, kind in CONVERTERS.items()]
        found += [Plugin(name, "header_converter", kind.config) for name, kind in HEADER_CONVERTERS.items()]
        found += [Plugin(name, "transformation", config) for name, (_, config) in TRANSFORMS.items()]
        found += [Plugin(name, "predicate", kind.config) for name, kind in PREDICATES.items()]
        order = ["sink", "source", "transformation", "predicate", "converter", "header_converter"]
        return sorted(found, key=lambda plugin: (order.index(plugin.kind), plugin.class_name))

    def plugin(self, name: str) -> Plugin | None:
        """Any plugin by its full name, or by a short one that configurations may have for it."""
        connector = self.connector(name)
        if connector is not None:
            return Plugin(connector.class_name, connector.kind, connector.config, connector.version)
        for plugin in self.listed(connectors_only=False):
            full = (
                full_converter_name(name, "header") if plugin.kind.endswith("converter") else full_name(name)
            )
            if full == plugin.class_name:
                return plugin
        return None


def described(connector: type[Connector]) -> str:
    """A connector as messages list it."""
    name, kind, version = connector.class_name, connector.kind, connector.version
    return (
        f"PluginDesc{{klass=class {name}, name='{name}', version='{version}', encodedVersion={version}, "
        f"type={kind}, typeName='{kind}', location='classpath'}}"
    )


def installed() -> list[type[Connector]]:
    """Connectors that other packages bring."""
    found = (point.load() for point in entry_points(group=ENTRY_POINTS))
    return [each for each in found if isinstance(each, type) and issubclass(each, Connector)]
