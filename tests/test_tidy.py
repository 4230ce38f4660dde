"""The architecture, checked: which package may import which, what pure files may touch, how large things are,
and that the tests have the shape of the code.

Invariant: a failure names every place at once, in words that say what to do. The lists at the top are meant
to be edited; a line that is no longer needed fails like one that is missing.
"""

import ast
import gc
import graphlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

TESTS = Path(__file__).parent
ROOT = TESTS.parent / "src" / "moldau"

# --- imports ----------------------------------------------------------------------------------------

#: Which packages each package may import, beside itself.
BELOW = {
    "__init__": "",
    "__main__": "cli",
    "base": "",
    "metrics": "base",
    "protocol": "base",
    "schemas": "base",
    "security": "base",
    "storage": "base protocol",
    "inspection": "base protocol storage",
    "cluster": "base metrics protocol security",
    "coordinators": "base metrics protocol",
    "client": "base protocol security",
    "replication": "base metrics protocol schemas storage cluster client",
    "broker": "base metrics protocol security storage cluster coordinators replication",
    "node": "base metrics protocol security storage cluster coordinators client replication broker",
    "importing": "base protocol storage inspection cluster",
    "serde": "base protocol schemas client",
    "spark": "base protocol schemas client serde",
    "streams": "base protocol schemas client serde spark pipelines web",
    "sql": "base protocol schemas client serde streams pipelines web",
    "pipelines": "base protocol schemas client serde spark",
    "connect": "base metrics protocol schemas client serde spark web",
    "web": "base metrics",
    "registry": "base metrics protocol schemas client web",
    "rest": "base metrics protocol schemas security client serde web",
    "mirror": "base protocol security client",
    "backup": "base protocol security client mirror",
    "reports": "base protocol client",
    "console": "base protocol schemas security client serde web reports sql",
    "cli": "base protocol schemas security client cluster node importing web registry serde spark pipelines "
    "streams connect sql rest mirror backup reports console metrics",
    "testing": "*",
}
#: The one exception to the table: a tool that reads files of a stopped broker has no broker to ask.
READS_FILES = {
    "cli/kafka_tools/dump_log.py",
    "cli/kafka_tools/records/record_decoders.py",
    "cli/kafka_tools/records/group_record_decoders.py",
    "cli/commands/local/doctor.py",
    "cli/commands/local/log.py",
    "cli/commands/local/log_checks.py",
    "cli/commands/local/log_import.py",
    "cli/reports/log_charts.py",
    "cli/log_target.py",
    "cli/data_directory.py",
}

