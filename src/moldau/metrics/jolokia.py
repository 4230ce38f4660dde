"""Jolokia's protocol: MBeans over HTTP, as JSON. Read, list, search and version; one request, or many in
one POST.

Nothing can be written and nothing executed: what a broker's settings are is the business of its configs.

Invariant: a request that cannot be answered is answered with an error of its own; the others of the same
POST are not touched by it. Answers are made in steps, one for each MBean that is looked at, and what one POST
may get is bounded: anybody who reaches the port may ask.
"""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote

from moldau.metrics.mbeans import BadName, Found, MBeans, ObjectName, attribute_types

PROTOCOL = "7.2"
#: Requests in one POST, and MBeans in all of its answers: a broker with 10,000 partitions has 110,000.
_REQUESTS_MOST = 1000
MBEANS_MOST = 300_000

#: Pauses after every MBean; what it returns is the answer.
Steps: TypeAlias = Generator[None, None, Any]


class _Refused(Exception):
    def __init__(self, status: int, java: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.java = java


class _Budget:
    """How many MBeans the answers to one POST may still have."""

    def __init__(self) -> None:
        self._left = MBEANS_MOST

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            message = f"More than {MBEANS_MOST} MBeans in one answer: ask for fewer at a time"
            raise _Refused(400, "java.lang.IllegalArgumentException", message)


class Jolokia:
    def __init__(self, mbeans: MBeans, product: Mapping[str, str]) -> None:
        """``product``: vendor, product and version, as ``version`` shows them."""
        self._mbeans = mbeans
        self._product = dict(product)
        self._answers: dict[str, Callable[[Mapping[str, Any], float, _Budget], Steps]] = {
            "version": self._version,
            "read": self._read,
            "list": self._list,
            "search": self._search,
        }

    def get(self, path: str, query: Mapping[str, str], now: float, now_ms: int) -> Steps:
        """A GET; ``path`` is what follows ``/jolokia``, still percent-encoded."""
        return self._one(_from_path(path, query), now, now_ms, _Budget())

    def post(self, body: Any, now: float, now_ms: int) -> Steps:
        """A POST; ``body`` is the JSON that came."""
        budget = _Budget()
        if not isinstance(body, list):
            return (yield from self._one(body, now, now_ms, budget))
        if len(body) > _REQUESTS_MOST:
            message = f"{len(body)} requests in one POST; {_REQUESTS_MOST} are allowed"
            return _error({}, _Refused(400, "java.lang.IllegalArgumentException", message), now_ms)
        answers = []
        for each in body:
            answers += [(yield from self._one(each, now, now_ms, budget))]
        return answers

    def _one(self, request: Any, now: float, now_ms: int, budget: _Budget) -> Steps:
        asked = request if isinstance(request, dict) else {}
        try:
            kind = asked.get("type")
            if not isinstance(kind, str) or kind.lower() not in self._answers:
                raise _Refused(
                    400,
                    "java.lang.IllegalArgumentException",
                    f"No type with name '{kind}' exists here; there are {', '.join(self._answers)}",
                )
            value = yield from self._answers[kind.lower()](asked, now, budget)
        except _Refused as refusal:
            return _error(asked, refusal, now_ms)
        except BadName as error:
            malformed = _Refused(400, "javax.management.MalformedObjectNameException", str(error))
            return _error(asked, malformed, now_ms)
        return {
            "request": asked | {"type": kind.lower()},
            "value": value,
            "status": 200,
            "timestamp": now_ms // 1000,
        }

    # --- the four kinds of requests -------------------------------------------------------------

    def _version(self, asked: Mapping[str, Any], now: float, budget: _Budget) -> Steps:
        yield
        info = {"product": self._product["product"], "vendor": self._product["vendor"]}
        return {
            "agent": self._product["version"],
            "protocol": PROTOCOL,
            "info": info | {"version": self._product["version"]},
            "config": {"agentId": self._product["agent"], "agentType": "moldau"},
        }

    def _find(self, wanted: ObjectName, budget: _Budget) -> Generator[None, None, list[Found]]:
        found: list[Found] = []
        for each in self._mbeans.find(wanted):
            yield
            if each is not None:
                budget.take()
                found.append(each)
        return found

    def _search(self, asked: Mapping[str, Any], now: float, budget: _Budget) -> Steps:
        found = yield from self._find(ObjectName.parse(_text(asked, "mbean")), budget)
        canonical = _canonical(asked)
        return [name.written(canonical) for name, _, _ in found]

    def _read(self, asked: Mapping[str, Any], now: float, budget: _Budget) -> Steps:
        wanted = ObjectName.parse(_text(asked, "mbean"))
        names = _attributes(asked.get("attribute"))
        single = isinstance(asked.get("attribute"), str) and names is not None and len(names) == 1
        found: dict[str, Any] = {}
        for name, metrics, values in (yield from self._find(wanted, budget)):
            yield
            shown = self._mbeans.attributes(name, metrics, values, now)
            if names is not None:
                shown = {each: shown[each] for each in names if each in shown}
                if wanted.is_pattern and not shown:
                    continue
                missing = [each for each in names if each not in shown]
                if missing and not wanted.is_pattern:
                    message = f"No such attribute: {missing[0]}"
                    raise _Refused(404, "javax.management.AttributeNotFoundException", message)
            written = {each: _json(value) for each, value in shown.items()}
            if not wanted.is_pattern:
                return next(iter(written.values())) if single else written
            found[name.written(_canonical(asked))] = written
        if not found:
            what = "No MBean with attributes for pattern" if wanted.is_pattern else "No MBean"
            message = f"{what} {wanted.written(False)} found"
            raise _Refused(404, "javax.management.InstanceNotFoundException", message)
        return found

    def _list(self, asked: Mapping[str, Any], now: float, budget: _Budget) -> Steps:
        listed: dict[str, dict[str, Any]] = {}
        for name, metrics, _ in (yield from self._find(ObjectName("*", (), and_more=True), budget)):
            yield
            shown: dict[str, Any] = {}
            for metric in metrics.values():
                for each, java in attribute_types(metric).items():
                    shown[each] = {"rw": False, "type": java, "desc": metric.help}
            said = next(iter(metrics.values())).help
            entry = {"attr": shown, "class": "moldau.metrics", "desc": said}
            listed.setdefault(name.domain, {})[name.key_list(_canonical(asked))] = entry
        path = asked.get("path")
        if not path:
            return listed
        inner: Any = listed
        for step in _path_parts(path if isinstance(path, str) else "/".join(map(str, path))):
            if not isinstance(inner, dict) or step not in inner:
                raise _Refused(404, "java.lang.IllegalArgumentException", f"Nothing at the path {path}")
            inner = inner[step]
        return inner


def _canonical(asked: Mapping[str, Any]) -> bool:
    config = asked.get("config")
    return str((config if isinstance(config, dict) else {}).get("canonicalNaming", "true")).lower() != "false"


def _text(asked: Mapping[str, Any], field: str) -> str:
    value = asked.get(field)
    if not isinstance(value, str) or not value:
        kind = str(asked.get("type"))
        raise _Refused(400, "java.lang.IllegalArgumentException", f"A {kind} request needs '{field}'")
    return value


def _attributes(given: Any) -> list[str] | None:
    if given is None or given == "":
        return None
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(each, str) for each in names):
        raise _Refused(400, "java.lang.IllegalArgumentException", "'attribute' is a name or a list of names")
    return list(names)


