package moldau.spark;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.concurrent.locks.LockSupport;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructType;

/** One note for each room that was filled with rows, each as a batch of its own. */
public final class RowNotes extends scala.collection.AbstractIterator {
    private static final int ROOMS = RowRoom.A_TASK;
    private static final long SIGN_OF_LIFE_NANOS = 1000000000L;
    private static final long LOOK_NANOS = 50000L;
    /** What is smaller may be kept back on its way. */
    private static final int NOTE_BYTES = 65536 + 64;
    /** Too large for a socket: Spark has to wait until it is taken, and looks meanwhile whether the worker says anything. */
    private static final int SIGN_OF_LIFE_BYTES = 1 << 20;

    private final Iterator records;
    private final RowRoom.Columns columns;
    private final RowRoom[] rooms = new RowRoom[ROOMS];
    private int turn;
    private InternalRow waiting;
    private boolean failed;

    private RowNotes(Iterator records, RowRoom.Columns columns) {
        this.records = records;
        this.columns = columns;
    }

    /** None where there is no memory to share. */
    public static RowNotes of(Iterator records, StructType schema) {
        RowNotes notes = new RowNotes(records, new RowRoom.Columns(schema));
        try {
            notes.rooms[0] = RowRoom.take();
        } catch (IOException refused) {
            return null;
        }
        return notes;
    }

    public boolean hasNext() {
        return !this.failed && (this.waiting != null || this.records.hasNext());
    }

    public Object next() {
        RowRoom room = this.free();
        byte[] note = new byte[room != null ? NOTE_BYTES : SIGN_OF_LIFE_BYTES];
        if (room != null) this.fill(room, ByteBuffer.wrap(note).order(ByteOrder.LITTLE_ENDIAN));
        InternalRow row = new GenericInternalRow(new Object[] {new GenericInternalRow(new Object[] {note})});
        return scala.collection.Iterator$.MODULE$.single(row);
    }

    /** The next room, when the worker is done with it; none if that takes long, or if the worker has failed. */
    private RowRoom free() {
        RowRoom room = this.rooms[this.turn];
        if (room == null) {
            try {
                room = this.rooms[this.turn] = RowRoom.take();
            } catch (IOException refused) {
                this.turn = 0;
                room = this.rooms[0];
            }
        }
        long until = System.nanoTime() + SIGN_OF_LIFE_NANOS;
        while (!room.free()) {
            this.failed = room.failed();
            if (this.failed || System.nanoTime() > until) return null;
            LockSupport.parkNanos(LOOK_NANOS);
        }
        this.turn = (this.turn + 1) % ROOMS;
        return room;
    }

    private void fill(RowRoom room, ByteBuffer note) {
        room.begin();
        while (this.hasNext()) {
            InternalRow row = this.waiting != null ? this.waiting : (InternalRow) this.records.next();
            this.waiting = null;
            if (!room.add(row, this.columns)) {
                this.waiting = row;
                break;
            }
        }
        room.tell(note, this.columns);
    }

    public void close(boolean done) {
        for (int i = 0; i < ROOMS; ++i) {
            if (this.rooms[i] != null) this.rooms[i].give(done);
        }
    }
}

