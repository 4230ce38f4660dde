"""Which metadata store a broker has: ZooKeeper if ``zookeeper.connect`` is set, else files of this machine.

Invariant: only the store that is used is imported, so a broker pays neither for SQLite nor for kazoo without
need.
"""

from moldau.base.clock import Clock
from moldau.cluster.configs.broker_settings import BrokerSettings
from moldau.cluster.store.contract import MetadataStore, MetadataStoreError


def metadata_store(settings: BrokerSettings, clock: Clock) -> MetadataStore:
    """The store that the settings name; MetadataStoreError when it is not installed."""
    if settings["zookeeper.connect"]:
        return _zookeeper(settings, clock)
    from moldau.cluster.store.local import LocalStore

    return LocalStore(settings["moldau.metadata.dir"] or settings.log_dirs[0])


def _zookeeper(settings: BrokerSettings, clock: Clock) -> MetadataStore:
    from moldau.cluster.store.zookeeper.settings import zookeeper_settings

    found = zookeeper_settings(settings)
    assert found is not None
    try:
        from moldau.cluster.store.zookeeper.store import ZooKeeperStore
    except ImportError as error:
        raise MetadataStoreError(
            f"zookeeper.connect is set, but {error.name} is not installed: pip install 'moldau[cluster]'"
        ) from None
    return ZooKeeperStore(found, clock)
