package moldau.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.concurrent.locks.LockSupport;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructType;

/** One note for each segment that was filled with rows, each as a batch of its own. */
public final class RowNotes extends scala.collection.AbstractIterator {
    private static final int SEGMENTS = RowSegment.A_TASK;
    private static final long SIGN_OF_LIFE_NANOS = 1000000000L;
    private static final long LOOK_NANOS = 50000L;
    /** A smaller note could stay in a buffer between Spark and the worker. */
    private static final int NOTE_BYTES = 65536 + 64;
    /** Larger than a socket buffer: while the worker reads it, Spark waits and sees what the worker sends. */
    private static final int HEARTBEAT_BYTES = 1 << 20;

    private final Iterator records;
    private final RowSegment.Columns columns;
    private final RowSegment[] segments = new RowSegment[SEGMENTS];
    private int turn;
    private InternalRow waiting;
    private boolean failed;

    private RowNotes(Iterator records, RowSegment.Columns columns) {
        this.records = records;
        this.columns = columns;
    }

    /** None where there is no memory to share. */
    public static RowNotes of(Iterator records, StructType schema) {
        RowNotes notes = new RowNotes(records, new RowSegment.Columns(schema));
        try {
            notes.segments[0] = RowSegment.take();
        } catch (IOException refused) {
            return null;
        }
        return notes;
    }

    public boolean hasNext() {
        return !this.failed && (this.waiting != null || this.records.hasNext());
    }

    public Object next() {
        RowSegment segment = this.free();
        byte[] note = new byte[segment != null ? NOTE_BYTES : HEARTBEAT_BYTES];
        if (segment != null) this.fill(segment, ByteBuffer.wrap(note).order(ByteOrder.LITTLE_ENDIAN));
        InternalRow row = new GenericInternalRow(new Object[] {new GenericInternalRow(new Object[] {note})});
        return scala.collection.Iterator$.MODULE$.single(row);
    }

    /** The next segment, when the worker is done with it; none if that takes long, or if the worker has failed. */
    private RowSegment free() {
        RowSegment segment = this.segments[this.turn];
        if (segment == null) {
            try {
                segment = this.segments[this.turn] = RowSegment.take();
            } catch (IOException refused) {
                this.turn = 0;
                segment = this.segments[0];
            }
        }
        long until = System.nanoTime() + SIGN_OF_LIFE_NANOS;
        while (!segment.free()) {
            this.failed = segment.failed();
            if (this.failed || System.nanoTime() > until) return null;
            LockSupport.parkNanos(LOOK_NANOS);
        }
        this.turn = (this.turn + 1) % SEGMENTS;
        return segment;
    }

    private void fill(RowSegment segment, ByteBuffer note) {
        segment.begin();
        while (this.hasNext()) {
            InternalRow row = this.waiting != null ? this.waiting : (InternalRow) this.records.next();
            this.waiting = null;
            if (!segment.add(row, this.columns)) {
                this.waiting = row;
                break;
            }
        }
        segment.describe(note, this.columns);
    }

    public void close(boolean done) {
        for (int i = 0; i < SEGMENTS; ++i) {
            if (this.segments[i] != null) this.segments[i].give(done);
        }
    }
}

