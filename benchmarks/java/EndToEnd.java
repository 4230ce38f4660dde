import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * End-to-end latency, one record at a time: bootstrap-server topic acks fetch.max.wait.ms records warm-up size.
 *
 * What Kafka's own EndToEndLatency does (send, wait for the acknowledgement, poll until the record arrives), with an
 * assigned partition and in microseconds where that tool prints whole milliseconds. Prints one latency a line.
 */
public final class EndToEnd {
    public static void main(String[] arguments) throws Exception {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        int records = Integer.parseInt(arguments[4]);
        int warmUp = Integer.parseInt(arguments[5]);
        byte[] value = new byte[Integer.parseInt(arguments[6])];
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0],
            "acks", arguments[2],
            "enable.idempotence", arguments[2].equals("all"),
            "linger.ms", 0,
            "key.serializer", ByteArraySerializer.class,
            "value.serializer", ByteArraySerializer.class));
        Map<String, Object> reading = new HashMap<>(Map.of(
            "bootstrap.servers", arguments[0],
            "enable.auto.commit", false,
            "auto.offset.reset", "latest",
            "fetch.max.wait.ms", Integer.parseInt(arguments[3]),
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class));
        StringBuilder latencies = new StringBuilder();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(settings);
                KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading)) {
            consumer.assign(List.of(partition));
            consumer.seekToEnd(List.of(partition));
            consumer.position(partition);
            for (int i = 0; i < warmUp + records; i++) {
                long begin = System.nanoTime();
                producer.send(new ProducerRecord<>(partition.topic(), partition.partition(), null, value)).get();
                int received = 0;
                while (received == 0) received = consumer.poll(Duration.ofSeconds(20)).count();
                long microseconds = (System.nanoTime() - begin) / 1000;
                if (received != 1) throw new IllegalStateException(received + " records instead of one");
                if (i >= warmUp) latencies.append(microseconds).append('\n');
            }
        }
        System.out.print(latencies);
    }
}
