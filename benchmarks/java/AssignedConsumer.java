import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Consumer throughput without a group: bootstrap-server topic records passes.
 *
 * Reads the topic from its beginning as often as told with the consumer's default settings, and prints one line for each
 * pass: seconds, records, bytes. The first pass warms the JVM up.
 */
public final class AssignedConsumer {
    public static void main(String[] arguments) {
        String topic = arguments[1];
        long wanted = Long.parseLong(arguments[2]);
        int passes = Integer.parseInt(arguments[3]);
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "enable.auto.commit", false,
            "auto.offset.reset", "earliest",
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class);
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            List<TopicPartition> partitions = consumer.partitionsFor(topic).stream()
                .map(info -> new TopicPartition(topic, info.partition())).toList();
            consumer.assign(partitions);
            for (int pass = 0; pass < passes; pass++) {
                consumer.seekToBeginning(partitions);
                long begin = System.nanoTime();
                long records = 0;
                long bytes = 0;
                while (records < wanted) {
                    ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofSeconds(20));
                    if (polled.isEmpty()) throw new IllegalStateException("no records for 20 s after " + records);
                    records += polled.count();
                    for (ConsumerRecord<byte[], byte[]> record : polled) bytes += record.value().length;
                }
                System.out.println((System.nanoTime() - begin) / 1e9 + " " + records + " " + bytes);
            }
        }
    }
}
