"""Topics as DataFrames: ``format("moldau")`` for Spark, and ``topic`` as its short form.

    from moldau.spark import spark_session, topic

    spark = spark_session()
    topic("orders", "localhost:9092").df(spark).show()

Spark finds the source by itself wherever this package is installed; nothing has to be registered.
"""

from moldau.spark.options import OptionError
from moldau.spark.session import JavaNotFound, find_java, spark_session
from moldau.spark.topic import Topic, topic

__all__ = ["JavaNotFound", "OptionError", "Topic", "find_java", "spark_session", "topic"]