#: Where an outside library, or a module that touches the outside, may be used.
ONLY_IN = {
    "click": "cli",
    "rich": "cli",
    "orjson": "rest",
    "sqlglot": "sql",
    "sqlite3": "cluster/store connect/connectors/jdbc/sqlite.py",
    "kazoo": "cluster/store/zookeeper cli/kafka_tools/clusters/zookeeper_shell.py",
    "uvloop": "base cli",
    "cramjam": "protocol/compression.py",
    "crc32c": "protocol storage",
    "time": "base/clock.py cli",
    "random": "node.py testing cli pipelines/demo/shop.py connect/connectors/generator/values.py "
    "connect/connectors/cdc/mysql.py",
    "socket": "broker client node.py cli testing web/server.py cluster/store/zookeeper/server.py "
    "connect/config/hosts.py connect/connectors/cdc/mysql_wire.py connect/connectors/syslog/source.py "
    "spark/session/prefork_client.py spark/session/prefork_server.py",
    "starlette": "web",
    "uvicorn": "web",
    "httpx": "web/forwarding.py",
    "threading": "testing node.py storage cluster/store client/transport/background_loop.py "
    "broker/bounds/watchdog.py client/transport/bearer_token.py "
    "spark/session/prefork_server.py schemas/worker_process.py client/registry/schema_registry.py "
    "pipelines/metrics_server.py streams/runner/host.py streams/runner/http_queries.py "
    "connect/connectors/cdc/mysql_wire.py connect/connectors/http/listening.py "
    "connect/connectors/syslog/source.py",
    "pyspark": "spark pipelines streams/runner",
    "numba": "spark/kernels/records.py spark/read/decoding.py spark/kernels/avro.py",
    "pyarrow": "spark streams/runner console/downloads.py",
    "mcp": "console/assistant.py",
    "grpc_tools": "schemas/protoc_worker.py",
    "jsonschema_rs": "serde",
    "numpy": "spark streams/runner",
}
IMPURE = {"asyncio", "os", "socket", "threading", "time", "random", "ssl", "sqlite3"}
PURE = [
    "metrics",
    "protocol",
    "security/acls.py",
    "security/authorizer.py",
    "security/delegation_tokens.py",
    "security/jaas.py",
    "security/principals.py",
    "security/quotas.py",
    "security/sasl",
    "security/scram.py",
    "coordinators/shard.py",
    "base/re2",
    "coordinators/groups",
    "coordinators/transactions",
    "base/names.py",
    "base/times.py",
    "base/settings.py",
    "cluster/records.py",
    "cluster/image.py",
    "cluster/security_image.py",
    "cluster/controller/security.py",
    "cluster/configs/listener_settings.py",
    "cluster/controller/commands.py",
    "cluster/controller/topics.py",
    "cluster/controller/placement.py",
    "cluster/controller/elections.py",
    "cluster/store/zookeeper/tree.py",
    "cluster/store/zookeeper/settings.py",
    "cluster/controller/isr_changes.py",
    "cluster/controller/leader_elections.py",
    "cluster/controller/mirrors.py",
    "cluster/controller/reassignments.py",
    "cluster/configs/descriptions.py",
    "cluster/configs/topic_configs.py",
    "cluster/configs/broker_configs.py",
    "cluster/configs/layers.py",
    "cluster/controller/config_changes.py",
    "cluster/configs/listeners.py",
    "cluster/configs/broker_settings.py",
    "cluster/configs/without_effect.py",
    "replication/partition.py",
    "replication/links/peer_security.py",
    "registry/records.py",
    "registry/errors.py",
    "registry/subjects.py",
    "registry/state.py",
    "registry/decisions.py",
    "registry/api/openapi.py",
    "rest/problems.py",
    "rest/formats.py",
    "rest/api/openapi.py",
    "rest/consumers/settings.py",
    "rest/consumers/subscription.py",
    "web/problems.py",
    "web/routes.py",
    "web/openapi.py",
    "web/media_types.py",
    "web/limits.py",
    "web/json_text.py",
    "web/rates.py",
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
    "backup/manifest.py",
    "reports/cluster_why.py",
    "reports/findings.py",
    "mirror/rebatching.py",
    "mirror/rules",
    "console/decoding.py",
    "console/expression.py",
    "console/seen/history.py",
    "console/markup/html.py",
    "console/markup/layout.py",
    "console/masks.py",
    "console/naming.py",
    "console/seen/statuses.py",
    "console/oidc/flow.py",
    "console/oidc/id_token.py",
    "console/typed.py",
    "console/markup/graphs.py",
    "console/markup/plots.py",
    "console/markup/words.py",
    "connect/compatibility.py",
    "connect/config/definition.py",
    "connect/config/enrichment.py",
    "connect/config/framework.py",
    "connect/config/regex.py",
    "connect/config/validation.py",
    "connect/config/validators.py",
    "connect/converters",
    "connect/data",
    "connect/errors.py",
    "connect/records.py",
    "connect/transforms",
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
    "streams/engine",
    "streams/topology",
    "streams/dsl",
    "streams/internal_topics.py",
    "streams/runner/changelogs.py",
    "streams/runner/layout.py",
    "streams/runner/orders.py",
    "streams/runner/record_codecs.py",
    "streams/runner/saved_state.py",
    "streams/runner/stream_task.py",
    "streams/runner/why.py",
    "streams/test_driver.py",
    "broker/fetch_sessions.py",
    "broker/access/asks.py",
    "broker/access/authorized_operations.py",
    "storage/log/validation.py",
    "storage/log/producer_state.py",
    "storage/log/config.py",
]

# --- sizes and names --------------------------------------------------------------------------------

FORBIDDEN_NAMES = {"utils.py", "helpers.py", "common.py", "misc.py"}
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_MODULES_IN_A_FOLDER = 20
#: Folders that are a list of Kafka's APIs, one file for each, and have no other order.
LONG_FOLDERS = {"protocol/messages", "broker/apis"}

# --- the mirror: src/moldau/a/b.py is tested by tests/a/test_b.py ------------------------------------

