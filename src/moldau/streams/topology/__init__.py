"""The graph of operators that a program is compiled to: sources, processors, sinks, stores, in Kafka's order.

Invariant: a topology is a description. It holds how operators and stores are made, and nothing that runs.
"""
