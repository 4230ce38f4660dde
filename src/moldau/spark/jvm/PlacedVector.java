package moldau.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of bytes that stay where the broker's answer put them; two arrays have the position and size of each. */
public final class PlacedVector extends ColumnVector {
    private final long base;
    private final long places;
    private final long sizes;
    private final int nulls;

    /** Addresses: of the memory, of the positions in it and of the sizes, which are below 0 for a null. */
    public PlacedVector(DataType type, long base, long places, long sizes, int nulls) {
        super(type);
        this.base = base;
        this.places = places;
        this.sizes = sizes;
        this.nulls = nulls;
    }

    public byte[] getBinary(int row) {
        long size = Platform.getLong(null, this.sizes + 8L * row);
        if (size < 0L) return null;
        byte[] bytes = new byte[(int) size];
        long at = this.base + Platform.getLong(null, this.places + 8L * row);
        Platform.copyMemory(null, at, bytes, Platform.BYTE_ARRAY_OFFSET, size);
        return bytes;
    }

    public boolean isNullAt(int row) {
        return this.nulls > 0 && Platform.getLong(null, this.sizes + 8L * row) < 0L;
    }

    public boolean hasNull() {
        return this.nulls > 0;
    }

    public int numNulls() {
        return this.nulls;
    }

    public void close() {
        // The memory is the worker's.
    }

    public void closeIfFreeable() {
        // As above.
    }

    public UTF8String getUTF8String(int row) {
        return UTF8String.fromBytes(this.getBinary(row));
    }

    public boolean getBoolean(int row) {
        throw new UnsupportedOperationException("bytes only");
    }

    public byte getByte(int row) {
        throw new UnsupportedOperationException("bytes only");
    }

    public short getShort(int row) {
        throw new UnsupportedOperationException("bytes only");
    }

    public int getInt(int row) {
        throw new UnsupportedOperationException("bytes only");
    }

    public long getLong(int row) {
        throw new UnsupportedOperationException("bytes only");
    }

    public float getFloat(int row) {
        throw new UnsupportedOperationException("bytes only");
    }

    public double getDouble(int row) {
        throw new UnsupportedOperationException("bytes only");
    }

    public ColumnarArray getArray(int row) {
        throw new UnsupportedOperationException("bytes only");
    }

    public ColumnarMap getMap(int row) {
        throw new UnsupportedOperationException("bytes only");
    }

    public Decimal getDecimal(int row, int precision, int scale) {
        throw new UnsupportedOperationException("bytes only");
    }

    public ColumnVector getChild(int index) {
        throw new UnsupportedOperationException("bytes only");
    }
}
