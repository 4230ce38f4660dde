"""The settings of metrics, of free disk space and of the logs that people read; part of a broker's settings.

Invariant: without any of them nothing listens, nothing is sent and no file is written.
"""

from moldau.base.settings import BOOLEAN, INT, LONG, STRING, Dynamic, Setting, at_least, between

MAX_PORT = 65535
_ALL: Dynamic = "cluster-wide"

# fmt: off
MONITORING = (
    Setting("moldau.metrics.port", INT, -1,
            "Port for /metrics (Prometheus), /jolokia (MBeans), /healthz and /readyz; 0 is a free one, "
            "-1 none.", between(-1, MAX_PORT)),
    Setting("moldau.metrics.host", STRING, "127.0.0.1",
            "Address of that port. Whoever reaches it sees names of topics and clients, and no records."),
    Setting("moldau.metrics.otlp.endpoint", STRING, None,
            "Where metrics are sent as OTLP over HTTP, such as http://collector:4318/v1/metrics."),
    Setting("moldau.metrics.otlp.interval.ms", LONG, 60000, "How often they are sent.", at_least(1000)),
    Setting("moldau.disk.free.warn.bytes", LONG, 1073741824,
            "A disk of log.dirs with less free bytes is warned of in the log.", at_least(0), _ALL),
    Setting("moldau.disk.free.min.bytes", LONG, 67108864,
            "Below so many free bytes the partitions on a disk refuse producers with KAFKA_STORAGE_ERROR, "
            "which clients try again, and take them again when there is room; 0 is no such floor.",
            at_least(0), _ALL),
    Setting("moldau.logs.dir", STRING, None,
            "Directory for the six application logs of a broker: server.log, controller.log, "
            "state-change.log, kafka-request.log, log-cleaner.log, kafka-authorizer.log."),
    Setting("moldau.logs.max.bytes", LONG, 104857600, "Size at which one of these files is rolled.",
            at_least(1024)),
    Setting("moldau.logs.backups", INT, 10, "How many rolled files of each are kept.", between(0, 1000)),
    Setting("moldau.logs.json", BOOLEAN, False, "Writes them as lines of JSON."),
)
