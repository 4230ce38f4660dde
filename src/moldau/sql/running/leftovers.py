"""What a query that ended for good leaves behind: topics of its state, its group, its checkpoint.

All of it goes, as in ksqlDB; the topic of its results stays.

Invariant: nothing goes while the query still runs somewhere, and nothing of an id that no query can have: ids
come from a topic that others may write to.
"""

import re

from moldau.client import Cluster, KafkaError
from moldau.sql.errors import SqlError
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
