package moldau.spark;

import java.io.FileDescriptor;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.FileAttribute;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

import org.apache.arrow.memory.util.MemoryUtil;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.storage.StorageUtils;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Shared memory for rows: the position and size of each key and value, partitions, timestamps, and then the bytes.
 * A file without a name; the worker opens it below /proc, and writes a 1 to its first bytes when it is done with the
 * rows, or a 2 when it has failed and is about to say why.
 */
public final class RowSegment {
    /** One that is being filled, one that the worker reads, and one that is ready in between. */
    public static final int A_TASK = 3;
    private static final int ROWS = 32768;
    private static final int SIZE = 6 << 20;
    private static final int AT = 64;
    private static final int COLUMN = ROWS * 8;
    /** Key at, key size, value at, value size, partition, timestamp. */
    private static final int BYTES_AT = AT + 6 * COLUMN;
    private static final int LARGEST = 1 << 30;
    private static final ConcurrentLinkedQueue KEPT = new ConcurrentLinkedQueue();
    private static final AtomicLong MADE = new AtomicLong();

    private final long number = MADE.incrementAndGet();
    private final RandomAccessFile file;
    private final int descriptor;
    private ByteBuffer memory;
    private long address;
    private int size;
    private int rows;
    private int used;

    private RowSegment() throws IOException {
        Path path = Files.createTempFile(Paths.get("/dev/shm", new String[0]), "moldau-", null, new FileAttribute[0]);
        this.file = new RandomAccessFile(path.toFile(), "rw");
        Files.delete(path);
        try {
            Field field = FileDescriptor.class.getDeclaredField("fd");
            field.setAccessible(true);
            this.descriptor = field.getInt(this.file.getFD());
            this.grow(SIZE);
        } catch (Exception refused) {
            this.file.close();
            throw new IOException("no memory to share", refused);
        }
    }

    /** Whether rows of such columns can be written here as they are. */
    public static boolean holds(LogicalWriteInfo info) {
        Iterator options = info.options().keySet().iterator();
        while (options.hasNext()) {
            String option = ((String) options.next()).toLowerCase();
            // Typed values are encoded from whole columns.
            if (option.matches("(key|value|schema\\.registry)\\..*|flatten")) return false;
        }
        StructField[] fields = info.schema().fields();
        for (int i = 0; i < fields.length; ++i) {
            String name = fields[i].name();
            DataType type = fields[i].dataType();
            boolean text = type instanceof StringType || type instanceof BinaryType;
            boolean held = name.equals("key") || name.equals("value") ? text
                : name.equals("partition") ? type instanceof IntegerType
                : name.equals("timestamp") && type instanceof TimestampType;
            if (!held) return false;
        }
        return true;
    }

    public static RowSegment take() throws IOException {
        RowSegment kept = (RowSegment) KEPT.poll();
        return kept != null ? kept : new RowSegment();
    }

    /** Kept for another task; a segment that the worker may still read is closed instead. */
    public void give(boolean done) {
        if (done && this.size == SIZE && KEPT.size() < A_TASK * Runtime.getRuntime().availableProcessors()) {
            this.memory.putLong(0, 1L);
            KEPT.add(this);
            return;
        }
        StorageUtils.dispose(this.memory);
        try {
            this.file.close();
        } catch (IOException ignored) {
            // There is nothing that closing could lose.
        }
    }

