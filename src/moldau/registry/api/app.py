"""The registry as a web application: its routes, its media types, and its own words for what fails."""

import ssl
from collections.abc import Iterator, Mapping
from functools import partial

from moldau.client.replicated_state.replicated_state import NotLeader
from moldau.metrics.readings import Reading, one
from moldau.metrics.service_metrics import REGISTERED, REGISTRY_LEADS, SUBJECTS
from moldau.registry import errors
from moldau.registry.api.call import RegistryCall
from moldau.registry.api.openapi import DESCRIPTION, MEDIA_TYPE
from moldau.registry.api.routes import TABLE
from moldau.registry.service import Registry
from moldau.web.application import Application, Service
from moldau.web.authentication import BasicAuthentication, anybody
from moldau.web.forwarding import Forwarding
from moldau.web.limits import Limits

#: What an answer may be called; the first one is meant where the client does not say.
MEDIA_TYPES = (MEDIA_TYPE, "application/vnd.schemaregistry+json", "application/json")

#: Resources of Confluent's registry that this one does not have, so that who asks for them hears so.
MISSING = {
    "dek-registry": "data encryption keys are not part of this registry",
    "associations": "associations of topics with subjects are not part of this registry",
    "exporters": "exporters are not part of this registry",
    "catalog": "the catalogue of tags is not part of this registry",
}

SERVICE = Service(
    DESCRIPTION, TABLE, MEDIA_TYPES, (*MEDIA_TYPES, "application/octet-stream"), missing=MISSING
)


def application(
    registry: Registry,
    *,
    users: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
) -> Application:
    """Users are names and passwords; without any, everybody may do everything."""
    made = Application(
        SERVICE,
        partial(RegistryCall, registry),
        authenticate=BasicAuthentication(users, "schema-registry") if users else anybody,
        limits=limits,
        forwarding=Forwarding(
            lambda error: error.leader.url if isinstance(error, NotLeader) else None,
            unknown_leader=errors.unknown_leader,
            tls=tls,
        ),
    )
    made.sources.add("kafka.schema.registry", "registered-count", partial(_readings, registry))
    return made


def _readings(registry: Registry) -> Iterator[Reading]:
    yield one(REGISTERED, sum(1 for _ in registry.state.schemas(":*:", deleted=False, latest_only=False)))
    yield one(SUBJECTS, len(registry.state.subjects(":*:")))
    yield one(REGISTRY_LEADS, int(registry.election.leads))
