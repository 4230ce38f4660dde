/*
 * format("moldau") for Spark's JVM: the Python source, read by column.
 *
 * Spark turns every Arrow batch of a Python source into rows, all columns of it, before a query sees it. Here the
 * same source hands over the batches as they are: the query's generated code takes from them what it needs, and
 * columns that a batch query does not name are not even read from the records. Planning, reading and writing stay
 * in Python; where this class is missing, Spark finds the Python source itself and everything works as before.
 *
 * Invariant: nothing is decided here. What Spark's own classes for Python sources do is left to them. Each of their
 * internals that is used is named in one place, and Moldau uses this class only with the Spark it was compiled
 * against. Compiled by Janino, which is a part of Spark: no lambdas, no generics that need a bridge method.
 */
package moldau.spark;

import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.ForeignAllocation;
import org.apache.arrow.memory.util.MemoryUtil;
import org.apache.arrow.vector.ValueVector;
import org.apache.arrow.vector.VectorLoader;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.message.ArrowFieldNode;
import org.apache.arrow.vector.ipc.message.ArrowRecordBatch;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatch;
import org.apache.spark.sql.execution.datasources.v2.python.PythonCustomMetric$;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream;
import org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonStreamingPartitionReaderFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource$;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.execution.python.MapInBatchEvaluatorFactory;
import org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.storage.StorageUtils;

import scala.Option;

