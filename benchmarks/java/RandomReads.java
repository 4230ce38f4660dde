import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Random reads in several logs: bootstrap-server reads warm-up seed topic...
 *
 * Seeks to a random offset and reads one record there, then looks up a random timestamp, in each topic in turn, so that
 * whatever else happens on the machine meets all of them alike. Prints `topic fetch-microseconds look-up-microseconds`.
 */
public final class RandomReads {
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TopicPartition partition;
    private final Random random;
    private final long end;
    private final long first;
    private final long last;

    private RandomReads(String bootstrapServers, String topic, long seed) {
        consumer = new KafkaConsumer<>(Map.of(
            "bootstrap.servers", bootstrapServers,
            "enable.auto.commit", false,
            "max.poll.records", 1,
            "max.partition.fetch.bytes", 1024,
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class));
        partition = new TopicPartition(topic, 0);
        random = new Random(seed);
        consumer.assign(List.of(partition));
        end = consumer.endOffsets(List.of(partition)).get(partition);
        first = recordAt(0).timestamp();
        last = recordAt(end - 1).timestamp();
    }

    public static void main(String[] arguments) {
        int reads = Integer.parseInt(arguments[1]);
        int warmUp = Integer.parseInt(arguments[2]);
        List<RandomReads> logs = new ArrayList<>();
        for (int i = 4; i < arguments.length; i++) {
            logs.add(new RandomReads(arguments[0], arguments[i], Long.parseLong(arguments[3])));
        }
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < warmUp + reads; i++) {
            for (RandomReads log : logs) {
                long fetch = log.timeFetch();
                long lookUp = log.timeLookUp();
                if (i < warmUp) continue;
                lines.append(log.partition.topic()).append(' ').append(fetch).append(' ').append(lookUp).append('\n');
            }
        }
        logs.forEach(log -> log.consumer.close());
        System.out.print(lines);
    }

    private long timeFetch() {
        long offset = (long) (random.nextDouble() * end);
        long begin = System.nanoTime();
        long found = recordAt(offset).offset();
        long microseconds = (System.nanoTime() - begin) / 1000;
        if (found != offset) throw new IllegalStateException("offset " + found + " instead of " + offset);
        return microseconds;
    }

    private long timeLookUp() {
        long timestamp = first + (long) (random.nextDouble() * (last - first));
        long begin = System.nanoTime();
        if (consumer.offsetsForTimes(Map.of(partition, timestamp)).get(partition) == null) {
            throw new IllegalStateException("no record at or after " + timestamp);
        }
        return (System.nanoTime() - begin) / 1000;
    }

    private ConsumerRecord<byte[], byte[]> recordAt(long offset) {
        consumer.seek(partition, offset);
        while (true) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(20))) return record;
        }
    }
}
