"""The proxy as a web application: its routes, its media types, who may ask, and the way to other proxies."""

import ssl
from functools import partial

from moldau.metrics.readings import one
from moldau.metrics.service_metrics import REST_INSTANCES
from moldau.rest import problems
from moldau.rest.api.call import RestCall
from moldau.rest.api.openapi import DESCRIPTION
from moldau.rest.api.v2.routes import ROUTES as V2_ROUTES
from moldau.rest.api.v3.routes import ROUTES as V3_ROUTES
from moldau.rest.formats import V2_TYPES
from moldau.rest.peers import Elsewhere
from moldau.rest.proxy import Proxy
from moldau.web.application import Application, Service
from moldau.web.authentication import Authenticate, anybody
from moldau.web.forwarding import Forwarding
from moldau.web.limits import Limits
from moldau.web.problems import Problem
from moldau.web.routes import RouteTable

#: Confluent's brokers have the same under /kafka.
TABLE = RouteTable((*V2_ROUTES, *V3_ROUTES), prefix="/kafka")
SERVICE = Service(DESCRIPTION, TABLE, V2_TYPES)


def _failed(why: str) -> Problem:
    said = f"The proxy that has the consumer instance did not answer: {why}"
    return Problem(problems.KAFKA_RETRIABLE_ERROR, 500, said)


def application(
    proxy: Proxy,
    *,
    authenticate: Authenticate = anybody,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
) -> Application:
    """``tls`` is for other proxies at https addresses."""
    made = Application(
        SERVICE,
        partial(RestCall, proxy),
        authenticate=authenticate,
        limits=limits,
        forwarding=Forwarding(
            lambda error: error.url if isinstance(error, Elsewhere) else None,
            unknown_leader=problems.consumer_instance_not_found,
            failed=_failed,
            tls=tls,
            again_seconds=0,
        ),
    )
    made.sources.add("moldau.rest", "Consumers", lambda: [one(REST_INSTANCES, len(proxy.consumers))])
    return made