#: Folders of tests that are about the whole, and follow no package.
OTHER_FOLDERS = {
    "benchmarks",
    "conformance",
    "contract",
    "data",
    "docs",
    "cluster_faults",
    "cluster_simulation",
    "integration",
    "operations",
    "shared",
    "simulation",
    "soak",
}
#: Tests in a mirrored folder that are about several modules, and what they are about.
CROSS_CUTTING = {
    "cli/kafka_tools/clusters/test_transcripts": "tools of several folders on one cluster, as Kafka's print",
    "cli/kafka_tools/clusters/test_zookeeper_transcript": "zookeeper-shell on three whole brokers",
    "security/test_play": "the whole broker against the table of a real one",
    "broker/apis/test_fetch_news": "two leaders, whole but for sockets, to whom the same happens",
    "broker/test_bad_directories": "a whole broker on damaged directories",
    "broker/test_bad_input": "a whole broker and frames that make no sense",
    "spark/test_secured": "logins of the source and the sink, in a real Spark",
    "broker/test_buffer_isolation": "a whole broker and connections that break off",
    "cluster/store/zookeeper/test_security": "logins and TLS at a real ZooKeeper",
    "broker/test_full_disk": "a whole broker on a disk that is full",
    "broker/test_lost_files": "a whole broker whose files are gone",
    "broker/test_few_descriptors": "a whole broker with few file descriptors",
    "broker/test_bad_surroundings": "a whole broker when memory, files or peers fail it",
    "broker/apis/test_large_requests": "every API, asked as a small and as a large request",
    "cli/kafka_tools/performance/test_perf_tools": "both perf tools",
    "cli/kafka_tools/test_transcripts": "every tool against transcripts of Kafka's own",
    "client/test_page": "the page of the documentation",
    "connect/connectors/test_kills": "a worker with many connectors, killed again and again",
    "connect/worker/test_hostile": "configurations that want more than connectors may have",
    "connect/test_examples": "the examples of connectors",
    "connect/test_page": "the page of the documentation",
    "console/oidc/test_real_provider": "the whole login with a real provider",
    "console/test_browser": "the whole console in a real browser",
    "connect/test_vectors": "transforms and converters against results of Apache's own classes",
    "cluster/test_replay": "image, records and store over random histories",
    "coordinators/groups/consumer/test_replay": "consumer groups against captured answers of a real broker",
    "coordinators/groups/test_replay": "classic groups against captured answers of a real broker",
    "coordinators/transactions/test_last_epoch": "the whole coordinator where epochs end",
    "coordinators/transactions/test_replay": "the whole coordinator, loaded again from its log",
    "coordinators/transactions/test_transaction_moves": "one transactional id as a value, move by move",
    "coordinators/transactions/test_traps": "the whole coordinator where others have failed",
    "coordinators/transactions/test_two_phase_commit": "the whole coordinator with prepared transactions",
    "mirror/test_cuts": "a mirror whose connections break under load",
    "mirror/test_kills": "a mirror in a process of its own, killed under load",
    "mirror/test_security": "flows and commands between clusters with TLS and logins",
    "pipelines/test_examples": "the examples of the documentation",
    "pipelines/test_processes": "pipelines in processes of their own",
    "pipelines/test_with_spark": "pipelines on a real Spark",
    "protocol/test_fuzz": "every message, with random values and random bytes",
    "registry/test_broker_validation": "broker and registry together",
    "registry/test_confluent": "the registry with Confluent's own client",
    "registry/test_golden_cases": "the rules against captured answers of a real registry",
    "replication/test_retention": "retention from the settings to the files",
    "rest/api/v3/test_several_brokers": "v3 of the REST proxy and a cluster of several brokers",
    "rest/test_fuzz": "the whole REST proxy and requests that are damaged at random",
    "rest/test_hostile": "the whole REST proxy and requests that mean harm",
    "rest/test_interoperation": "the REST proxy and Confluent's own client together",
    "rest/test_page": "the page of the documentation",
    "serde/test_catalogue": "every serializer over one catalogue of schemas",
    "serde/test_interoperation": "our serializers and Confluent's together",
    "serde/test_page": "the page of the documentation",
    "spark/jvm/test_columnar_with_spark": "shared columns on a real Spark",
    "spark/query/test_numbered_jobs": "query names and jobs on a real Spark",
    "spark/read/test_decode": "the fast decoder and the plain one give the same",
    "spark/session/test_imports": "what a worker imports",
    "spark/test_reading_and_writing": "the source without Spark",
    "spark/test_with_spark": "the source on a real Spark",
    "spark/typed/test_reading": "every format, read",
    "spark/typed/test_with_spark": "every format on a real Spark",
    "spark/write/test_exactly_once_kills": "exactly once while processes are killed",
    "sql/test_examples": "the examples in SQL",
    "sql/test_one_result": "batches and streams of random queries",
    "sql/server/test_with_spark": "a query from CREATE over HTTP to its rows on a real Spark",
    "streams/runner/test_with_spark": "streams applications on a real Spark and a real broker",
    "streams/test_examples": "the examples of streams",
    "streams/test_page": "the page of the documentation",
    "streams/test_plain_semantics": "five rules, with and without them",
    "streams/test_more_answers": "what Kafka Streams answered beyond the vectors",
    "streams/test_batches": "runs that are cut into batches, saved, crashed and taken over",
    "streams/test_vectors": "what Kafka Streams gives for small programs",
    "storage/branches/test_fork_compaction": "forks and the cleaner together",
    "storage/branches/test_fork_crash": "forks and crashes",
    "storage/branches/test_fork_model": "forks against a model",
    "storage/branches/test_sharing": "segments that several topics share",
    "storage/compaction/test_cleaner_crash": "the cleaner and crashes",
    "storage/compaction/test_cleaner_model": "the cleaner against a model",
    "storage/log/test_crash": "a log and crashes at every step",
    "storage/log/test_damage": "damage of every kind, and what recovery makes of it",
    "storage/log/test_model": "a log against a model",
    "storage/log/test_random_crashes": "a log and crashes at random",
    "testing/test_examples": "the examples of the documentation",
    "testing/test_fork": "forks of topics for tests",
    "testing/test_rewriting": "pytest keeps its hands off the broker's modules",
}
#: Packages whose modules each have a test of the same name.
MIRRORED = {
    "base",
    "broker",
    "client",
    "cluster",
    "coordinators",
    "inspection",
    "metrics",
    "protocol",
    "registry",
    "replication",
    "schemas",
    "storage",
    "web",
}
#: Modules of these packages without one, and the test that covers them. Keep it short.
WITHOUT_TEST_OF_ITS_OWN = {
    "broker/apis/branch_partitions": "broker/test_branch_steps",
    "broker/access/answers": "broker/access/test_throttling",
    "broker/monitoring/cluster_sources": "broker/monitoring/test_monitoring",
    "broker/monitoring/log_sources": "broker/monitoring/test_monitoring",
    "broker/monitoring/monitored": "broker/monitoring/test_monitoring",
    "broker/monitoring/otlp_export": "broker/monitoring/test_monitoring",
    "broker/monitoring/process_sources": "broker/monitoring/test_monitoring",
    "broker/monitoring/server_sources": "broker/monitoring/test_monitoring",
    "broker/monitoring/telemetry": "broker/apis/test_push_telemetry",
    "coordinators/journal": "coordinators/test_runtime",
    "metrics/connect_metrics": "docs/test_deploy",
    "metrics/lag_metrics": "docs/test_deploy",
    "metrics/mirror_metrics": "docs/test_deploy",
    "metrics/service_metrics": "docs/test_deploy",
    "cluster/configs/monitoring_configs": "broker/monitoring/test_monitoring",
    "broker/access/asks": "broker/access/test_gate",
    "broker/access/guarding": "broker/access/test_throttling",
    "broker/access/entrances": "broker/access/test_tls",
    "broker/access/connection_limits": "broker/test_server",
    "cluster/configs/security_configs": "cluster/configs/test_broker_settings",
    "broker/apis/add_raft_voter": "broker/apis/test_update_features",
    "broker/apis/remove_raft_voter": "broker/apis/test_update_features",
    "broker/apis/create_delegation_token": "broker/access/test_delegation_tokens",
    "broker/apis/describe_delegation_token": "broker/access/test_delegation_tokens",
    "broker/apis/expire_delegation_token": "broker/access/test_delegation_tokens",
    "broker/apis/renew_delegation_token": "broker/access/test_delegation_tokens",
    "broker/apis/delete_acls": "broker/apis/test_create_acls",
    "broker/apis/describe_acls": "broker/apis/test_create_acls",
    "broker/apis/describe_client_quotas": "broker/apis/test_alter_client_quotas",
    "broker/apis/describe_user_scram_credentials": "broker/apis/test_alter_user_scram_credentials",
    "broker/apis/sasl_authenticate": "broker/access/test_authentication",
    "broker/apis/sasl_handshake": "broker/access/test_authentication",
    "broker/apis/allocate_producer_ids": "broker/test_controller_requests",
    "broker/apis/alter_partition": "broker/test_controller_requests",
    "broker/apis/broker_heartbeat": "broker/test_controller_requests",
    "broker/apis/broker_registration": "broker/test_controller_requests",
    "broker/apis/envelope": "broker/test_forwarding",
    "broker/apis/alter_partition_reassignments": "broker/apis/test_elect_leaders",
    "broker/apis/list_partition_reassignments": "broker/apis/test_elect_leaders",
    "broker/apis/unregister_broker": "broker/apis/test_elect_leaders",
    "broker/apis/describe_quorum": "broker/apis/test_elect_leaders",
    "broker/apis/cut_mirror": "broker/apis/test_mirror_batches",
    "broker/apis/raise_leader_epochs": "broker/apis/test_mirror_batches",
    "client/admin/replicas": "cli/kafka_tools/clusters/test_reassign_partitions",
    "cluster/store/zookeeper/connection": "cluster/store/zookeeper/test_store",
    "cluster/store/zookeeper/server": "cluster/store/zookeeper/test_store",
    "broker/coordination/group_requests": "broker/apis/test_describe_groups",
    "broker/coordination/markers": "broker/apis/test_write_txn_markers",
    "client/admin/access": "cli/kafka_tools/access/test_acls",
    "client/consumer/fetcher": "client/consumer/test_consumer",
    "client/consumer/raw_reader": "client/snapshots/test_snapshots",
    "client/groups/classic_membership": "client/groups/test_group_consumer",
    "client/groups/offset_resets": "cli/commands/data/test_groups",
    "client/groups/coordinator_connection": "client/groups/test_group_consumer",
    "client/producer/sender": "client/producer/test_producer",
    "client/replicated_state/fenced_writer": "client/replicated_state/test_replicated_state",
    "coordinators/groups/classic/membership": "coordinators/groups/classic/test_group",
    "coordinators/groups/classic/rebalance": "coordinators/groups/classic/test_group",
    "coordinators/groups/consumer/classic_members": "coordinators/groups/test_migration",
    "coordinators/groups/consumer/consumer_groups": "coordinators/groups/consumer/test_group",
    "coordinators/groups/consumer/group_update": "coordinators/groups/consumer/test_group",
    "coordinators/groups/consumer/heartbeat": "coordinators/groups/consumer/test_group",
    "coordinators/groups/environment": "coordinators/groups/test_shard",
    "coordinators/groups/group": "coordinators/groups/test_shard",
    "coordinators/shard": "coordinators/test_runtime",
    "registry/api/call": "registry/api/test_app",
    "registry/api/resources": "registry/api/test_app",
    "registry/api/routes": "registry/api/test_app",
    "registry/decisions": "registry/test_state",
    "registry/server": "registry/test_service",
    "schemas/json_schema/parse": "registry/test_schemas",
    "schemas/protobuf/schema": "registry/rules/test_protobuf",
    "schemas/protoc_worker": "schemas/test_protoc",
    "registry/worker": "registry/test_workers",
    "storage/branches/branch": "storage/branches/test_forking",
    "storage/branches/restoring": "replication/test_branching",
    "storage/compaction/cleaner_process": "storage/compaction/test_cleaner_worker",
    "storage/compaction/cleaning": "storage/compaction/test_log_cleaner",
    "storage/log/replay": "storage/log/test_recovery",
    "storage/log/segments": "storage/log/test_log",
}
#: Folders of which one test covers all modules alike.
COVERED_AS_A_WHOLE = {"protocol/messages": "protocol/test_messages"}


