"""What a query that ended for good leaves behind: topics of its state, its group, its checkpoint.

All of it goes, as in ksqlDB; the topic of its results stays, and its schemas with it.

Invariant: nothing goes while the query still runs somewhere, and nothing of an id that no query can have: ids
come from a topic that others may write to.
"""

import re
from typing import Any

from moldau.client import Cluster, KafkaError
from moldau.client.registry.errors import RegistryError
from moldau.client.registry.schema_registry import RegistryClient
from moldau.sql.catalogue import Source
from moldau.sql.errors import SqlError
from moldau.sql.formats import WITH_SCHEMAS
from moldau.sql.running.query_processes import QueryRunner
from moldau.streams.errors import StreamsError
from moldau.streams.runner.resets import remove

_ID = re.compile(r"(CTAS|CSAS|INSERTQUERY)_\w+_\d+", re.ASCII)


async def clear_away(cluster: Cluster, runner: QueryRunner, query_id: str) -> str:
    """Says what is gone, or why it is not: the query has ended in any case."""
    if _ID.fullmatch(query_id) is None:
        return "nothing of it was deleted, as no query has such an id"
    try:
        topics = await remove(cluster, query_id)
        await runner.forget(query_id)
    except (StreamsError, KafkaError, SqlError, OSError) as error:
        return f"what it has left behind is still there: {error}"
    gone = f" (topics {', '.join(topics)})" if topics else ""
    return f"deleted its state{gone}, its group and its checkpoint"


def forget_schema(registry: Any, source: Source) -> str:
    """Deletes the schemas of a topic that is gone; gives a sentence where that fails."""
    subject = f"{source.topic}-value"
    if registry is None or source.value_format not in WITH_SCHEMAS:
        return ""
    try:
        with RegistryClient(registry) as client:
            if subject in client.subjects(subject):
                client.delete_subject(subject)
    except RegistryError as error:
        return f"subject {subject} could not be deleted: {error}"
    return ""
