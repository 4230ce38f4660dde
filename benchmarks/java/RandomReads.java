import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Random reads in one partition: bootstrap-server topic reads warm-up seed.
 *
 * Seeks to a random offset and reads one record there; then looks up random timestamps. Prints `fetch microseconds` and
 * `timestamp microseconds`, one a line.
 */
public final class RandomReads {
    public static void main(String[] arguments) {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        int reads = Integer.parseInt(arguments[2]);
        int warmUp = Integer.parseInt(arguments[3]);
        Random random = new Random(Long.parseLong(arguments[4]));
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "enable.auto.commit", false,
            "max.poll.records", 1,
            "max.partition.fetch.bytes", 1024,
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class);
        StringBuilder lines = new StringBuilder();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.assign(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long first = timestampAt(consumer, partition, 0);
            long last = timestampAt(consumer, partition, end - 1);
            for (int i = 0; i < warmUp + reads; i++) {
                long begin = System.nanoTime();
                long offset = (long) (random.nextDouble() * end);
                long found = offsetAt(consumer, partition, offset);
                if (found != offset) throw new IllegalStateException("offset " + found + " instead of " + offset);
                if (i >= warmUp) lines.append("fetch ").append((System.nanoTime() - begin) / 1000).append('\n');
            }
            for (int i = 0; i < warmUp + reads; i++) {
                long timestamp = first + (long) (random.nextDouble() * (last - first));
                long begin = System.nanoTime();
                if (consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition) == null) {
                    throw new IllegalStateException("no record at or after " + timestamp);
                }
                if (i >= warmUp) lines.append("timestamp ").append((System.nanoTime() - begin) / 1000).append('\n');
            }
        }
        System.out.print(lines);
    }

    private static long offsetAt(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long offset) {
        consumer.seek(partition, offset);
        while (true) {
            for (var record : consumer.poll(Duration.ofSeconds(20))) return record.offset();
        }
    }

    private static long timestampAt(KafkaConsumer<byte[], byte[]> consumer, TopicPartition partition, long offset) {
        consumer.seek(partition, offset);
        while (true) {
            for (var record : consumer.poll(Duration.ofSeconds(20))) return record.timestamp();
        }
    }
}
