"""Which APIs this broker answers: those that have a file of their name in this folder.

ApiVersions answers from the table here and ``docs/protocol.md`` is generated from it, so that nothing is
advertised that is not answered. The versions are those of ``protocol.api_keys``. A handler is imported when
its API is first asked for, which keeps the start of a broker short.
"""

import os
from importlib import import_module
from typing import Any

from moldau.protocol.api_keys import VERSIONS, ApiKey
from moldau.protocol.errors import ErrorCode


class Api:
    """One API; ``handle(request, context)`` returns a response, None, a ``Parked`` or an awaitable."""

    __slots__ = ("advertised", "maximum", "minimum", "module")

    def __init__(self, api_key: ApiKey, *, advertised: bool = True) -> None:
        self.module = api_key.name.lower()
        self.minimum, self.maximum, _ = VERSIONS[api_key]
        self.advertised = advertised

    @property
    def handle(self) -> Any:
        return self._load().handle

    @property
    def fail(self) -> Any:
        """``fail(request, error, context)`` is the answer when the handler as a whole raised."""
        return self._load().fail

    @property
    def asks(self) -> Any:
        """What the API asks of an authorizer (``broker/access/asks.py``); without it nothing is answered."""
        return self._load().ASKS

    def _load(self) -> Any:
        return import_module(f"{__name__}.{self.module}")


#: What brokers say to each other; Kafka has these on the controllers' listeners only.
BETWEEN_BROKERS = (
    ApiKey.ALTER_PARTITION,
    ApiKey.ENVELOPE,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.BRANCH_PARTITIONS,
)
#: Only our own client, which calls itself "moldau", sees these: our own APIs (docs/time-travel.md,
#: docs/mirror.md), and what brokers say to each other.
FOR_OUR_CLIENT = (
    ApiKey.FORK_TOPIC,
    ApiKey.BEGIN_RESTORE,
    ApiKey.RESTORE_BATCHES,
    ApiKey.END_RESTORE,
    ApiKey.MIRROR_BATCHES,
    ApiKey.CUT_MIRROR,
    ApiKey.RAISE_LEADER_EPOCHS,
    *BETWEEN_BROKERS,
)
#: Listed while there is a subscription to clients' metrics; Kafka lists them while a plug-in asks for them.
CLIENT_TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
_NOT_ADVERTISED = (*CLIENT_TELEMETRY, *FOR_OUR_CLIENT)
_FILES = frozenset(os.listdir(os.path.dirname(__file__)))
TABLE: dict[ApiKey, Api] = {
    key: Api(key, advertised=key not in _NOT_ADVERTISED)
    for key in VERSIONS
    if f"{key.name.lower()}.py" in _FILES
}


def unsupported_api_versions() -> Any:
    """The answer to ApiVersions in a version that is too new: the versions that there are."""
    from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

    own = TABLE[ApiKey.API_VERSIONS]
    listed = [ApiVersion(ApiKey.API_VERSIONS, own.minimum, own.maximum)]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=listed)
