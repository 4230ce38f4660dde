"""Records of a produce request that has to wait for somebody.

Invariant: whoever lets a produce request wait keeps its records first, since the buffer that they came in
serves the next request.
"""

from moldau.protocol.messages.produce import ProduceRequest


def keep_records(request: ProduceRequest) -> None:
    """Copies the records out of the connection's buffer; they may be changed in place as before."""
    for topic in request.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                data.records = memoryview(bytearray(data.records))
