"""What monitoring needs to know of a broker; ``node.py`` has it all.

Invariant: only what is read: monitoring changes nothing of a broker.
"""

import asyncio
from typing import Protocol

from moldau.base.clock import Clock
from moldau.base.tasks import Background, Timers
from moldau.broker.access.guarding import Guarding
from moldau.broker.context import Services
from moldau.broker.server import Server
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.controller_role import ControllerRole
from moldau.cluster.metadata import Metadata
from moldau.replication.following import Following
from moldau.replication.isr_proposals import IsrProposals
from moldau.replication.log_cleaning import LogCleaning
from moldau.replication.log_upkeep import LogUpkeep
from moldau.replication.replicas import Replicas
from moldau.storage.directory.logs import Logs


class MonitoredBroker(Protocol):
    node_id: int
    settings: BrokerSettings
    clock: Clock
    timers: Timers
    background: Background
    services: Services
    server: Server
    guarding: Guarding
    metadata: Metadata
    controller_role: ControllerRole
    replicas: Replicas
    logs: Logs
    cleaning: LogCleaning
    upkeep: LogUpkeep
    isr_proposals: IsrProposals
    following: Following
    #: Done when the broker cannot go on; why.
    failure: asyncio.Future[str] | None
