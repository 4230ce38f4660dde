"""The language in which programs are written: Kafka Streams' DSL in Python's spelling.

Invariant: a call of the DSL adds to the graph and runs nothing; ``StreamsBuilder.build`` makes a topology of
it.
"""
