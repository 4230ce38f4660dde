"""Kafka's broker settings that are accepted and kept, but have no effect here; a warning at start names them.

Invariant: every setting of Kafka is either here or in ``broker_configs``, never in both.
"""

from functools import cache

from moldau.base.settings import Dynamic, Setting, SettingType

#: The KRaft quorum, tiered storage, Java, parts of security that are not built, and well-known settings
#: of releases before 4. Each paragraph is a type and the settings of that type.
_WITHOUT_EFFECT: dict[Dynamic, str] = {
    "static": """
        BOOLEAN controller.quorum.auto.join.enable log.message.downconversion.enable
            remote.log.storage.system.enable sasl.oauthbearer.assertion.claim.jti.include
            ssl.allow.dn.changes ssl.allow.san.changes unstable.api.versions.enable
            unstable.feature.versions.enable
        CLASS alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name
            sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
            sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
            sasl.server.callback.handler.class
        DOUBLE remote.log.manager.task.retry.jitter
        INT
            add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms
            alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
            controller.quorum.append.linger.ms
            controller.quorum.election.backoff.max.ms controller.quorum.election.timeout.ms
            controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
            controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
            controller.quorum.retry.backoff.ms
            controller.socket.timeout.ms
            delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
            group.share.initialize.retry.interval.ms initial.broker.registration.timeout.ms
            internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
            kafka.metrics.polling.interval.secs metadata.log.segment.bytes metadata.max.idle.interval.ms
            metrics.num.samples num.replica.alter.log.dirs.threads offsets.commit.required.acks
            producer.purgatory.purge.interval.requests
            remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
            remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
            remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
            remote.log.reader.max.pending.tasks replication.quota.window.num
            replication.quota.window.size.seconds sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
            sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.nbf.seconds
            share.coordinator.cold.partition.snapshot.interval.ms
            share.coordinator.state.topic.prune.interval.ms share.fetch.purgatory.purge.interval.requests
        LIST controller.quorum.bootstrap.servers controller.quorum.voters early.start.listeners
            kafka.metrics.reporters process.roles
        LONG controller.performance.always.log.threshold.ms
            controller.performance.sample.period.ms
            internal.metadata.delete.delay.millis log.dir.failure.timeout.ms
            log.message.timestamp.difference.max.ms metadata.log.max.record.bytes.between.snapshots
            metadata.log.max.snapshot.interval.ms metadata.log.segment.ms metadata.max.retention.bytes
            metadata.max.retention.ms metrics.sample.window.ms remote.log.index.file.cache.ttl.ms
            remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
            remote.log.manager.task.retry.backoff.ms sasl.login.retry.backoff.max.ms
            sasl.login.retry.backoff.ms
            sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
            sasl.oauthbearer.jwks.endpoint.retry.backoff.ms server.max.startup.time.ms
            socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
            unclean.leader.election.interval.ms
        PASSWORD sasl.oauthbearer.assertion.private.key.passphrase
            sasl.oauthbearer.client.credentials.client.secret
        STRING
            control.plane.listener.name
            group.share.persister.class.name inter.broker.protocol.version log.message.format.version
            metadata.log.dir metrics.recording.level remote.log.metadata.manager.class.name
            remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
            remote.log.metadata.manager.listener.name remote.log.storage.manager.class.name
            remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
            sasl.mechanism.controller.protocol sasl.oauthbearer.assertion.algorithm
            sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.iss
            sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
            sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.template.file
            sasl.oauthbearer.client.credentials.client.id
            sasl.oauthbearer.scope
            sasl.oauthbearer.token.endpoint.url security.providers
    """,
    "per-broker": """
        CLASS principal.builder.class ssl.engine.factory.class
        DOUBLE sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
            sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
        LIST cordoned.log.dirs
        LONG sasl.kerberos.min.time.before.relogin
        SHORT sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
        STRING sasl.kerberos.kinit.cmd
            ssl.endpoint.identification.algorithm ssl.keymanager.algorithm
            ssl.provider
            ssl.secure.random.implementation ssl.trustmanager.algorithm
    """,
    "cluster-wide": """
        BOOLEAN follower.fetch.last.tiered.offset.enable
        INT remote.fetch.max.wait.ms remote.log.manager.copier.thread.pool.size
            remote.log.manager.expiration.thread.pool.size remote.log.manager.follower.thread.pool.size
            remote.log.reader.threads
        LIST config.providers metric.reporters
        LONG remote.list.offsets.request.timeout.ms remote.log.index.file.cache.total.size.bytes
            remote.log.manager.copy.max.bytes.per.second remote.log.manager.fetch.max.bytes.per.second
    """,
}


@cache
def settings_without_effect() -> dict[str, Setting]:
    """The settings without effect, by name."""
    found: dict[str, Setting] = {}
    for dynamic, text in _WITHOUT_EFFECT.items():
        kind = SettingType.UNKNOWN
        for word in text.split():
            if word.isupper():
                kind = SettingType[word]
            else:
                found[word] = Setting(word, kind, None, "Has no effect here.", None, dynamic)
    return found