public final class ColumnarSource extends PythonDataSourceV2
    implements DataSourceRegister, CreatableRelationProvider {
    /** The option of a write that is known to append: see createRelation. */
    static final String APPENDS = "moldau.appends";

    public String shortName() {
        return Worker.NAME;
    }

    public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
        return new ColumnarTable(this, schema, properties.containsKey(APPENDS));
    }

    /**
     * A batch write of which nobody said that it appends. Spark's sources of this kind know append and overwrite
     * only, and refuse a save() without a mode; those of the older kind, such as Spark's own connector for Kafka,
     * are told the mode. So a table takes no batches at first, upon which Spark falls back to the older kind, that
     * is, to this method; here a write without a mode becomes one that appends, and goes the usual way.
     */
    public BaseRelation createRelation(
        SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset data) {
        DataFrameWriter writer = data.write().format(Worker.NAME).options((scala.collection.Map) options);
        writer = writer.option(APPENDS, "true");
        writer.mode(mode == SaveMode.ErrorIfExists ? SaveMode.Append : mode).save();
        return new Written(context, data.schema());
    }

    /** What a write of the older kind returns; nobody reads it. */
    static final class Written extends BaseRelation {
        private final SQLContext context;
        private final StructType schema;

        Written(SQLContext context, StructType schema) {
            this.context = context;
            this.schema = schema;
        }

        public SQLContext sqlContext() {
            return this.context;
        }

        public StructType schema() {
            return this.schema;
        }
    }

    static final class ColumnarTable extends PythonTable {
        private final PythonDataSourceV2 source;
        private final StructType schema;
        private final boolean appends;

        ColumnarTable(PythonDataSourceV2 source, StructType schema, boolean appends) {
            super(source, Worker.NAME, schema);
            this.source = source;
            this.schema = schema;
            this.appends = appends;
        }

        public Set capabilities() {
            Set found = new HashSet(super.capabilities());
            if (!this.appends) found.remove(TableCapability.BATCH_WRITE);
            return found;
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new ColumnarScanBuilder(new OneScan(this.source), this.schema, options);
        }

        public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
            WriteBuilder rows = super.newWriteBuilder(info);
            return RowSegment.holds(info) ? new SharedWrite.Builder(this.source, info) : rows;
        }
    }

    /** What Spark keeps of a plan belongs to one scan: two scans of a table may have other columns or filters. */
    static final class OneScan extends PythonDataSourceV2 {
        private final PythonDataSourceV2 table;

        OneScan(PythonDataSourceV2 table) {
            this.table = table;
            this.setShortName(Worker.NAME);
        }

        public UserDefinedPythonDataSource source() {
            return this.table.source();
        }

        public PythonDataSourceCreationResult getOrCreateDataSourceInPython(
            String name, CaseInsensitiveStringMap options, Option schema) {
            return this.table.getOrCreateDataSourceInPython(name, options, schema);
        }
    }

    static final class ColumnarScanBuilder extends PythonScanBuilder implements SupportsPushDownRequiredColumns {
        private final PythonDataSourceV2 source;
        private final CaseInsensitiveStringMap options;
        private final StructType schema;
        private StructType required;
        private Filter[] filters = new Filter[0];

        ColumnarScanBuilder(PythonDataSourceV2 source, StructType schema, CaseInsensitiveStringMap options) {
            super(source, Worker.NAME, schema, options);
            this.source = source;
            this.options = options;
            this.schema = schema;
            this.required = schema;
        }

        /** Filters narrow what is read; Spark applies all of them again. */
        public Filter[] pushFilters(Filter[] filters) {
            this.filters = filters;
            return filters;
        }

        public Filter[] pushedFilters() {
            return new Filter[0];
        }

        public void pruneColumns(StructType required) {
            this.required = required;
        }

        public Scan build() {
            return new ColumnarScan(this.source, this.named(), this.options, Filters.encode(this.filters));
        }

        /** The columns that the query names, in the table's order; a count needs any one that is small. */
        private StructType named() {
            StructType found = new StructType();
            StructField[] fields = this.schema.fields();
            List names = Arrays.asList(this.required.fieldNames());
            for (int i = 0; i < fields.length; ++i) {
                // Whole columns: parts of a value are picked out of it later.
                if (names.contains(fields[i].name())) found = found.add(fields[i]);
            }
            if (found.length() > 0) return found;
            List all = Arrays.asList(this.schema.fieldNames());
            return found.add(fields[Math.max(0, all.indexOf("partition"))]);
        }
    }

    /** Filters as text: kind, column and numbers, with tabs between; a time is microseconds with a T before. */
    static final class Filters {
        static String[] encode(Filter[] filters) {
            List texts = new ArrayList();
            for (int i = 0; i < filters.length; ++i) {
                String text = encode(filters[i]);
                if (text != null) texts.add(text);
            }
            return (String[]) texts.toArray(new String[0]);
        }

        private static String encode(Filter filter) {
            if (filter instanceof EqualTo) return encode(filter, ((EqualTo) filter).value());
            if (filter instanceof GreaterThan) return encode(filter, ((GreaterThan) filter).value());
            if (filter instanceof GreaterThanOrEqual) return encode(filter, ((GreaterThanOrEqual) filter).value());
            if (filter instanceof LessThan) return encode(filter, ((LessThan) filter).value());
            if (filter instanceof LessThanOrEqual) return encode(filter, ((LessThanOrEqual) filter).value());
            if (!(filter instanceof In)) return null;
            Object[] values = ((In) filter).values();
            String numbers = "";
            for (int i = 0; i < values.length; ++i) {
                String number = number(values[i]);
                if (number == null) return null;
                numbers = numbers + "\t" + number;
            }
            return head(filter) + numbers;
        }

        private static String encode(Filter filter, Object value) {
            String number = number(value);
            return number == null ? null : head(filter) + "\t" + number;
        }

        private static String head(Filter filter) {
            return filter.getClass().getSimpleName() + "\t" + filter.references()[0];
        }

        private static String number(Object value) {
            if (value instanceof Integer || value instanceof Long) return value.toString();
            Instant time = null;
            if (value instanceof java.sql.Timestamp) time = ((java.sql.Timestamp) value).toInstant();
            if (value instanceof Instant) time = (Instant) value;
            return time == null ? null : "T" + ChronoUnit.MICROS.between(Instant.EPOCH, time);
        }
    }

    static final class ColumnarScan extends PythonScan {
        private final PythonDataSourceV2 source;
        private final StructType columns;
        private final CaseInsensitiveStringMap options;
        private final StructType notes;

        ColumnarScan(
            PythonDataSourceV2 source, StructType columns, CaseInsensitiveStringMap options, String[] filters) {
            super(source, Worker.NAME, columns, options, new Filter[0]);
            this.source = source;
            this.columns = columns;
            this.options = options;
            this.notes = Worker.notesOf(columns, filters);
        }

        public Scan.ColumnarSupportMode columnarSupportMode() {
            return Scan.ColumnarSupportMode.SUPPORTED;
        }

        public Batch toBatch() {
            return new ColumnarBatchRead(
                new PythonBatch(this.source, Worker.NAME, this.notes, this.options), this.columns);
        }

        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            PythonStreamingSourceRunner runner = PythonMicroBatchStream.createPythonStreamingSourceRunner(
                this.source, Worker.NAME, this.notes, this.options);
            runner.init();
            return new ColumnarStream(this.source, this.notes, this.columns, this.options, runner);
        }
    }

    static final class ColumnarBatchRead implements Batch {
        private final PythonBatch notes;
        private final StructType columns;

        ColumnarBatchRead(PythonBatch notes, StructType columns) {
            this.notes = notes;
            this.columns = columns;
        }

        public InputPartition[] planInputPartitions() {
            return this.notes.planInputPartitions();
        }

        public PartitionReaderFactory createReaderFactory() {
            PythonPartitionReaderFactory f = (PythonPartitionReaderFactory) this.notes.createReaderFactory();
            return new ColumnarReaderFactory(
                f.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$source,
                f.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$pickledReadFunc,
                this.columns,
                f.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$jobArtifactUUID,
                f.org$apache$spark$sql$execution$datasources$v2$python$PythonPartitionReaderFactory$$sessionUUID);
        }
    }

    /** Our Python reader supports every feature that Spark has for streams, so this is the only kind of stream. */
    static final class ColumnarStream extends PythonMicroBatchStreamWithTriggerAvailableNow {
        private final StructType columns;

        ColumnarStream(
            PythonDataSourceV2 source, StructType notes, StructType columns, CaseInsensitiveStringMap options,
            PythonStreamingSourceRunner runner) {
            super(source, Worker.NAME, notes, options, runner);
            this.columns = columns;
        }

        public PartitionReaderFactory createReaderFactory() {
            PythonStreamingPartitionReaderFactory f =
                (PythonStreamingPartitionReaderFactory) super.createReaderFactory();
            return new ColumnarReaderFactory(
                f.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$source,
                f.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$pickledReadFunc,
                this.columns,
                f.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$jobArtifactUUID,
                f.org$apache$spark$sql$execution$datasources$v2$python$PythonStreamingPartitionReaderFactory$$sessionUUID);
        }
    }

    static final class ColumnarReaderFactory implements PartitionReaderFactory {
        private final UserDefinedPythonDataSource source;
        private final byte[] function;
        private final StructType columns;
        private final Option artifacts;
        private final Option session;

        ColumnarReaderFactory(
            UserDefinedPythonDataSource source, byte[] function, StructType columns, Option artifacts,
            Option session) {
            this.source = source;
            this.function = function;
            this.columns = columns;
            this.artifacts = artifacts;
            this.session = session;
        }

        public boolean supportColumnarReads(InputPartition partition) {
            return true;
        }

        public PartitionReader createReader(InputPartition partition) {
            throw new UnsupportedOperationException("this source is read by column");
        }

        public PartitionReader createColumnarReader(InputPartition partition) {
            byte[] pickled = partition instanceof PythonInputPartition
                ? ((PythonInputPartition) partition).pickedPartition()
                : ((PythonStreamingInputPartition) partition).pickedPartition();
            scala.collection.immutable.Map metrics = PythonCustomMetric$.MODULE$.pythonMetrics();
            MapInBatchEvaluatorFactory evaluators = this.source.createMapInBatchEvaluatorFactory(
                this.function, "read_from_data_source", UserDefinedPythonDataSource$.MODULE$.readInputSchema(),
                Worker.NOTES, metrics, this.artifacts, this.session);
            InternalRow row = new GenericInternalRow(new Object[] {new GenericInternalRow(new Object[] {pickled})});
            scala.collection.Iterator rows = scala.collection.Iterator$.MODULE$.single(row);
            scala.collection.Iterator notes =
                Worker.run(evaluators, scala.collection.Iterator$.MODULE$.single(rows));
            return new ColumnarReader(this.source, metrics, notes, this.columns);
        }
    }

    /** Reads the notes that come from the worker, and the batches from where the notes say. */
    static final class ColumnarReader implements PartitionReader {
        private final UserDefinedPythonDataSource source;
        private final scala.collection.immutable.Map metrics;
        private final scala.collection.Iterator notes;
        private final SharedBatches batches;

        ColumnarReader(
            UserDefinedPythonDataSource source, scala.collection.immutable.Map metrics,
            scala.collection.Iterator notes, StructType columns) {
            this.source = source;
            this.metrics = metrics;
            this.notes = notes;
            this.batches = new SharedBatches(columns);
        }

        /** A caller that asks for the next batch has finished with the last one. */
        public boolean next() throws IOException {
            this.batches.release();
            while (this.notes.hasNext()) {
                ColumnarBatch message = (ColumnarBatch) this.notes.next();
                byte[] note = ((ArrowColumnVector) message.column(0)).getChild(0).getBinary(0);
                if (this.batches.load(ByteBuffer.wrap(note).order(ByteOrder.LITTLE_ENDIAN))) return true;
            }
            return false;
        }

        public Object get() {
            return this.batches.batch();
        }

        public CustomTaskMetric[] currentMetricsValues() {
            return Worker.metrics(this.source, this.metrics);
        }

        public void close() throws IOException {
            this.batches.close();
        }
    }

    /** The segments of one worker, mapped; shared_batches.py is the other side. */
    static final class SharedBatches {
        private final BufferAllocator allocator;
        private final VectorSchemaRoot root;
        private final VectorLoader loader;
        private final ColumnVector[] vectors;
        /** The columns of this batch; which of them are placed may differ from batch to batch. */
        private ColumnVector[] shown;
        private final Map segments = new HashMap();
        private OutputStream acknowledgements;
        private boolean held;

        SharedBatches(StructType columns) {
            this.allocator = ArrowUtils.rootAllocator().newChildAllocator("moldau", 0L, Long.MAX_VALUE);
            Schema schema =
                ArrowUtils.toArrowSchema(columns, "UTC", false, false, ArrowUtils.toArrowSchema$default$5());
            this.root = VectorSchemaRoot.create(schema, this.allocator);
            this.loader = new VectorLoader(this.root);
            this.vectors = new ColumnVector[columns.length()];
            for (int i = 0; i < this.vectors.length; ++i) {
                this.vectors[i] = new KeptVector(this.root.getVector(i));
            }
        }

        /** False for a note that is only a heartbeat. */
        boolean load(ByteBuffer note) throws IOException {
            int worker = note.getInt();
            if (worker == 0) return false;
            String process = "/proc/" + worker + "/fd/";
            int pipe = note.getInt();
            int descriptor = note.getInt();
            int rows = note.getInt();
            ByteBuffer segment = this.segment(process + descriptor, note.getLong(), note.getLong());
            if (this.acknowledgements == null) this.acknowledgements = new FileOutputStream(process + pipe);
            int arrays = note.getInt();
            int buffers = note.getInt();
            int placed = note.getInt();
            List nodes = new ArrayList(arrays);
            for (int i = 0; i < arrays; ++i) nodes.add(new ArrowFieldNode(note.getLong(), note.getLong()));
            long address = MemoryUtil.getByteBufferAddress(segment);
            ArrowBuf bytes = this.allocator.wrapForeignAllocation(new MappedSegment(segment.capacity(), address));
            List parts = new ArrayList(buffers);
            for (int i = 0; i < buffers; ++i) parts.add(bytes.slice(note.getLong(), note.getLong()));
            ArrowRecordBatch batch = new ArrowRecordBatch(rows, nodes, parts);
            bytes.getReferenceManager().release();
            try {
                this.loader.load(batch);
            } finally {
                batch.close();
            }
            this.shown = (ColumnVector[]) this.vectors.clone();
            for (int i = 0; i < placed; ++i) {
                int column = (int) note.getLong();
                int nulls = (int) note.getLong();
                long places = address + note.getLong();
                long sizes = address + note.getLong();
                DataType type = this.vectors[column].dataType();
                this.shown[column] = new PlacedVector(type, address, places, sizes, nulls);
            }
            this.held = true;
            return true;
        }

        ColumnarBatch batch() {
            return new ColumnarBatch(this.shown, this.root.getRowCount());
        }

        void release() throws IOException {
            if (this.held) {
                this.held = false;
                this.acknowledgements.write(1);
            }
        }

        void close() throws IOException {
            try {
                this.root.close();
                this.allocator.close();
            } finally {
                Iterator each = this.segments.values().iterator();
                while (each.hasNext()) StorageUtils.dispose((ByteBuffer) each.next());
                this.segments.clear();
                if (this.acknowledgements != null) this.acknowledgements.close();
            }
        }

        private static FileInputStream opened(String path) throws IOException {
            try {
                return new FileInputStream(path);
            } catch (FileNotFoundException gone) {
                throw new IOException("Python worker exited unexpectedly: its memory is gone", gone);
            }
        }

        private ByteBuffer segment(String path, long number, long size) throws IOException {
            Long key = Long.valueOf(number);
            ByteBuffer known = (ByteBuffer) this.segments.get(key);
            if (known == null) {
                FileInputStream file = opened(path);
                try {
                    known = file.getChannel().map(FileChannel.MapMode.READ_ONLY, 0L, size);
                } finally {
                    file.close();
                }
                known.order(ByteOrder.LITTLE_ENDIAN);
                this.segments.put(key, known);
            }
            return known;
        }
    }

    /** A column that outlives a batch: Spark closes what it has read, and a struct that was closed has no fields. */
    static final class KeptVector extends ArrowColumnVector {
        KeptVector(ValueVector vector) {
            super(vector);
        }

        public void close() {
            // The root is closed in the end.
        }

        public void closeIfFreeable() {
            // As above.
        }
    }

    /** Memory that Arrow must not free. */
    static final class MappedSegment extends ForeignAllocation {
        MappedSegment(long size, long address) {
            super(size, address);
        }

        protected void release0() {
            // It belongs to the worker.
        }
    }
}
