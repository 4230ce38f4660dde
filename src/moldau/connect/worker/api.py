"""The worker's REST: Kafka Connect's paths, bodies, codes and messages.

Better on purpose: a body that is no JSON, or has another shape than it must, is 400 with the reason, and a
name may have any characters in a path.
"""

import json
import re
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

from moldau.base.clock import Clock, SystemClock
from moldau.connect.config.validation import definition_node, definition_of
from moldau.connect.data.types import Int32
from moldau.connect.errors import ConfigException
from moldau.connect.worker import connector_offsets as offsets
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.loggers import LEVELS, ROOT, Loggers
from moldau.connect.worker.state import Target, levelled
from moldau.connect.worker.store import Health
from moldau.connect.worker.worker_metrics import WorkerMetrics
from moldau.web.application import Application, Service
from moldau.web.authentication import Authenticate, anybody
from moldau.web.call import Asked, Call
from moldau.web.forwarding import Forwarding
from moldau.web.limits import Limits
from moldau.web.openapi import Description
from moldau.web.problems import ERROR_CODE_AND_MESSAGE_SCHEMA, Problem, http_problem
from moldau.web.routes import Answer, Route, RouteTable, flag, text

VERSION = "4.3.0"
_INITIAL_STATES = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}


class WorkerCall(Call):
    def __init__(self, herder: Herder, loggers: Loggers, asked: Asked) -> None:
        super().__init__(asked)
        self.herder = herder
        self.loggers = loggers

    @property
    def name(self) -> str:
        return self.parameters["connector"]

    @property
    def task(self) -> int:
        number = self.parameters["task"]
        if not re.fullmatch(r"-?\d{1,10}", number) or not Int32.holds(int(number)):
            raise http_problem(404)
        return int(number)

    async def body_of_texts(self) -> dict[str, Any]:
        """The body with its numbers as texts, to the letter."""
        await self.body()  # which refuses what is no object
        found: dict[str, Any] = json.loads(await self.raw_body(), parse_float=str, parse_int=str)
        return found

    async def config(self) -> dict[str, str | None]:
        """A body that is a configuration: texts by name, where numbers and booleans count as texts."""
        return config_of(await self.body_of_texts())


def config_of(body: Any) -> dict[str, str | None]:
    if not isinstance(body, dict):
        raise http_problem(400, "A configuration is an object of texts")
    config: dict[str, str | None] = {}
    for name, value in body.items():
        if isinstance(value, dict | list):
            raise http_problem(400, f"The value of {name} is no text")
        if isinstance(value, bool):
            value = "true" if value else "false"
        config[name] = None if value is None else str(value)
    return config


# --- the worker ---------------------------------------------------------------------------------------


async def root(call: WorkerCall) -> Any:
    return {"version": VERSION, "commit": "moldau", "kafka_cluster_id": call.herder.cluster.cluster_id}


_HEALTH = {
    Health.HEALTHY: (200, "Worker has completed startup and is ready to handle requests."),
    Health.STARTING: (503, "Worker is still starting up."),
    Health.UNHEALTHY: (
        500,
        "Worker was unable to handle this request and may be unable to handle other requests.",
    ),
}


async def health(call: WorkerCall) -> Any:
    found = call.herder.store.health
    status, message = _HEALTH[found]
    return Answer({"status": found.value, "message": message}, status)


# --- connectors ---------------------------------------------------------------------------------------


async def list_connectors(call: WorkerCall) -> Any:
    expand = call.texts("expand")
    if not expand:
        return call.herder.names()
    shown: dict[str, Any] = {}
    for name in call.herder.names():
        found: dict[str, Any] = {}
        with suppress(Problem):  # of a connector that is being made or deleted there is no status
            if "status" in expand:
                found["status"] = call.herder.status(name)
            if "info" in expand:
                found["info"] = call.herder.info(name)
            shown[name] = found
    return shown


