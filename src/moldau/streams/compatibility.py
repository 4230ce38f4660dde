"""What a new version of a program can take over of the old one's state, and what speaks against it.

A store goes over where both versions have it by name, as the same kind, for keys and values of the same
serdes and for windows of the same shape; with it go the numbers (stream time, last close) of the operator
that keeps it, whatever that operator is called now. Grace and retention may change: they say nothing about
rows.

Invariant: pure. Whatever is not sure is a reason to refuse, never a guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.streams.engine.nodes import Node
from moldau.streams.engine.table_joins import StreamTableJoin
from moldau.streams.engine.task import Task
from moldau.streams.topology.topology import Topology

#: Attributes of operators that say which windows their rows are about.
_SHAPE = ("size_ms", "gap_ms", "before_ms", "after_ms", "other_after_ms", "wait_ms")


@dataclass(slots=True)
class Succession:
    """Old names by new ones; ``problems`` says why not."""

    stores: dict[str, str] = field(default_factory=dict)
    operators: dict[str, str] = field(default_factory=dict)
    #: Stores that begin empty because that was asked for.
    empty: list[str] = field(default_factory=list)
    #: Stores of the old version that nothing takes over.
    left: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def succession(
    old: Topology,
    new: Topology,
    renamed: Mapping[str, str] | None = None,
    empty: frozenset[str] = frozenset(),
) -> Succession:
    """Compares two versions. ``renamed`` has the old name of stores by the new one; those of ``empty`` begin
    empty.
    """
    found = Succession()
    renamed = renamed or {}
    _check_names(old, new, renamed, empty, found)
    for name, spec in new.stores.items():
        if spec.is_global:
            continue
        before = renamed.get(name, name)
        if name in empty:
            found.empty.append(name)
        elif before not in old.stores or old.stores[before].is_global:
            found.problems.append(
                f"the old version has no store {before}: name the one that {name} follows with"
                f" --store {name}=OLD, or let it begin empty with --empty {name}"
            )
        else:
            found.stores[name] = before
            found.problems += _differences(name, old, before, new)
    taken = set(found.stores.values())
    found.left = [name for name, spec in old.stores.items() if not spec.is_global and name not in taken]
    _match_operators(Task(old), Task(new), old, new, found)
    return found


def _check_names(
    old: Topology, new: Topology, renamed: Mapping[str, str], empty: frozenset[str], found: Succession
) -> None:
    for name in sorted({*renamed, *empty} - set(new.stores)):
        found.problems.append(
            f"the new version has no store {name}: it has {', '.join(new.stores) or 'none'}"
        )
    for name in sorted(set(renamed) & empty):
        found.problems.append(f"store {name} cannot follow {renamed[name]} and begin empty")
    sources = [renamed.get(name, name) for name in new.stores if name not in empty]
    for name in sorted({each for each in sources if sources.count(each) > 1 and each in old.stores}):
        found.problems.append(f"two stores of the new version would follow {name}")


def _differences(name: str, old: Topology, before: str, new: Topology) -> list[str]:
    one, other = old.stores[before], new.stores[name]
    said = []
    kinds = type(one.make()).__name__, type(other.make()).__name__
    if kinds[0] != kinds[1]:
        said.append(f"store {name} is a {kinds[1]}, and was a {kinds[0]}")
    for what in ("key", "value"):
        serdes = [
            described_serde(getattr(spec, f"{what}_serde") or getattr(topology, f"default_{what}_serde"))
            for spec, topology in ((one, old), (other, new))
        ]
        # A store without a serde says nothing of its rows; what they are is seen where they are read.
        if None not in serdes and serdes[0] != serdes[1]:
            said.append(f"store {name} has {what}s by {serdes[1]}, and had {what}s by {serdes[0]}")
    return [f"{each}: give it another name, and --empty" for each in said]


def described_serde(serde: Any) -> str | None:
    """What tells serdes apart: the kind, and the schema or class where there is one."""
    if serde is None:
        return None
    name = getattr(serde, "_name", None)
    if isinstance(name, str):
        return name
    writer = getattr(serde, "_serializer", serde)
    schema = getattr(writer, "_schema", None)
    shown = getattr(schema, "__qualname__", schema)
    return f"{type(writer).__name__}({shown})" if shown is not None else type(writer).__name__


def _match_operators(old_task: Task, new_task: Task, old: Topology, new: Topology, found: Succession) -> None:
    """Finds the operator whose numbers each new one goes on with: of the same kind, for the same stores."""
    before: dict[tuple[Any, ...], list[str]] = {}
    for name, node in old_task.nodes.items():
        before.setdefault((type(node), frozenset(old.nodes[name].stores)), []).append(name)
    for name, node in new_task.nodes.items():
        stores = new.nodes[name].stores
        if not node.numbers() or not stores:
            if node.numbers() and type(old_task.nodes.get(name)) is type(node):
                found.operators[name] = name  # it keeps no store: only its name tells it from others
            continue
        if not all(store in found.stores for store in stores if not new.stores[store].is_global):
            continue
        wanted = frozenset(found.stores.get(store, store) for store in stores)
        same = before.get((type(node), wanted), [])
        if not same and isinstance(node, StreamTableJoin):
            continue  # it only reads the table
        if not same:
            found.problems.append(
                f"store {', '.join(stores)} is kept by another kind of operator now ({name}):"
                " give it another name, and --empty"
            )
            continue
        match = name if name in same else same.pop(0)
        found.operators[name] = match
        shapes = _shape(old_task.nodes[match]), _shape(node)
        if shapes[0] != shapes[1]:
            said = " and ".join(f"{what} {size}" for what, size in shapes[1].items())
            had = " and ".join(f"{what} {size}" for what, size in shapes[0].items())
            found.problems.append(
                f"the windows of store {', '.join(stores)} have {said}, and had {had}:"
                " give it another name, and --empty"
            )


def same_schedules(old: Task, new: Task) -> bool:
    """Whether both make the same schedules, which then go on where they were."""
    made = [
        [(each.kind, each.interval_ms) for each in task.context.scheduler.schedules] for task in (old, new)
    ]
    return made[0] == made[1]


def _shape(node: Node) -> dict[str, Any]:
    shape = {name: getattr(node, name) for name in _SHAPE if isinstance(getattr(node, name, None), int)}
    windows = getattr(getattr(node, "windows_for", None), "__self__", None)
    for name in ("advance_ms", "start_ms"):
        if (number := getattr(windows, name, None)) is not None:
            shape[name] = number
    return shape