@dataclass(frozen=True, slots=True)
class Module:
    """What is checked of one file of the code."""

    path: str
    docstring: str | None
    line_count: int
    #: The names that it imports, anywhere in it, and those that it imports when it is loaded.
    imports: tuple[str, ...]
    imports_when_loaded: tuple[str, ...]
    #: Functions and methods with their number of lines.
    functions: tuple[tuple[str, int], ...]

    @property
    def package(self) -> str:
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def name(self) -> str:
        return self.path.removesuffix(".py")


def parsed(source: str) -> ast.Module:
    """CPython 3.11 fails where another thread or the collector makes a tree at the same time (gh-106905)."""
    while True:
        try:
            return ast.parse(source)
        except SystemError:
            continue


@cache
def modules() -> tuple[Module, ...]:
    """Parses every file once; without the collector, which would look at all of the trees again and again."""
    gc.disable()
    try:
        return tuple(read_module(path) for path in sorted(ROOT.rglob("*.py")))
    finally:
        gc.enable()


def read_module(path: Path) -> Module:
    source = path.read_text()
    tree = parsed(source)
    every = list(statements(tree.body))
    return Module(
        path.relative_to(ROOT).as_posix(),
        ast.get_docstring(tree) if tree.body else "empty",
        source.count("\n"),
        tuple(imported(every)),
        tuple(imported(tree.body)),
        tuple(
            (each.name, (each.end_lineno or 0) - each.lineno)
            for each in every
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
    )


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All statements, also those inside others; expressions hold neither imports nor functions."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, part, None)
            if isinstance(inner, list):
                yield from statements(inner)


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def within(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(place.rstrip("/") + "/") for place in places)


def none_of(problem: str, found: Iterable[str]) -> None:
    """Fails with all that was found, one in a line."""
    lines = sorted(found)
    assert not lines, "\n  ".join([f"{problem}:", *lines])


# --- imports ----------------------------------------------------------------------------------------


def test_packages_import_only_what_is_below_them() -> None:
    doors = defaultdict(list)
    for module in modules():
        allowed = BELOW[module.package].split()
        if module.path in READS_FILES:
            allowed += ["storage", "inspection", "coordinators"]
        for name in module.imports:
            target = name.removeprefix("moldau.").split(".")[0]
            if not name.startswith("moldau.") or target == module.package or allowed == ["*"]:
                continue
            if target not in allowed:
                doors[module.package, target].append(f"{module.path} imports {name}")
    none_of(
        "doors between packages that the table BELOW does not have",
        (
            f"{package} -> {target}:\n      " + "\n      ".join(places)
            for (package, target), places in doors.items()
        ),
    )


def test_the_table_of_packages_names_what_there_is() -> None:
    there = {module.package for module in modules()}
    none_of("packages without a line in BELOW", there - BELOW.keys())
    none_of("lines of BELOW without a package", BELOW.keys() - there)
    listed = {*READS_FILES, *PURE, *(place for places in ONLY_IN.values() for place in places.split())}
    files = (place for place in listed if "/" in place or place.endswith(".py"))
    none_of("listed, but not there", (place for place in files if not (ROOT / place).exists()))


def test_outside_libraries_stay_in_their_package() -> None:
    none_of(
        "libraries that are used outside of their places (ONLY_IN)",
        (
            f"{module.path} imports {name}"
            for module in modules()
            for name in module.imports
            if (places := ONLY_IN.get(name.split(".")[0])) is not None
            and not within(module.path, places.split())
        ),
    )


def test_pure_files_touch_no_clock_disk_or_network() -> None:
    none_of(
        "pure files that import what touches the outside",
        (
            f"{module.path} imports {name}"
            for module in modules()
            for name in module.imports
            if name.split(".")[0] in IMPURE and within(module.path, PURE)
        ),
    )


def test_no_cycle_between_modules() -> None:
    """Of imports that run when a module is loaded; those inside functions and type checks make no cycle."""
    graph = {
        "moldau." + module.name.removesuffix("/__init__").replace("/", "."): {
            name for name in module.imports_when_loaded if name.startswith("moldau.")
        }
        for module in modules()
    }
    tuple(graphlib.TopologicalSorter(graph).static_order())


# --- sizes, names, docstrings -----------------------------------------------------------------------


def test_files_and_folders_are_not_too_large() -> None:
    none_of(
        f"files of more than {MAX_FILE_LINES} lines",
        (f"{each.path}: {each.line_count}" for each in modules() if each.line_count > MAX_FILE_LINES),
    )
    paths = [PurePosixPath(module.path) for module in modules()]
    sizes = Counter(path.parent.as_posix() for path in paths if path.name != "__init__.py")
    none_of(
        f"folders of more than {MAX_MODULES_IN_A_FOLDER} modules",
        (
            f"{folder}: {size}"
            for folder, size in sizes.items()
            if size > MAX_MODULES_IN_A_FOLDER and folder not in LONG_FOLDERS
        ),
    )


def test_functions_are_not_too_long() -> None:
    none_of(
        f"functions of {MAX_FUNCTION_LINES} lines or more",
        (
            f"{module.path}: {function} has {length}"
            for module in modules()
            for function, length in module.functions
            if length >= MAX_FUNCTION_LINES
        ),
    )


def test_no_file_has_a_name_that_says_nothing() -> None:
    none_of(
        "files with names that say nothing",
        (module.path for module in modules() if module.path.split("/")[-1] in FORBIDDEN_NAMES),
    )


def test_every_file_says_what_it_does() -> None:
    none_of(
        "files without a docstring that says what they do",
        (module.path for module in modules() if not module.docstring),
    )


# --- the mirror -------------------------------------------------------------------------------------


def mirrored_tests() -> set[str]:
    """Tests of packages, as ``broker/test_server``."""
    paths = (path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))
    return {
        path.with_suffix("").as_posix()
        for path in paths
        if len(path.parts) > 1 and path.parts[0] not in OTHER_FOLDERS
    }