async def create_connector(call: WorkerCall) -> Any:
    body = await call.body_of_texts()
    unknown = body.keys() - {"name", "config", "initial_state"}
    if unknown:
        raise http_problem(
            400, f"Unrecognized field {min(unknown)!r}: there are name, config and initial_state"
        )
    if body.get("config") is None:
        raise http_problem(400, "A connector needs a config")
    config = config_of(body["config"])
    name = _name(body.get("name"), config)
    config["name"] = config.pop("name", name)
    answer = await call.herder.create(name, config, _initial_state(body.get("initial_state")))
    return Answer(answer, 201, (("Location", _location(call, name)),))


def _name(given: object, config: dict[str, str | None]) -> str:
    """The name of a new connector; one in its config has to be the same."""
    if given is not None and not isinstance(given, str):
        raise http_problem(400, "The name of a connector is a text")
    name = (given or "").strip()
    inside = config.get("name")
    if inside is not None and inside != name:
        raise http_problem(
            400, f"Connector name configuration ({inside}) doesn't match connector name in the URL ({name})"
        )
    return name


def _initial_state(given: object) -> Target:
    if given is None:
        return Target.STARTED
    found = _INITIAL_STATES.get(str(given).upper())
    if found is None:
        raise http_problem(400, f"{given} is no initial state: there are RUNNING, PAUSED and STOPPED")
    return found


def _location(call: WorkerCall, name: str) -> str:
    return str(call.request.url.replace(path="/connectors/" + quote(name, safe=""), query=""))


async def read_connector(call: WorkerCall) -> Any:
    return call.herder.info(call.name)


async def read_config(call: WorkerCall) -> Any:
    return call.herder.config(call.name)


async def put_config(call: WorkerCall) -> Any:
    config = await call.config()
    _name(call.name, config)
    new, answer = await call.herder.put_config(call.name, {**config, "name": call.name})
    headers = (("Location", _location(call, call.name)),) if new else ()
    return Answer(answer, 201 if new else 200, headers)


async def patch_config(call: WorkerCall) -> Any:
    return await call.herder.patch_config(call.name, await call.config())


async def read_status(call: WorkerCall) -> Any:
    return call.herder.status(call.name)


async def read_tasks(call: WorkerCall) -> Any:
    return call.herder.tasks(call.name)


async def read_task_status(call: WorkerCall) -> Any:
    return call.herder.task_status(call.name, call.task)


async def delete_connector(call: WorkerCall) -> Any:
    await call.herder.delete(call.name)
    return Answer(None, 204)


async def _set_target(call: WorkerCall, *, target: Target, status: int) -> Any:
    await call.herder.set_target(call.name, target)
    return Answer(None, status)


async def restart_connector(call: WorkerCall) -> Any:
    answer = await call.herder.restart(call.name, call.flag("includeTasks"), call.flag("onlyFailed"))
    return Answer(None, 204) if answer is None else Answer(answer, 202)


async def restart_task(call: WorkerCall) -> Any:
    await call.herder.restart_task(call.name, call.task)
    return Answer(None, 204)


def _require_tracking(call: WorkerCall, *, reset: bool = False) -> None:
    if not call.herder.worker.topic_tracking:
        raise http_problem(403, "Topic tracking is disabled.")
    if reset and not call.herder.worker.topic_tracking_reset:
        raise http_problem(403, "Topic tracking reset is disabled.")


async def read_topics(call: WorkerCall) -> Any:
    _require_tracking(call)
    return {call.name: {"topics": call.herder.statuses.topics(call.name)}}


async def reset_topics(call: WorkerCall) -> Any:
    _require_tracking(call, reset=True)
    call.herder.statuses.reset_topics(call.name)
    return Answer(None, 202)


async def read_offsets(call: WorkerCall) -> Any:
    return await offsets.read_offsets(call.herder, call.name)


async def alter_offsets(call: WorkerCall) -> Any:
    body = await call.body()
    unknown = body.keys() - {"offsets"}
    if unknown:
        raise http_problem(400, f"Unrecognized field {min(unknown)!r}: there is offsets")
    return await offsets.alter_offsets(call.herder, call.name, body)


async def reset_offsets(call: WorkerCall) -> Any:
    return await offsets.reset_offsets(call.herder, call.name)