def _from_path(path: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The request that a URL stands for: /read/<mbean>/<attribute>, /list, /search/<pattern>, /version."""
    parts = [unquote(each) for each in _path_parts(path)]
    asked: dict[str, Any] = {"type": parts[0] if parts else "version"}
    if config := {key: value for key, value in query.items() if key == "canonicalNaming"}:
        asked["config"] = config
    if asked["type"] in ("read", "search") and len(parts) > 1:
        asked["mbean"] = parts[1]
        if len(parts) > 2:
            asked["attribute"] = parts[2]
    elif asked["type"] == "list" and len(parts) > 1:
        asked["path"] = "/".join(each.replace("!", "!!").replace("/", "!/") for each in parts[1:])
    return asked


def _path_parts(path: str) -> list[str]:
    """Splits at slashes; ``!/`` is a slash inside of a part and ``!!`` an exclamation mark."""
    parts, current = [], ""
    characters = iter(path)
    for character in characters:
        if character == "!":
            current += next(characters, "!")
        elif character == "/":
            parts.append(current)
            current = ""
        else:
            current += character
    return [part for part in [*parts, current] if part]


def _json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _error(asked: Mapping[str, Any], refusal: _Refused, now_ms: int) -> dict[str, Any]:
    return {
        "request": dict(asked),
        "error_type": refusal.java,
        "error": f"{refusal.java} : {refusal}",
        "status": refusal.status,
        "timestamp": now_ms // 1000,
    }
