import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * The two live groups of the golden transcripts: java GroupMembers bootstrap-server
 *
 * g-classic has one member of the classic protocol, g-consumer one of the newer; both have read the topic orders to its
 * end and committed. Prints "ready", stays until its standard input ends, and leaves both groups.
 */
public final class GroupMembers {
    public static void main(String[] arguments) throws Exception {
        try (KafkaConsumer<String, String> classic = consumer(arguments[0], "g-classic", "console-consumer", "classic");
             KafkaConsumer<String, String> newer = consumer(arguments[0], "g-consumer", "app-1", "consumer")) {
            readAll(classic);
            readAll(newer);
            System.out.println("ready");
            Thread watcher = new Thread(GroupMembers::awaitEndOfInput);
            watcher.setDaemon(true);
            watcher.start();
            while (watcher.isAlive()) {
                classic.poll(Duration.ofMillis(50));
                newer.poll(Duration.ofMillis(50));
            }
        }
    }

    private static void awaitEndOfInput() {
        try {
            System.in.transferTo(OutputStream.nullOutputStream());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void readAll(KafkaConsumer<String, String> consumer) {
        consumer.subscribe(List.of("orders"));
        for (int read = 0; read < 15; ) read += consumer.poll(Duration.ofSeconds(1)).count();
        consumer.commitSync();
    }

    private static KafkaConsumer<String, String> consumer(String bootstrapServers, String group, String client, String protocol) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrapServers, "group.id", group,
            "client.id", client, "group.protocol", protocol, "enable.auto.commit", false, "auto.offset.reset", "earliest",
            "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class));
        return new KafkaConsumer<>(settings);
    }
}
