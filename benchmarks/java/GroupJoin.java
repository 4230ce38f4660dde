import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * From subscribing in a new group to the first record: bootstrap-server topic group.protocol joins warm-up.
 *
 * A consumer of its own and a group of its own each time, one after the other, with default settings but for
 * auto.offset.reset: connecting, finding the coordinator, joining, looking for committed offsets and fetching all count.
 * Prints the microseconds of one join a line.
 */
public final class GroupJoin {
    public static void main(String[] arguments) {
        int joins = Integer.parseInt(arguments[3]);
        int warmUp = Integer.parseInt(arguments[4]);
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < warmUp + joins; i++) {
            long microseconds = timeJoin(arguments[0], arguments[1], arguments[2]);
            if (i >= warmUp) lines.append(microseconds).append('\n');
        }
        System.out.print(lines);
    }

    private static long timeJoin(String bootstrapServers, String topic, String protocol) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", bootstrapServers,
            "group.id", "join-" + UUID.randomUUID(),
            "group.protocol", protocol,
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class));
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            long begin = System.nanoTime();
            consumer.subscribe(List.of(topic));
            while (consumer.poll(Duration.ofSeconds(20)).isEmpty()) {
                if (System.nanoTime() - begin > 60_000_000_000L) throw new IllegalStateException("no record for 60 s");
            }
            return (System.nanoTime() - begin) / 1000;
        }
    }
}
