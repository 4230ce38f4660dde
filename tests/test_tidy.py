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
    "schemas": "base",
    "storage": "base protocol",
    "inspection": "base protocol storage",
    "cluster": "base protocol",
    "coordinators": "base protocol",
    "client": "base protocol",
    "replication": "base protocol schemas storage cluster client",
    "broker": "base protocol cluster coordinators replication",
    "node": "base protocol storage cluster coordinators client replication broker",
    "importing": "base protocol storage inspection cluster",
    "serde": "base protocol schemas client",
    "spark": "base protocol schemas client serde",
    "pipelines": "base protocol schemas client serde spark",
    "web": "base",
    "registry": "base protocol schemas client web",
    "cli": "base protocol schemas client cluster node importing web registry serde spark pipelines",
    "testing": "*",
}
#: The one exception to the table: a tool that reads files of a stopped broker has no broker to ask.
READS_FILES = {
    "cli/kafka_tools/dump_log.py",
    "cli/kafka_tools/records/record_decoders.py",
    "cli/kafka_tools/records/group_record_decoders.py",
    "cli/commands/doctor.py",
    "cli/commands/log.py",
    "cli/commands/log_checks.py",
    "cli/commands/log_import.py",
    "cli/reports/log_charts.py",
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
    "socket": "broker client node.py cli testing web/server.py "
    "spark/session/prefork_client.py spark/session/prefork_server.py",
    "starlette": "web",
    "uvicorn": "web",
    "httpx": "web/forwarding.py",
    "threading": "testing node.py storage cluster/store client/transport/background_loop.py "
    "spark/session/prefork_server.py schemas/protoc.py client/registry/schema_registry.py "
    "pipelines/metrics_server.py",
    "pyspark": "spark pipelines",
    "numba": "spark/kernels/records.py spark/read/decoding.py spark/kernels/avro.py",
    "pyarrow": "spark",
    "grpc_tools": "schemas/protoc_worker.py",
    "jsonschema_rs": "serde",
    "numpy": "spark",
}
IMPURE = {"asyncio", "os", "socket", "threading", "time", "random", "ssl", "sqlite3"}
PURE = [
    "protocol",
    "coordinators/shard.py",
    "base/re2",
    "coordinators/groups",
    "coordinators/transactions",
    "base/names.py",
    "base/settings.py",
    "cluster/records.py",
    "cluster/image.py",
    "cluster/controller/commands.py",
    "cluster/controller/topics.py",
    "cluster/controller/placement.py",
    "cluster/controller/elections.py",
    "cluster/configs/descriptions.py",
    "cluster/configs/topic_configs.py",
    "cluster/configs/broker_configs.py",
    "cluster/configs/layers.py",
    "cluster/controller/config_changes.py",
    "cluster/configs/listeners.py",
    "cluster/configs/broker_settings.py",
    "cluster/configs/without_effect.py",
    "replication/partition.py",
    "registry/records.py",
    "registry/errors.py",
    "registry/subjects.py",
    "registry/state.py",
    "registry/decisions.py",
    "registry/api/openapi.py",
    "web/problems.py",
    "web/routes.py",
    "web/openapi.py",
    "web/media_types.py",
    "web/limits.py",
    "schemas/limits.py",
    "registry/rules/differences.py",
    "registry/schemas.py",
    "registry/rules/compatibility.py",
    "schemas/avro",
    "schemas/schema_id.py",
    "registry/rules/avro.py",
    "schemas/json_schema",
    "registry/rules/json_schema.py",
    "registry/rules/json_values.py",
    "registry/rules/json_patterns.py",
    "registry/rules/json_messages.py",
    "schemas/protobuf/schema.py",
    "registry/rules/protobuf.py",
    "schemas/protobuf/text.py",
    "spark/options.py",
    "spark/read/offsets.py",
    "spark/read/planning.py",
    "spark/read/pushdown.py",
    "spark/kernels/records.py",
    "spark/read/columns.py",
    "spark/write/rows.py",
    "spark/write/encode.py",
    "spark/read/as_of.py",
    "spark/times.py",
    "spark/typed/avro/decode.py",
    "spark/typed/avro/programs.py",
    "spark/typed/avro/schema.py",
    "spark/typed/avro/write.py",
    "spark/typed/ddl.py",
    "spark/typed/formats.py",
    "spark/typed/frames.py",
    "spark/typed/json/decode.py",
    "spark/typed/json/schema.py",
    "spark/typed/json/write.py",
    "spark/kernels/avro.py",
    "spark/typed/options.py",
    "spark/typed/shapes.py",
    "spark/kernels/avro_write.py",
    "spark/query/progress.py",
    "spark/query/failures.py",
    "pipelines/definitions.py",
    "pipelines/option_names.py",
    "pipelines/metrics.py",
    "broker/fetch_sessions.py",
    "broker/authorized_operations.py",
    "storage/log/validation.py",
    "storage/log/producer_state.py",
    "storage/log/config.py",
]
FORBIDDEN_NAMES = {"utils.py", "helpers.py", "common.py", "misc.py"}
MAX_FILE_LINES = 600
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
            allowed += ["storage", "inspection", "coordinators"]
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
