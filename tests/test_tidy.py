"""The architecture, checked: one table says which room may import which, and this file is its guard."""

import ast
import graphlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src" / "moldau"


def parsed(source: str) -> ast.Module:
    """CPython 3.11 fails where another thread or the collector makes a tree at the same time (gh-106905)."""
    while True:
        try:
            return ast.parse(source)
        except SystemError:
            continue


#: Which rooms lie below each room; a room imports itself and these, nothing else of ours.
BELOW = {
    "__init__": "",
    "__main__": "cli",
    "base": "",
    "protocol": "base",
    "storage": "base protocol",
    "cluster": "base protocol",
    "coordinators": "base protocol",
    "client": "base protocol",
    "replication": "base protocol storage cluster client",
    "broker": "base protocol cluster coordinators replication",
    "node": "base protocol storage cluster coordinators client replication broker",
    "importing": "base protocol storage cluster",
    "serde": "base protocol client",
    "spark": "base protocol client serde",
    "pipelines": "base protocol client serde spark",
    "registry": "base protocol client",
    "cli": "base protocol client cluster node importing registry serde spark pipelines",
    "testing": "*",
}
#: The one exception to the table: a tool that reads files of a stopped broker has no broker to ask.
READS_FILES = {
    "cli/kafka/dump_log.py",
    "cli/kafka/record_decoders.py",
    "cli/kafka/group_record_decoders.py",
    "cli/commands/doctor.py",
    "cli/commands/log.py",
    "cli/commands/log_checks.py",
    "cli/commands/log_import.py",
    "cli/log_pictures.py",
    "cli/log_target.py",
}

#: Where an outside library, or a module that touches the outside, may be used.
ONLY_IN = {
    "click": "cli",
    "rich": "cli",
    "sqlite3": "cluster/store",
    "uvloop": "node.py testing cli",
    "cramjam": "protocol/compression.py",
    "crc32c": "protocol storage",
    "time": "base/clock.py cli",
    "random": "node.py testing cli pipelines/demo/shop.py",
    "socket": "broker client node.py cli testing registry/server.py "
    "spark/ready_client.py spark/ready_process.py",
    "starlette": "registry web",
    "uvicorn": "registry web",
    "httpx": "registry/forwarding.py",
    "threading": "testing node.py storage cluster/store spark/wire.py spark/ready_process.py "
    "registry/protoc.py client/schema_registry.py pipelines/metrics_server.py",
    "pyspark": "spark pipelines",
    "numba": "spark/kernels.py spark/decoding.py spark/typed_kernels.py",
    "pyarrow": "spark",
    "grpc_tools": "registry/protoc_worker.py",
    "jsonschema_rs": "serde",
    "numpy": "spark",
}
IMPURE = {"asyncio", "os", "socket", "threading", "time", "random", "ssl", "sqlite3"}
PURE = [
    "protocol",
    "coordinators/machine.py",
    "coordinators/groups",
    "coordinators/transactions",
    "base/names.py",
    "base/re2",
    "base/settings.py",
    "cluster/records.py",
    "cluster/image.py",
    "cluster/controller.py",
    "cluster/topics.py",
    "cluster/placement.py",
    "cluster/elections.py",
    "cluster/configs.py",
    "cluster/topic_configs.py",
    "cluster/broker_configs.py",
    "cluster/config_layers.py",
    "cluster/config_changes.py",
    "cluster/listeners.py",
    "cluster/broker_settings.py",
    "cluster/configs_without_effect.py",
    "replication/partition.py",
    "registry/records.py",
    "registry/errors.py",
    "registry/subjects.py",
    "registry/state.py",
    "registry/decisions.py",
    "registry/openapi.py",
    "registry/limits.py",
    "registry/differences.py",
    "registry/schemas.py",
    "registry/compatibility.py",
    "registry/avro_schema.py",
    "registry/avro_rules.py",
    "registry/json_schema.py",
    "registry/json_rules.py",
    "registry/json_values.py",
    "registry/json_patterns.py",
    "registry/json_messages.py",
    "registry/protobuf_schema.py",
    "registry/protobuf_rules.py",
    "registry/protobuf_text.py",
    "spark/options.py",
    "spark/offsets.py",
    "spark/planning.py",
    "spark/pushdown.py",
    "spark/kernels.py",
    "spark/columns.py",
    "spark/rows.py",
    "spark/encode.py",
    "spark/as_of.py",
    "spark/times.py",
    "spark/typed_avro.py",
    "spark/typed_avro_programs.py",
    "spark/typed_avro_schema.py",
    "spark/typed_avro_write.py",
    "spark/typed_ddl.py",
    "spark/typed_frames.py",
    "spark/typed_json.py",
    "spark/typed_json_schema.py",
    "spark/typed_json_write.py",
    "spark/typed_kernels.py",
    "spark/typed_options.py",
    "spark/typed_shapes.py",
    "spark/typed_write_kernels.py",
    "spark/progress.py",
    "spark/failures.py",
    "pipelines/definitions.py",
    "pipelines/option_names.py",
    "pipelines/metrics.py",
    "broker/fetch_sessions.py",
    "broker/authorized_operations.py",
    "storage/validation.py",
    "storage/producer_state.py",
    "storage/log_config.py",
]
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "common.py", "misc.py"}
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    paths = sorted(ROOT.rglob("*.py"))
    return tuple((path.relative_to(ROOT).as_posix(), parsed(path.read_text())) for path in paths)


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def top_level_imports(tree: ast.Module) -> Iterator[str]:
    """Imports that run when the module is loaded; those inside functions and type checks make no cycle."""
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from imports(node)


