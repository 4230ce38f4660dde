"""A streaming query as a program of its own, to be killed: topic ``in`` to topic ``out``, exactly once.

python exactly_once_job.py BOOTSTRAP CHECKPOINT TASKS
"""

import sys

from moldau.spark import spark_session


def main(bootstrap_servers: str, checkpoint: str, tasks: int) -> None:
    # Four attempts for each task: a worker that is killed costs an attempt, not the query.
    spark = spark_session(
        "exactly-once",
        master="local[2,4]",
        spark_driver_memory="1g",
        spark_driver_extraJavaOptions="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        spark_sql_codegen_wholeStage="false",
    )
    spark.sparkContext.setLogLevel("OFF")
    print("started", flush=True)
    rows = (
        spark.readStream.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 4000)
        .load()
    )
    query = (
        rows.select("key", "value")
        .repartition(tasks)
        .writeStream.format("moldau")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("topic", "out")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print("finished", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
