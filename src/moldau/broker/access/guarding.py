"""What stands before the handlers: the gate where there is an authorizer, quotas where there are any.

Invariant: what is not needed is not there: without an authorizer and without quotas a handler is called as it
is. The first quota puts the measuring in, while the broker runs, and the last one takes it out.
"""

from collections.abc import Sequence
from typing import Any

from moldau.base.settings import SettingError
from moldau.base.tasks import Timers
from moldau.broker.access.auditing import CHANGES, AuditLog
from moldau.broker.access.authorization import AUTHORIZERS, Authorization
from moldau.broker.access.throttling import Throttling
from moldau.broker.context import RequestContext, Services
from moldau.broker.dispatch import Dispatch, Handler, WrapHandler
from moldau.cluster.controller.security import remove_expired_tokens
from moldau.cluster.image import EMPTY_IMAGE, ClusterImage
from moldau.cluster.records import Record
from moldau.protocol.api_keys import ApiKey
from moldau.security.authorizer import Authorizer
from moldau.security.principals import BROKER, parse_super_users


class Guarding:
    def __init__(self, services: Services, inner: WrapHandler | None) -> None:
        """``inner`` is put around handlers first."""
        self._inner = inner
        self._services = services
        self._dispatch: Dispatch | None = None
        self.throttling = Throttling(services)
        services.audit = self._audit_log()
        services.authorization = self._authorization()

    def _audit_log(self) -> AuditLog | None:
        settings = self._services.settings
        path, topic = settings["moldau.audit.log"], settings["moldau.audit.topic"]
        if not topic:
            return AuditLog(path, self._services.clock) if path else None
        if not path:
            reason = "moldau.audit.topic needs moldau.audit.log too: the file keeps the chain of its lines"
            raise SettingError("moldau.audit.topic", reason)
        from moldau.broker.access.audit_topic import AuditTopic

        return AuditLog(path, self._services.clock, AuditTopic(topic, self._services))

    def _authorization(self) -> Authorization | None:
        """What ACLs allow; None without an authorizer."""
        settings = self._services.settings
        name: str = settings.authorizer_class_name
        if not name:
            return None
        if name not in AUTHORIZERS:
            known = ", ".join(sorted(AUTHORIZERS))
            raise SettingError("authorizer.class.name", f"authorizer.class.name={name} is none of {known}")
        try:
            super_users = parse_super_users(settings.super_users) | {str(BROKER)}
        except ValueError as error:
            reason = f"super.users={settings.super_users} is no list as User:ann;User:bob: {error}"
            raise SettingError("super.users", reason) from None
        authorizer = Authorizer((), super_users, settings.allow_everyone_if_no_acl_found)
        authorization = Authorization(authorizer, self._services.audit)
        authorization.apply(EMPTY_IMAGE, self._services.image, ())
        return authorization

    def dispatch(self) -> Dispatch:
        """A dispatch whose handlers are guarded."""
        self._dispatch = Dispatch(self._services, self._wrapper(self._services.image))
        self._services.metadata.on_change(self._apply)
        return self._dispatch

    def schedule(self, timers: Timers) -> None:
        """Removes delegation tokens that are over, from time to time."""
        settings = self._services.settings
        if settings["delegation.token.secret.key"] is None:
            return

        def remove() -> None:
            now_ms = self._services.clock.now_ms()
            removal = self._services.metadata.submit(lambda image: remove_expired_tokens(image, now_ms))
            self._services.background.start(removal, "expired delegation tokens")

        timers.every(settings["delegation.token.expiry.check.interval.ms"] / 1000, remove)

    def _wrapper(self, image: ClusterImage) -> WrapHandler | None:
        guarded = self._services.authorization is not None
        measured = bool(image.security.quotas)
        audit = self._services.audit
        if not guarded and not measured and audit is None:
            return self._inner
        from moldau.broker.access.gate import guard

        def wrap(api_key: ApiKey, handle: Handler) -> Handler:
            if self._inner is not None:
                handle = self._inner(api_key, handle)
            if guarded:
                handle = guard(api_key, handle)
            if audit is not None and api_key in CHANGES:
                handle = _audited(audit, api_key, handle)
            return self.throttling.wrap(api_key, handle) if measured else handle

        return wrap

    def _apply(self, old: ClusterImage, new: ClusterImage, records: Sequence[Record]) -> None:
        if self._services.authorization is not None:
            self._services.authorization.apply(old, new, records)
        if self._dispatch is not None and bool(old.security.quotas) != bool(new.security.quotas):
            self._dispatch.wrap_again(self._wrapper(new))


def _audited(audit: AuditLog, api_key: ApiKey, handle: Handler) -> Handler:
    def audited(request: Any, context: RequestContext) -> Any:
        audit.changed(api_key, request, context)
        return handle(request, context)

    return audited