def room(path: str) -> str:
    return path.split("/")[0].removesuffix(".py")


def within(path: str, places: list[str]) -> bool:
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def test_rooms_import_only_what_lies_below() -> None:
    for path, tree in modules():
        allowed = BELOW[room(path)].split()
        if path in READS_FILES:
            allowed += ["storage", "coordinators"]
        for name in imports(tree):
            if name.startswith("moldau.") and allowed != ["*"]:
                target = name.split(".")[1]
                assert target == room(path) or target in allowed, f"{path} imports {name}"


def test_the_broker_never_touches_storage() -> None:
    for path, tree in modules():
        if room(path) == "broker":
            assert not any(name.startswith("moldau.storage") for name in imports(tree)), path


def test_outside_libraries_stay_in_their_room() -> None:
    for path, tree in modules():
        for name in imports(tree):
            places = ONLY_IN.get(name.split(".")[0])
            assert places is None or within(path, places.split()), f"{path} imports {name}"


def test_pure_files_touch_no_clock_disk_or_network() -> None:
    for path, tree in modules():
        if within(path, PURE):
            bad = IMPURE & {name.split(".")[0] for name in imports(tree)}
            assert not bad, f"{path} imports {bad}"


def test_no_cycle_between_modules() -> None:
    graph = {}
    for path, tree in modules():
        name = "moldau." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        graph[name] = {each for each in top_level_imports(tree) if each.startswith("moldau.")}
    tuple(graphlib.TopologicalSorter(graph).static_order())


def test_sizes_and_names() -> None:
    for path, tree in modules():
        assert path.rsplit("/", 1)[-1] not in FORBIDDEN_NAMES, path
        lines = (ROOT / path).read_text().count("\n")
        assert lines <= MAX_FILE_LINES, f"{path}: {lines} lines"
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                length = node.end_lineno - node.lineno
                assert length < MAX_FUNCTION_LINES, f"{path}: {node.name} has {length} lines"


def test_every_file_states_its_law() -> None:
    for path, tree in modules():
        if tree.body:
            assert ast.get_docstring(tree), f"{path} does not say what it does"


def test_every_api_in_the_table_has_its_file_and_its_messages() -> None:
    from moldau.broker.apis import TABLE

    files = {path.stem for path in (ROOT / "broker/apis").glob("*.py")} - {"__init__"}
    declared = {path.stem for path in (ROOT / "protocol/messages").glob("*.py")} - {"__init__"}
    table = {api.module for api in TABLE.values()}
    assert files == table
    assert table <= declared
    for key, api in TABLE.items():
        assert api.module == key.name.lower()
        assert callable(api.handle)
        assert callable(api.fail)