def test_of(module: str) -> str:
    """``broker/server`` is tested by ``broker/test_server``."""
    path = PurePosixPath(module)
    return (path.parent / f"test_{path.name}").as_posix()


test_of.__test__ = False  # type: ignore[attr-defined]


def namesakes() -> set[str]:
    """Every test that a module or a package could have."""
    paths = [PurePosixPath(module.path).with_suffix("") for module in modules()]
    folders = {parent.as_posix() for path in paths for parent in path.parents if parent.name}
    return {test_of(each) for each in folders | {path.as_posix() for path in paths}}


def test_folders_of_tests_are_folders_of_the_code() -> None:
    folders = {PurePosixPath(test).parent.as_posix() for test in mirrored_tests()}
    none_of(
        "folders of tests without a package of that name (move them, or list them in OTHER_FOLDERS)",
        (folder for folder in folders if not (ROOT / folder).is_dir()),
    )
    gone = (folder for folder in OTHER_FOLDERS if not (TESTS / folder).is_dir())
    none_of("OTHER_FOLDERS that are not there", gone)


def test_tests_import_each_other_by_whole_names() -> None:
    """A folder on ``sys.path`` makes two files of one name one module, whichever was imported first."""
    bad = []
    for path in TESTS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            bad += [f"{path}: {name}" for name in names if (path.parent / f"{name}.py").exists()]
    assert not bad, "import it as tests.<folder>.<file>:\n" + "\n".join(bad)