async def put_tasks(call: WorkerCall) -> Any:
    """Workers of Apache's tell each other of tasks here; ours have no need to."""
    if call.herder.store.shared:
        raise http_problem(400, "Internal request missing required signature")
    raise http_problem(
        500, "Kafka Connect in standalone mode does not support externally setting task configurations."
    )


async def fence(call: WorkerCall) -> Any:
    if call.herder.store.shared:
        raise http_problem(400, "Internal request missing required signature")
    raise http_problem(
        500, "Kafka Connect in standalone mode does not support exactly-once source connectors."
    )


# --- plugins ------------------------------------------------------------------------------------------


async def list_plugins(call: WorkerCall) -> Any:
    only = (call.text("connectorsOnly") or "true").lower() == "true"
    return [plugin.description() for plugin in call.herder.plugins.listed(only)]


async def read_plugin_config(call: WorkerCall) -> Any:
    name = call.parameters["plugin"]
    found = call.herder.plugins.plugin(name)
    if found is None:
        raise http_problem(404, f"Unknown plugin {name}.")
    wanted = call.text("version")
    if wanted is not None and wanted != found.version:
        raise http_problem(
            400,
            f"Plugin {name} not found that matches the version range [{wanted},{wanted}], available "
            f"versions: [{found.version}]",
        )
    connector = call.herder.plugins.connector(name)
    if connector is None:
        return [definition_node(key) for key in found.config]
    framework = [key for key in definition_of(connector) if key.name not in found.config]
    return [definition_node(key) for key in [*found.config, *framework]]


async def validate_config(call: WorkerCall) -> Any:
    config = await call.config()
    asked, given = call.parameters["plugin"], config.get("connector.class")
    if given is not None and not _without_suffix(given).endswith(_without_suffix(asked)):
        raise http_problem(400, f"Included connector type {given} does not match request type {asked}")
    try:
        return call.herder.validate(config).answer()
    except ConfigException as error:  # of a provider of secrets
        raise http_problem(400, error.message) from error
    except Problem as problem:
        prefix = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException: "
        raise http_problem(500, prefix + problem.message) from problem


def _without_suffix(name: str) -> str:
    return name.removesuffix("Connector") or name


# --- loggers ------------------------------------------------------------------------------------------


async def list_loggers(call: WorkerCall) -> Any:
    return {name: call.loggers.node(name) for name in [*call.loggers.names(), ROOT]}


async def read_logger(call: WorkerCall) -> Any:
    name = call.parameters["logger"]
    if not call.loggers.knows(name):
        raise http_problem(404, f"Logger {name} not found.")
    return call.loggers.node(name)


async def put_logger(call: WorkerCall) -> Any:
    """Sets a level here or, with ``scope=cluster``, on every worker."""
    name, given = call.parameters["logger"], (await call.body()).get("level")
    if given is None:
        raise http_problem(400, "Desired 'level' parameter was not specified in request.")
    level = str(given).upper()
    if level not in LEVELS:
        raise http_problem(404, f"invalid log level '{given}'.")
    if call.text("scope") != "cluster":
        return call.loggers.set_level(name, level)
    await call.herder.store.change(lambda: ([levelled(name, level)], None))
    return Answer(None, 204)


