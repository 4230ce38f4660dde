package moldau.spark;

import java.io.IOException;
import java.util.Iterator;

import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource$;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Writing: rows of keys and values go to the worker through memory that it maps; planning and commits stay Spark's. */
public final class SharedWrite {
    public static final class Builder extends PythonWriteBuilder {
        private final PythonDataSourceV2 source;
        private final LogicalWriteInfo info;
        private boolean truncated;

        public Builder(PythonDataSourceV2 source, LogicalWriteInfo info) {
            super(source, Worker.NAME, info);
            this.source = source;
            this.info = info;
        }

        public WriteBuilder truncate() {
            this.truncated = true;
            return this;
        }

        public Write build() {
            return new Whole(this.source, this.info, this.truncated);
        }
    }

    public static final class Whole extends PythonWrite {
        private final PythonDataSourceV2 source;
        private final LogicalWriteInfo info;
        private final boolean truncated;

        Whole(PythonDataSourceV2 source, LogicalWriteInfo info, boolean truncated) {
            super(source, Worker.NAME, info, truncated);
            this.source = source;
            this.info = info;
            this.truncated = truncated;
        }

        public BatchWrite toBatch() {
            return new SharedBatchWrite(this.source, this.info, this.truncated);
        }

        public StreamingWrite toStreaming() {
            return new SharedStreamingWrite(this.source, this.info, this.truncated);
        }
    }

    public static final class SharedBatchWrite extends PythonBatchWrite {
        SharedBatchWrite(PythonDataSourceV2 source, LogicalWriteInfo info, boolean truncated) {
            super(source, Worker.NAME, info, truncated);
        }

        public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
            return new SharedWriterFactory((PythonBatchWriterFactory) super.createBatchWriterFactory(info));
        }
    }

    public static final class SharedStreamingWrite extends PythonStreamingWrite {
        SharedStreamingWrite(PythonDataSourceV2 source, LogicalWriteInfo info, boolean truncated) {
            super(source, Worker.NAME, info, truncated);
        }

        public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
            return new SharedWriterFactory((PythonBatchWriterFactory) super.createStreamingWriterFactory(info));
        }
    }

    public static final class SharedWriterFactory implements DataWriterFactory, StreamingDataWriterFactory {
        private final PythonBatchWriterFactory rows;

        SharedWriterFactory(PythonBatchWriterFactory rows) {
            this.rows = rows;
        }

        public DataWriter createWriter(int partition, long task) {
            return new SharedWriter(this.rows, this.rows.createWriter(partition, task));
        }

        public DataWriter createWriter(int partition, long task, long epoch) {
            return this.createWriter(partition, task);
        }
    }

    public static final class SharedWriter implements DataWriter {
        private final PythonBatchWriterFactory factory;
        private final DataWriter rows;
        private final scala.collection.immutable.Map metrics = PythonCustomMetric$.MODULE$.pythonMetrics();
        private PythonWriterCommitMessage message;
        private boolean shared;

        SharedWriter(PythonBatchWriterFactory factory, DataWriter rows) {
            this.factory = factory;
            this.rows = rows;
        }

        public void write(Object row) {
            throw new UnsupportedOperationException("rows are written all at once");
        }

        public void writeAll(Iterator records) throws IOException {
            RowNotes notes = RowNotes.of(records, this.factory.inputSchema());
            if (notes == null) {
                this.rows.writeAll(records);
                return;
            }
            this.shared = true;
            MapInBatchEvaluatorFactory evaluators = this.factory.source().createMapInBatchEvaluatorFactory(
                this.factory.pickledWriteFunc(), "write_to_data_source", Worker.NOTES,
                UserDefinedPythonDataSource$.MODULE$.writeOutputSchema(), this.metrics,
                this.factory.jobArtifactUUID(), this.factory.sessionUUID());
            boolean done = false;
            try {
                scala.collection.Iterator answers = Worker.run(evaluators, notes);
                while (answers.hasNext()) {
                    ColumnarBatch answer = (ColumnarBatch) answers.next();
                    for (int i = 0; i < answer.numRows(); ++i) this.take((ArrowColumnVector) answer.column(0), i);
                }
                if (this.message == null) throw new IllegalStateException("the worker has sent no result");
                done = true;
            } finally {
                notes.close(done);
            }
        }

        private void take(ArrowColumnVector answers, int row) {
            if (this.message != null) throw new IllegalStateException("the worker has sent more than one result");
            this.message = new PythonWriterCommitMessage(answers.getChild(0).getBinary(row));
        }

        public WriterCommitMessage commit() throws IOException {
            return this.shared ? this.message : this.rows.commit();
        }

        public void abort() throws IOException {
            if (!this.shared) this.rows.abort();
        }

        public void close() throws IOException {
            if (!this.shared) this.rows.close();
        }

        public CustomTaskMetric[] currentMetricsValues() {
            if (!this.shared) return this.rows.currentMetricsValues();
            return Worker.metrics(this.factory.source(), this.metrics);
        }
    }
}
