import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The state that the golden transcripts were captured in: java Fixtures bootstrap-server fixture...
 *
 * Keys, values and timestamps are those of the capture, so that sizes and checksums come out the same.
 */
public final class Fixtures {
    private static final long BEGIN = Instant.parse("2026-01-01T00:00:00Z").toEpochMilli();
    private static final long MINUTE = 60_000;
    /** The records are old: without this, retention would take them away half a minute later. */
    private static final Map<String, String> KEEP = Map.of("retention.ms", "-1");
    private final String bootstrapServers;

    private Fixtures(String bootstrapServers) {
        this.bootstrapServers = bootstrapServers;
    }

    public static void main(String[] arguments) throws Exception {
        Fixtures fixtures = new Fixtures(arguments[0]);
        for (int i = 1; i < arguments.length; i++) fixtures.make(arguments[i]);
    }

    private void make(String fixture) throws Exception {
        switch (fixture) {
            case "topics" -> {
                create("orders", 3, Map.of("retention.ms", "-1"));
                create("payments", 1, Map.of(
                    "cleanup.policy", "compact", "segment.bytes", "1048576", "min.cleanable.dirty.ratio", "0.1"));
                create("audit.log", 4, Map.of());
            }
            case "records" -> {
                oneByOne("orders", 0, 10, BEGIN, "k", "v");
                oneByOne("orders", 1, 5, BEGIN + 60 * MINUTE, "k", "v");
                oneByOne("payments", 0, 3, BEGIN, "pk", "pv");
            }
            case "deleted-records" -> {
                try (Admin admin = Admin.create(client())) {
                    admin.deleteRecords(Map.of(
                        new TopicPartition("orders", 0), RecordsToDelete.beforeOffset(2),
                        new TopicPartition("orders", 1), RecordsToDelete.beforeOffset(-1))).all().get();
                }
            }
            case "con" -> create("con", 2, Map.of());
            case "batches" -> batches();
            case "transaction" -> transaction();
            case "txt" -> create("txt", 2, Map.of());
            case "ver" -> create("ver", 2, Map.of());
            case "g-empty" -> commit("g-empty", Map.of(
                new TopicPartition("orders", 0), 4L, new TopicPartition("orders", 1), 5L, new TopicPartition("payments", 0), 3L));
            case "g-shift" -> commit("g-shift", Map.of(new TopicPartition("orders", 0), 4L, new TopicPartition("orders", 1), 2L));
            case "consumer-protocol-groups" -> List.of("g-consumer", "vg3").forEach(this::joinAndLeave);
            default -> throw new IllegalArgumentException(fixture);
        }
    }

    private void commit(String group, Map<TopicPartition, Long> offsets) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> committed = new HashMap<>();
        offsets.forEach((partition, offset) -> committed.put(partition, new OffsetAndMetadata(offset)));
        try (Admin admin = Admin.create(client())) {
            admin.alterConsumerGroupOffsets(group, committed).all().get();
        }
    }

    private void joinAndLeave(String group) {
        Map<String, Object> settings = client();
        settings.putAll(Map.of("group.id", group, "group.protocol", "consumer",
            "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class));
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of("orders"));
            while (consumer.assignment().isEmpty()) consumer.poll(Duration.ofMillis(100));
        }
    }

    private void batches() throws Exception {
        create("gb-headers", 1, KEEP);
        ProducerRecord<String, String> withHeaders = new ProducerRecord<>("gb-headers", 0, BEGIN, "k", "v");
        withHeaders.headers().add(new RecordHeader("h1", new byte[] {'a'}));
        withHeaders.headers().add(new RecordHeader("h2", null));
        withHeaders.headers().add(new RecordHeader("h1", new byte[0]));
        oneBatch(Map.of(), List.of(withHeaders));
        create("gb-null", 1, KEEP);
        oneBatch(Map.of(), List.of(
            new ProducerRecord<>("gb-null", 0, BEGIN, null, "only value"),
            new ProducerRecord<>("gb-null", 0, BEGIN + 5, "only key", (String) null),
            new ProducerRecord<>("gb-null", 0, BEGIN - 7, (String) null, (String) null)));
        create("gb-zstd", 1, KEEP);
        oneBatch(Map.of("compression.type", "zstd"), three("gb-zstd"));
        create("gb-lat", 1, Map.of("message.timestamp.type", "LogAppendTime", "retention.ms", "-1"));
        oneBatch(Map.of(), three("gb-lat"));
    }

    private void transaction() throws Exception {
        create("gb-txn", 1, KEEP);
        Map<String, Object> settings = producer();
        settings.putAll(Map.of("transactional.id", "gb-tx", "acks", "all", "enable.idempotence", true));
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            producer.initTransactions();
            producer.beginTransaction();
            three("gb-txn").forEach(producer::send);
            producer.commitTransaction();
            producer.beginTransaction();
            three("gb-txn").forEach(producer::send);
            producer.flush();
            producer.abortTransaction();
        }
    }

    private static List<ProducerRecord<String, String>> three(String topic) {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            records.add(new ProducerRecord<>(topic, 0, BEGIN + i, "key-" + i, "value-" + i + "-" + "abc".repeat(8)));
        }
        return records;
    }

    private void create(String topic, int partitions, Map<String, String> configs) throws Exception {
        try (Admin admin = Admin.create(client())) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
        }
    }

    private void oneByOne(String topic, int partition, int count, long from, String key, String value) throws Exception {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producer())) {
            for (int i = 0; i < count; i++) {
                producer.send(new ProducerRecord<>(topic, partition, from + i * MINUTE, key + i, value + i));
                producer.flush();
            }
        }
    }

    private void oneBatch(Map<String, Object> extra, List<ProducerRecord<String, String>> records) {
        Map<String, Object> settings = producer();
        settings.putAll(extra);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            records.forEach(producer::send);
            producer.flush();
        }
    }

    private Map<String, Object> client() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrapServers);
        return settings;
    }

    private Map<String, Object> producer() {
        Map<String, Object> settings = client();
        settings.put("key.serializer", StringSerializer.class);
        settings.put("value.serializer", StringSerializer.class);
        settings.put("acks", "1");
        settings.put("enable.idempotence", false);
        settings.put("linger.ms", 1000);
        return settings;
    }
}
