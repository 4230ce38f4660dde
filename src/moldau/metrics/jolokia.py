"""Jolokia's protocol: MBeans over HTTP, as JSON. Read, list, search and version; one request, or many in
one POST.

Nothing can be written and nothing executed: what a broker's settings are is the business of its configs.

Invariant: a request that cannot be answered is answered with an error of its own; the others of the same
POST are not touched by it. Requests are answered step by step, so that others have their turn: a broker has
ten MBeans for each of its partitions.
"""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote

from moldau.metrics.mbeans import BadName, MBeans, ObjectName, attribute_types

PROTOCOL = "7.2"
#: Requests in one POST, and MBeans that they may bring together: twice those of ten thousand partitions.
_REQUESTS_MOST = 1000
_MBEANS_MOST = 250_000


#: An answer, after pauses.
Steps: TypeAlias = Generator[None, None, Any]


class _Refused(Exception):
    def __init__(self, status: int, java: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.java = java


class _Look:
    """The time of an answer, and how much of it there may still be."""

    __slots__ = ("_left", "now")

    def __init__(self, now: float) -> None:
        self.now = now
        self._left = _MBEANS_MOST

    def take(self) -> None:
        self._left -= 1
        if self._left < 0:
            message = f"more than {_MBEANS_MOST} MBeans in one request: ask for fewer"
            raise _Refused(400, "java.lang.IllegalStateException", message)


class Jolokia:
    def __init__(self, mbeans: MBeans, product: Mapping[str, str]) -> None:
        """``product``: vendor, product and version, as ``version`` shows them."""
        self._mbeans = mbeans
        self._product = dict(product)
        self._answers: dict[str, Callable[[Mapping[str, Any], _Look], Steps]] = {
            "version": self._version,
            "read": self._read,
            "list": self._list,
            "search": self._search,
        }

    def get(self, path: str, query: Mapping[str, str], now: float, now_ms: int) -> Steps:
        """A GET; ``path`` is what follows ``/jolokia``, still percent-encoded."""
        return (yield from self._one(_from_path(path, query), _Look(now), now_ms))

    def post(self, body: Any, now: float, now_ms: int) -> Steps:
        """A POST; ``body`` is the JSON that came."""
        look = _Look(now)
        if isinstance(body, list):
            if len(body) > _REQUESTS_MOST:
                message = f"{len(body)} requests in one POST; {_REQUESTS_MOST} are allowed"
                return _error({}, _Refused(400, "java.lang.IllegalArgumentException", message), now_ms)
            answers = []
            for each in body:
                answer = yield from self._one(each, look, now_ms)
                answers.append(answer)
            return answers
        return (yield from self._one(body, look, now_ms))

    def _one(self, request: Any, look: _Look, now_ms: int) -> Steps:
        asked = request if isinstance(request, dict) else {}
        try:
            kind = asked.get("type")
            if not isinstance(kind, str) or kind.lower() not in self._answers:
                raise _Refused(
                    400,
                    "java.lang.IllegalArgumentException",
                    f"No type with name '{kind}' exists here; there are {', '.join(self._answers)}",
                )
            value = yield from self._answers[kind.lower()](asked, look)
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

    def _version(self, asked: Mapping[str, Any], look: _Look) -> Steps:
        yield
        info = {"product": self._product["product"], "vendor": self._product["vendor"]}
        return {
            "agent": self._product["version"],
            "protocol": PROTOCOL,
            "info": info | {"version": self._product["version"]},
            "config": {"agentId": self._product["agent"], "agentType": "moldau"},
        }

    def _search(self, asked: Mapping[str, Any], look: _Look) -> Steps:
        pattern = ObjectName.parse(_text(asked, "mbean"))
        canonical = _canonical(asked)
        names = []
        for each in self._mbeans.steps(pattern):
            yield
            if each is not None:
                look.take()
                names.append(each.name.written(canonical))
        return names

    def _read(self, asked: Mapping[str, Any], look: _Look) -> Steps:
        wanted = ObjectName.parse(_text(asked, "mbean"))
        names = _attributes(asked.get("attribute"))
        single = isinstance(asked.get("attribute"), str) and names is not None and len(names) == 1
        found: dict[str, Any] = {}
        for each in self._mbeans.steps(wanted):
            yield
            if each is None:
                continue
            look.take()
            shown = self._mbeans.attributes(*each, look.now)
            if names is not None:
                shown = {name: shown[name] for name in names if name in shown}
                if wanted.is_pattern and not shown:
                    continue
                missing = [name for name in names if name not in shown]
                if missing and not wanted.is_pattern:
                    message = f"No such attribute: {missing[0]}"
                    raise _Refused(404, "javax.management.AttributeNotFoundException", message)
            written = {name: _json(value) for name, value in shown.items()}
            if not wanted.is_pattern:
                return next(iter(written.values())) if single else written
            found[each.name.written(_canonical(asked))] = written
        if not found:
            what = "No MBean with attributes for pattern" if wanted.is_pattern else "No MBean"
            message = f"{what} {wanted.written(False)} found"
            raise _Refused(404, "javax.management.InstanceNotFoundException", message)
        return found

    def _list(self, asked: Mapping[str, Any], look: _Look) -> Steps:
        listed: dict[str, dict[str, Any]] = {}
        for found in self._mbeans.steps(ObjectName("*", (), and_more=True)):
            yield
            if found is None:
                continue
            look.take()
            name, metrics, _ = found
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
