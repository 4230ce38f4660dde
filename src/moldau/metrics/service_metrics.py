"""What the schema registry and the REST proxy tell of themselves beside their requests.

Invariant: part of the one table; those of the registry have the names of Confluent's.
"""

from moldau.metrics.table import attribute, gauge

REGISTERED = attribute(
    "kafka.schema.registry", "registered-count", "registered-count", "Versions of schemas that are registered"
)
SUBJECTS = gauge("moldau.registry", "Subjects", "Count", "Subjects that have a version")
REGISTRY_LEADS = attribute(
    "kafka.schema.registry",
    "master-slave-role",
    "master-slave-role",
    "1 where this registry leads (1 in sum)",
)
REST_INSTANCES = gauge("moldau.rest", "Consumers", "Instances", "Consumer instances that this proxy holds")
