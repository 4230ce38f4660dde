package moldau.spark;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.ArrowPythonRunner;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.AccumulatorV2;

/** A Python worker for a task, as Spark's evaluator has it, less the rows that it makes of batches. */
public final class Worker {
    public static final String NAME = "moldau";

    /** The schema by which the Python source sees that notes are wanted, and of what. */
    public static StructType notesOf(StructType columns, String[] filters) {
        MetadataBuilder wanted = new MetadataBuilder().putString("columns", columns.json());
        wanted.putStringArray("filters", filters);
        return new StructType().add("__moldau_shared", DataTypes.BinaryType, false, wanted.build());
    }

    public static final StructType NOTES = notesOf(new StructType(), new String[0]);

    public static scala.collection.Iterator run(MapInBatchEvaluatorFactory evaluators, scala.collection.Iterator input) {
        MapInBatchEvaluatorFactory.MapInBatchEvaluator evaluator =
            (MapInBatchEvaluatorFactory.MapInBatchEvaluator) evaluators.createEvaluator();
        ArrowPythonRunner runner =
            new org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory$MapInBatchEvaluator$$anon$1(
                evaluator, new int[][] {{0}});
        TaskContext task = TaskContext.get();
        return runner.compute(input, task.partitionId(), task);
    }

    public static CustomTaskMetric[] metrics(
        UserDefinedPythonDataSource source, scala.collection.immutable.Map metrics) {
        scala.collection.immutable.Map values = scala.collection.immutable.Map$.MODULE$.empty();
        scala.collection.Iterator each = metrics.iterator();
        while (each.hasNext()) {
            scala.Tuple2 metric = (scala.Tuple2) each.next();
            Object value = ((AccumulatorV2) metric._2()).value();
            values = (scala.collection.immutable.Map) values.updated(metric._1(), value);
        }
        return source.createPythonTaskMetrics(values);
    }
}