def test_every_test_has_a_module_of_its_name() -> None:
    strays = mirrored_tests() - namesakes()
    none_of(
        "tests without a module of that name (rename them, or list them in CROSS_CUTTING)",
        strays - CROSS_CUTTING.keys(),
    )
    none_of(
        "CROSS_CUTTING tests that are not there, or have a module of that name",
        CROSS_CUTTING.keys() - strays,
    )


def test_every_module_has_a_test_of_its_name() -> None:
    tests = mirrored_tests()
    missing = {
        module.name
        for module in modules()
        if module.package in MIRRORED
        and not module.path.endswith("__init__.py")
        and not within(module.path, COVERED_AS_A_WHOLE)
        and test_of(module.name) not in tests
    }
    none_of(
        "modules without a test of that name (write one, or list what covers it in WITHOUT_TEST_OF_ITS_OWN)",
        missing - WITHOUT_TEST_OF_ITS_OWN.keys(),
    )
    none_of(
        "WITHOUT_TEST_OF_ITS_OWN names what is not there, or has a test of its own by now",
        WITHOUT_TEST_OF_ITS_OWN.keys() - missing,
    )
    covering = {*WITHOUT_TEST_OF_ITS_OWN.values(), *COVERED_AS_A_WHOLE.values()}
    none_of(
        "covering tests that are not there",
        (test for test in covering if not (TESTS / f"{test}.py").is_file()),
    )


# --- the table of APIs ------------------------------------------------------------------------------


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
