"""The HTTP client of a schema registry: ours, Confluent's or another that speaks Confluent's API.

Invariant: it sends what it is given and answers with values; every failure is a ``RegistryError`` that names
the URL. Schemas by id and by guid are kept, as they never change; nothing else is remembered. It may be
used from several threads at once: connections are kept alive and each is used by one call at a time. A
request on a kept connection that turns out to be closed is sent once more: registering or deleting again
comes to the same.
"""

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from moldau.client.registry.errors import RegistryError as RegistryError

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_MAX_IDLE = 8
_MAX_KEPT = 10_000
#: Answers of an instance, or of a proxy before it, that cannot work now; another one may.
_UNAVAILABLE = frozenset({502, 503, 504})
_NOTHING_THERE = frozenset({404, 40401, 40402})


@dataclass(frozen=True, slots=True)
class Reference:
    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it. ``schema_type`` is AVRO, JSON or PROTOBUF."""

    schema_id: int
    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    subject: str | None = None
    version: int | None = None
    guid: str | None = None


def referenced_schemas(
    references: Sequence[Reference], version_of: Callable[[Reference], RegisteredSchema]
) -> Iterator[tuple[Reference, RegisteredSchema]]:
    """Every schema that is referred to, directly or by another one; what others refer to comes first."""
    seen: set[Reference] = set()

    def walk(wanted: Sequence[Reference]) -> Iterator[tuple[Reference, RegisteredSchema]]:
        for each in wanted:
            if each not in seen:
                seen.add(each)
                found = version_of(each)
                yield from walk(found.references)
                yield each, found

    return walk(references)


@dataclass(frozen=True, slots=True)
class _Address:
    """One of the URLs; ``shown`` never has a password."""

    host: str
    port: int
    path: str
    secure: bool
    shown: str
    credentials: str | None


class RegistryClient:
    """``url`` may name several instances, separated by commas: they are tried in turn."""

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        ca_location: str | None = None,
        timeout_ms: int = 10_000,
    ) -> None:
        given = None if user is None else f"{user}:{password or ''}"
        self._addresses = [_address(part.strip(), given) for part in url.split(",") if part.strip()]
        if not self._addresses:
            raise _unreachable("No URL of a schema registry is given", "Pass one like http://127.0.0.1:8081.")
        self._ssl = _ssl_context(ca_location) if any(each.secure for each in self._addresses) else None
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._idle: dict[_Address, list[http.client.HTTPConnection]] = {each: [] for each in self._addresses}
        self._kept: dict[tuple[object, str | None], RegisteredSchema] = {}
        self._closed = False

    # Schemas.

    def by_id(self, schema_id: int, subject: str | None = None) -> RegisteredSchema:
        """``subject`` says in which context the id is meant."""
        found = self._kept.get((schema_id, subject))
        if found is None:
            path = f"/schemas/ids/{schema_id}{_query(subject=subject)}"
            found = self._keep((schema_id, subject), _registered(self.call("GET", path), schema_id))
        return found

    def by_guid(self, guid: str) -> RegisteredSchema:
        """The ``schema_id`` of the answer is 0: a guid means the same in every context, an id does not."""
        found = self._kept.get((guid, None))
        if found is None:
            answer = self.call("GET", f"/schemas/guids/{_segment(guid)}")
            found = self._keep((guid, None), _registered({"guid": guid} | answer, 0))
        return found

    def version(
        self, subject: str, version: int | str = "latest", *, deleted: bool = False
    ) -> RegisteredSchema:
        path = f"/subjects/{_segment(subject)}/versions/{_segment(version)}{_query(deleted=deleted)}"
        return _registered(self.call("GET", path))

    def lookup(
        self,
        subject: str,
        text: str,
        schema_type: str = "AVRO",
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
    ) -> RegisteredSchema:
        """The version of the subject that has this schema; 40403 where there is none."""
        path = f"/subjects/{_segment(subject)}{_query(normalize=normalize)}"
        return _registered(self.call("POST", path, _schema_body(text, schema_type, references)))

    def register(
        self,
        subject: str,
        text: str,
        schema_type: str = "AVRO",
        references: Sequence[Reference] = (),
        *,
        normalize: bool = False,
        schema_id: int | None = None,
        version: int | None = None,
    ) -> int:
        """The id; one's own ``schema_id`` and ``version`` are taken in the mode IMPORT only."""
        body = _schema_body(text, schema_type, references)
        body |= {"id": schema_id} if schema_id is not None else {}
        body |= {"version": version} if version is not None else {}
        path = f"/subjects/{_segment(subject)}/versions{_query(normalize=normalize)}"
        return int(self.call("POST", path, body)["id"])

    def incompatibilities(
        self,
        subject: str,
        text: str,
        schema_type: str = "AVRO",
        references: Sequence[Reference] = (),
        version: int | str = "latest",
    ) -> list[str]:
        """What would break beside a version, or with ``all`` beside those that the subject's level asks for.

        Empty means compatible, or that there is nothing to compare with.
        """
        beside = "" if version == "all" else f"/{_segment(version)}"
        path = f"/compatibility/subjects/{_segment(subject)}/versions{beside}?verbose=true"
        try:
            answer = self.call("POST", path, _schema_body(text, schema_type, references))
        except RegistryError as error:
            if error.code in _NOTHING_THERE:
                return []
            raise
        if answer.get("is_compatible"):
            return []
        return [str(each) for each in answer.get("messages") or ["The schemas are not compatible."]]

    # Subjects.

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        return list(self.call("GET", f"/subjects{_query(subjectPrefix=prefix or None, deleted=deleted)}"))

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        return list(self.call("GET", f"/subjects/{_segment(subject)}/versions{_query(deleted=deleted)}"))

    def delete_subject(self, subject: str, *, permanent: bool = False) -> list[int]:
        return list(self.call("DELETE", f"/subjects/{_segment(subject)}{_query(permanent=permanent)}"))

    def delete_version(self, subject: str, version: int | str, *, permanent: bool = False) -> int:
        path = f"/subjects/{_segment(subject)}/versions/{_segment(version)}{_query(permanent=permanent)}"
        return int(self.call("DELETE", path))

    def config(self, subject: str | None = None, *, effective: bool = True) -> dict[str, Any]:
        """What applies; with ``effective=False`` only what the subject itself has, else 40408."""
        default = effective and subject is not None
        return dict(self.call("GET", f"/config{_below(subject)}{_query(defaultToGlobal=default)}"))

    def set_config(self, level: str, subject: str | None = None) -> None:
        self.call("PUT", f"/config{_below(subject)}", {"compatibility": level})

    def mode(self, subject: str | None = None, *, effective: bool = True) -> str:
        default = effective and subject is not None
        return str(self.call("GET", f"/mode{_below(subject)}{_query(defaultToGlobal=default)}")["mode"])

    def set_mode(self, mode: str, subject: str | None = None, force: bool = False) -> None:
        self.call("PUT", f"/mode{_below(subject)}{_query(force=force)}", {"mode": mode})

    # Everything else.

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The JSON that the registry answers. ``path`` is quoted already, with its query."""
        sent = None if body is None else json.dumps(body).encode()
        failures: list[RegistryError] = []
        for address in list(self._addresses):
            try:
                answer = self._ask(address, method, path, sent)
            except RegistryError as error:
                if error.status and error.status not in _UNAVAILABLE:
                    raise
                failures.append(error)
                continue
            if failures:
                self._prefer(address)
            return answer
        if len(failures) == 1:
            raise failures[0]
        answered = next((each for each in failures if each.status), failures[0])
        raise RegistryError(answered.status, answered.code, " ".join(each.message for each in failures))

    def close(self) -> None:
        """Closes the connections; a later call opens new ones, which are not kept."""
        with self._lock:
            idle = [connection for each in self._idle.values() for connection in each]
            for kept in self._idle.values():
                kept.clear()
            self._closed = True
        for connection in idle:
            connection.close()

    def __enter__(self) -> "RegistryClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, key: tuple[object, str | None], found: RegisteredSchema) -> RegisteredSchema:
        with self._lock:
            if len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = found
        return found

    def _prefer(self, address: _Address) -> None:
        """The instance that answered is asked first from now on."""
        with self._lock:
            self._addresses = [address, *(each for each in self._addresses if each != address)]

    def _ask(self, address: _Address, method: str, path: str, sent: bytes | None) -> Any:
        status, answered = self._exchange(address, method, path, sent)
        try:
            found = json.loads(answered) if answered else None
        except ValueError:
            found = None
            if status < 300:
                said = f"{address.shown}{path} did not answer with JSON."
                raise RegistryError(status, status, f"{said} Check that it is a schema registry.") from None
        if status < 300:
            return found
        raise _refusal(address, path, status, found, answered)

    def _exchange(self, address: _Address, method: str, path: str, sent: bytes | None) -> tuple[int, bytes]:
        """One request; a kept connection that the other side has closed meanwhile costs a second try."""
        headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        if address.credentials is not None:
            headers["Authorization"] = f"Basic {address.credentials}"
        while True:
            connection, fresh = self._connection(address)
            try:
                connection.request(method, address.path + path, sent, headers)
                response = connection.getresponse()
                answer = response.status, response.read()
            except (OSError, UnicodeError, http.client.HTTPException) as error:
                connection.close()
                if not fresh and not isinstance(error, TimeoutError):
                    continue
                raise _unreachable(
                    f"The schema registry at {address.shown} cannot be reached: {_said(error)}",
                    "Check the URL, and that the registry runs (`moldau registry` starts one).",
                ) from error
            self._return(address, connection, keep=not response.will_close)
            return answer

    def _connection(self, address: _Address) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle[address]:
                return self._idle[address].pop(), False
        timeout_s = self._timeout_ms / 1000
        if not address.secure:
            return http.client.HTTPConnection(address.host, address.port, timeout=timeout_s), True
        connection = http.client.HTTPSConnection(
            address.host, address.port, timeout=timeout_s, context=self._ssl
        )
        return connection, True

    def _return(self, address: _Address, connection: http.client.HTTPConnection, *, keep: bool) -> None:
        with self._lock:
            if keep and not self._closed and len(self._idle[address]) < _MAX_IDLE:
                self._idle[address].append(connection)
                return
        connection.close()


def _address(url: str, given: str | None) -> _Address:
    shown = url.rpartition("@")[2]
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _unreachable(f"{shown!r} is no URL: {error}", "Pass one like http://127.0.0.1:8081.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _unreachable(
            f"{shown!r} is no URL of a schema registry", "Pass one like http://127.0.0.1:8081."
        )
    if given is None and parts.username is not None:
        given = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    secure = parts.scheme == "https"
    where = parts.netloc.rpartition("@")[2]
    path = parts.path.rstrip("/")
    return _Address(
        host=parts.hostname,
        port=port if port is not None else (443 if secure else 80),
        path=path,
        secure=secure,
        shown=f"{parts.scheme}://{where}{path}",
        credentials=None if given is None else base64.b64encode(given.encode()).decode(),
    )


def _ssl_context(ca_location: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_location)
    except OSError as error:
        raise _unreachable(
            f"The certificates in {ca_location} cannot be used: {_said(error)}", "Name a file in PEM form."
        ) from None


def _unreachable(what: str, what_to_do: str) -> RegistryError:
    return RegistryError(0, 0, f"{what}. {what_to_do}")


def _said(error: Exception) -> str:
    """The reason in words; some exceptions carry none."""
    return str(error).rstrip(".") or type(error).__name__


def _refusal(address: _Address, path: str, status: int, found: Any, answered: bytes) -> RegistryError:
    if isinstance(found, dict) and "message" in found:
        code = found.get("error_code")
        message = str(found["message"])
    else:
        code = None
        text = answered.decode("utf-8", "replace").strip()[:200]
        message = f"{address.shown}{path} answered with the status {status}" + (f": {text}" if text else "")
    if status == 401:
        message = f"The schema registry at {address.shown} wants another user or password: {message}"
    return RegistryError(status, code if isinstance(code, int) else status, message)


def _registered(answer: Mapping[str, Any], schema_id: int | None = None) -> RegisteredSchema:
    references = answer.get("references") or ()
    return RegisteredSchema(
        schema_id=int(answer["id"]) if schema_id is None else schema_id,
        schema_type=answer.get("schemaType") or "AVRO",
        text=answer["schema"],
        references=tuple(Reference(each["name"], each["subject"], each["version"]) for each in references),
        subject=answer.get("subject"),
        version=answer.get("version"),
        guid=answer.get("guid"),
    )


def _schema_body(text: str, schema_type: str, references: Sequence[Reference]) -> dict[str, Any]:
    """Avro is the default: old registries do not know the field."""
    body: dict[str, Any] = {"schema": text}
    if schema_type != "AVRO":
        body["schemaType"] = schema_type
    if references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in references
        ]
    return body


def _segment(name: object) -> str:
    return quote(str(name), safe="")


def _below(subject: str | None) -> str:
    return "" if subject is None else f"/{_segment(subject)}"


def _query(**wanted: str | bool | None) -> str:
    """What is None or False is left out: it is the default everywhere."""
    texts = {
        name: "true" if value is True else value for name, value in wanted.items() if value or value == ""
    }
    return "?" + "&".join(f"{name}={_segment(value)}" for name, value in texts.items()) if texts else ""