_CONNECTOR = "/connectors/{connector}"
ROUTES = RouteTable(
    [
        Route("GET", "/", root, "The worker's version and cluster"),
        Route("GET", "/health", health, "Whether the worker is well"),
        Route("GET", "/connectors", list_connectors, "List connectors", (text("expand"), text("connector"))),
        Route("POST", "/connectors", create_connector, "Create a connector", body="NewConnector", status=201),
        Route("GET", _CONNECTOR, read_connector, "Read a connector"),
        Route("DELETE", _CONNECTOR, delete_connector, "Delete a connector", status=204),
        Route("GET", f"{_CONNECTOR}/config", read_config, "Read a configuration"),
        Route("PUT", f"{_CONNECTOR}/config", put_config, "Create or change a connector", body="Config"),
        Route("PATCH", f"{_CONNECTOR}/config", patch_config, "Change some settings", body="Config"),
        Route("GET", f"{_CONNECTOR}/status", read_status, "Read what a connector does"),
        Route("GET", f"{_CONNECTOR}/tasks", read_tasks, "List tasks"),
        Route("POST", f"{_CONNECTOR}/tasks", put_tasks, "For workers of Apache's among themselves"),
        Route("PUT", f"{_CONNECTOR}/fence", fence, "For workers of Apache's among themselves"),
        Route("GET", f"{_CONNECTOR}/tasks/{{task}}/status", read_task_status, "Read what a task does"),
        Route("POST", f"{_CONNECTOR}/tasks/{{task}}/restart", restart_task, "Restart a task", status=204),
        Route(
            "POST",
            f"{_CONNECTOR}/restart",
            restart_connector,
            "Restart a connector",
            (flag("includeTasks"), flag("onlyFailed")),
            status=204,
        ),
        Route(
            "PUT",
            f"{_CONNECTOR}/pause",
            partial(_set_target, target=Target.PAUSED, status=202),
            "Pause a connector",
            status=202,
        ),
        Route(
            "PUT",
            f"{_CONNECTOR}/resume",
            partial(_set_target, target=Target.STARTED, status=202),
            "Resume a connector",
            status=202,
        ),
        Route(
            "PUT",
            f"{_CONNECTOR}/stop",
            partial(_set_target, target=Target.STOPPED, status=204),
            "Stop a connector",
            status=204,
        ),
        Route("GET", f"{_CONNECTOR}/topics", read_topics, "List topics that a connector uses"),
        Route("PUT", f"{_CONNECTOR}/topics/reset", reset_topics, "Forget those topics", status=202),
        Route("GET", f"{_CONNECTOR}/offsets", read_offsets, "Read offsets"),
        Route("PATCH", f"{_CONNECTOR}/offsets", alter_offsets, "Change offsets", body="Offsets"),
        Route("DELETE", f"{_CONNECTOR}/offsets", reset_offsets, "Reset offsets"),
        Route("GET", "/connector-plugins", list_plugins, "List plugins", (text("connectorsOnly"),)),
        Route(
            "GET",
            "/connector-plugins/{plugin}/config",
            read_plugin_config,
            "Read the settings of a plugin",
            (text("version"),),
        ),
        Route(
            "PUT",
            "/connector-plugins/{plugin}/config/validate",
            validate_config,
            "Check a configuration",
            body="Config",
        ),
        Route("GET", "/admin/loggers", list_loggers, "List loggers"),
        Route("GET", "/admin/loggers/{logger}", read_logger, "Read the level of a logger"),
        Route(
            "PUT",
            "/admin/loggers/{logger}",
            put_logger,
            "Set the level of a logger",
            (text("scope"),),
            body="Level",
        ),
    ]
)
_TEXTS = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
SCHEMAS: dict[str, Any] = {
    "Problem": ERROR_CODE_AND_MESSAGE_SCHEMA,
    "Config": _TEXTS,
    "NewConnector": {
        "type": "object",
        "required": ["name", "config"],
        "properties": {
            "name": {"type": "string"},
            "config": _TEXTS,
            "initial_state": {"type": "string", "enum": list(_INITIAL_STATES)},
        },
    },
    "Offsets": {
        "type": "object",
        "required": ["offsets"],
        "properties": {"offsets": {"type": "array", "items": {"type": "object"}}},
    },
    "Level": {"type": "object", "required": ["level"], "properties": {"level": {"type": "string"}}},
}
SERVICE = Service(
    Description("Moldau Connect", VERSION, schemas=SCHEMAS),
    ROUTES,
    body_types=("application/json",),
    answers_head=True,
)


def application(
    herder: Herder,
    *,
    authenticate: Authenticate = anybody,
    limits: Limits | None = None,
    forwarding: Forwarding | None = None,
    clock: Clock | None = None,
) -> Application:
    loggers = Loggers(clock or SystemClock())
    herder.store.on_level = loggers.learn_level
    made = Application(
        SERVICE,
        partial(WorkerCall, herder, loggers),
        authenticate=authenticate,
        limits=limits,
        forwarding=forwarding,
    )
    WorkerMetrics(herder).register(made.sources)
    return made