    /** Allocates every page now: a page that is missing later would end the process with a SIGBUS. */
    private void grow(int wanted) throws IOException {
        byte[] nothing = new byte[1 << 20];
        this.file.seek(this.size);
        for (int left = wanted - this.size; left > 0; left -= nothing.length) {
            this.file.write(nothing, 0, Math.min(left, nothing.length));
        }
        if (this.memory != null) StorageUtils.dispose(this.memory);
        this.memory = this.file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0L, (long) wanted);
        this.memory.order(ByteOrder.LITTLE_ENDIAN);
        this.address = MemoryUtil.getByteBufferAddress(this.memory);
        if (this.size == 0) this.memory.putLong(0, 1L);
        this.size = wanted;
    }

    public boolean free() {
        boolean free = this.memory.getLong(0) == 1L;
        VarHandle.fullFence();
        return free;
    }

    public boolean failed() {
        return this.memory.getLong(0) == 2L;
    }

    public void begin() {
        this.memory.putLong(0, 0L);
        this.rows = 0;
        this.used = BYTES_AT;
    }

    /** False where the row has to wait for the next segment. */
    public boolean add(InternalRow row, Columns columns) {
        if (this.rows == ROWS) return false;
        UTF8String key = columns.text(row, columns.key, columns.keyText);
        UTF8String value = columns.text(row, columns.value, columns.valueText);
        long needed = (key == null ? 0L : key.numBytes()) + (value == null ? 0L : value.numBytes());
        if (needed > this.size - this.used) {
            if (this.rows > 0) return false;
            this.enlarge(needed);
        }
        long slot = this.address + AT + 8L * this.rows;
        this.put(slot, key);
        this.put(slot + 2L * COLUMN, value);
        if (columns.partition >= 0) {
            long partition = row.isNullAt(columns.partition) ? -1L : (long) row.getInt(columns.partition);
            Platform.putLong(null, slot + 4L * COLUMN, partition);
        }
        if (columns.timestamp >= 0) {
            boolean none = row.isNullAt(columns.timestamp);
            Platform.putLong(null, slot + 5L * COLUMN, none ? Long.MIN_VALUE : row.getLong(columns.timestamp));
        }
        ++this.rows;
        return true;
    }

    private void put(long slot, UTF8String text) {
        Platform.putLong(null, slot, (long) this.used);
        Platform.putLong(null, slot + COLUMN, text == null ? -1L : (long) text.numBytes());
        if (text == null) return;
        text.writeToMemory(null, this.address + this.used);
        this.used += text.numBytes();
    }

    private void enlarge(long needed) {
        long wanted = BYTES_AT + needed;
        if (wanted > LARGEST) throw new IllegalArgumentException("a row of " + needed + " bytes is too large");
        try {
            this.grow((int) wanted);
        } catch (IOException refused) {
            throw new UncheckedIOException(
                "no shared memory for a row of " + needed + " bytes: make /dev/shm larger, or start the session with "
                    + "MOLDAU_SPARK_COLUMNAR=off", refused);
        }
    }

    public void describe(ByteBuffer note, Columns columns) {
        note.putInt((int) ProcessHandle.current().pid()).putInt(this.descriptor).putInt(this.rows);
        note.putInt((columns.key >= 0 ? 1 : 0) | (columns.partition >= 0 ? 2 : 0) | (columns.timestamp >= 0 ? 4 : 0));
        note.putLong(this.number).putLong((long) this.size).putLong((long) COLUMN);
    }

    /** The indexes of a row's columns; -1 for a column that is absent. */
    public static final class Columns {
        public final int key;
        public final int value;
        public final int partition;
        public final int timestamp;
        public final boolean keyText;
        public final boolean valueText;

        public Columns(StructType schema) {
            List names = Arrays.asList(schema.fieldNames());
            this.key = names.indexOf("key");
            this.value = names.indexOf("value");
            this.partition = names.indexOf("partition");
            this.timestamp = names.indexOf("timestamp");
            this.keyText = this.key >= 0 && schema.fields()[this.key].dataType() instanceof StringType;
            this.valueText = this.value >= 0 && schema.fields()[this.value].dataType() instanceof StringType;
        }

        /** Bytes and strings have the same layout in Spark's own rows, and are read in place. */
        public UTF8String text(InternalRow row, int column, boolean text) {
            if (column < 0 || row.isNullAt(column)) return null;
            if (text || row instanceof UnsafeRow) return row.getUTF8String(column);
            return UTF8String.fromBytes(row.getBinary(column));
        }
    }
}

