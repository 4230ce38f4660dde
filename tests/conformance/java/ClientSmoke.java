import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What an application does with the Java client, one step each: java ClientSmoke bootstrap-server step. */
public final class ClientSmoke {
    private final String bootstrapServers;
    private final String topic;

    private ClientSmoke(String bootstrapServers, String topic) {
        this.bootstrapServers = bootstrapServers;
        this.topic = topic;
    }

    public static void main(String[] arguments) throws Exception {
        ClientSmoke smoke = new ClientSmoke(arguments[0], "smoke-" + arguments[1] + "-" + System.nanoTime());
        switch (arguments[1]) {
            case "compressions" -> smoke.compressions();
            case "headers" -> smoke.headersAndNulls();
            case "idempotence" -> smoke.idempotence();
            case "acks" -> smoke.acks();
            case "big" -> smoke.bigRecords();
            case "timestamps" -> smoke.timestamps();
            case "admin" -> smoke.administration();
            default -> throw new IllegalArgumentException(arguments[1]);
        }
        System.out.println("ok");
    }

    private void compressions() throws Exception {
        create(1);
        int offset = 0;
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            List<ProducerRecord<String, String>> records = numbered(100);
            send(Map.of("compression.type", codec), records);
            List<ConsumerRecord<String, String>> read = read(offset, 100);
            for (int i = 0; i < 100; i++) equal(codec, records.get(i).value(), read.get(i).value());
            offset += 100;
        }
    }

    private void headersAndNulls() throws Exception {
        create(1);
        ProducerRecord<String, String> full = new ProducerRecord<>(topic, 0, "key", "value");
        full.headers().add("h", "x".getBytes(StandardCharsets.UTF_8)).add("empty", new byte[0]).add("null", null);
        send(Map.of(), List.of(full, new ProducerRecord<>(topic, 0, null, "only value"),
            new ProducerRecord<>(topic, 0, "only key", null), new ProducerRecord<String, String>(topic, 0, null, (String) null)));
        List<ConsumerRecord<String, String>> read = read(0, 4);
        equal("header", "x", new String(read.get(0).headers().lastHeader("h").value(), StandardCharsets.UTF_8));
        equal("empty header", 0, read.get(0).headers().lastHeader("empty").value().length);
        equal("null header", null, read.get(0).headers().lastHeader("null").value());
        equal("null key", null, read.get(1).key());
        equal("null value", null, read.get(2).value());
        equal("both null", null, read.get(3).value());
    }

    private void idempotence() throws Exception {
        create(1);
        send(Map.of("acks", "all", "enable.idempotence", true, "batch.size", 500), numbered(5_000));
        List<ConsumerRecord<String, String>> read = read(0, 5_000);
        for (int i = 0; i < 5_000; i++) {
            equal("offset", (long) i, read.get(i).offset());
            equal("value", "value-" + i, read.get(i).value());
        }
    }

    private void acks() throws Exception {
        create(1);
        for (String acks : List.of("0", "1", "all")) {
            List<RecordMetadata> sent = send(Map.of("acks", acks, "enable.idempotence", false), numbered(10));
            if (!acks.equals("0")) equal("has an offset", true, sent.get(0).hasOffset());
        }
        equal("records", 30, read(0, 30).size());
    }

    private void bigRecords() throws Exception {
        create(1);
        String big = "x".repeat(900_000);
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int i = 0; i < 5; i++) records.add(new ProducerRecord<>(topic, 0, "big", big));
        send(Map.of(), records);
        for (ConsumerRecord<String, String> record : read(0, 5)) equal("size", 900_000, record.value().length());
        try {
            send(Map.of("max.request.size", 5_000_000), List.of(new ProducerRecord<>(topic, 0, "k", "x".repeat(2_000_000))));
            throw new IllegalStateException("a record of 2 MB was accepted");
        } catch (java.util.concurrent.ExecutionException e) {
            equal("error", "RecordTooLargeException", e.getCause().getClass().getSimpleName());
        }
    }

    private void timestamps() throws Exception {
        create(1);
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int i = 0; i < 100; i++) records.add(new ProducerRecord<>(topic, 0, 1_000_000L + i * 1_000, "k", "v" + i));
        send(Map.of("batch.size", 200), records);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer()) {
            equal("look-up", 51L, consumer.offsetsForTimes(Map.of(partition, 1_050_500L)).get(partition).offset());
            equal("past the end", null, consumer.offsetsForTimes(Map.of(partition, 9_000_000L)).get(partition));
            equal("beginning", 0L, consumer.beginningOffsets(List.of(partition)).get(partition));
            equal("end", 100L, consumer.endOffsets(List.of(partition)).get(partition));
        }
    }

    private void administration() throws Exception {
        create(2);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers))) {
            equal("listed", true, admin.listTopics().names().get().contains(topic));
            equal("partitions", 2, admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
            equal("more partitions", 4,
                admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
            ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            Collection<AlterConfigOp> change =
                List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "12345"), AlterConfigOp.OpType.SET));
            admin.incrementalAlterConfigs(Map.of(resource, change)).all().get();
            equal("config", "12345",
                admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value());
            equal("nodes", 1, admin.describeCluster().nodes().get().size());
            send(Map.of(), numbered(10));
            TopicPartition partition = new TopicPartition(topic, 0);
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(4))).all().get();
            equal("deleted", 4L,
                admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).all().get().get(partition).offset());
            equal("log directories", 1, admin.describeLogDirs(List.of(1)).allDescriptions().get().size());
            equal("producers", 0, admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers().size());
            admin.deleteTopics(List.of(topic)).all().get();
            equal("gone", false, admin.listTopics().names().get().contains(topic));
        }
    }

    private void create(int partitions) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrapServers))) {
            admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        }
    }

    private List<ProducerRecord<String, String>> numbered(int count) {
        List<ProducerRecord<String, String>> records = new ArrayList<>();
        for (int i = 0; i < count; i++) records.add(new ProducerRecord<>(topic, 0, "key-" + i, "value-" + i));
        return records;
    }

    private List<RecordMetadata> send(Map<String, Object> extra, List<ProducerRecord<String, String>> records) throws Exception {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrapServers, "enable.idempotence", false,
            "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class));
        settings.putAll(extra);
        List<RecordMetadata> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            var futures = records.stream().map(producer::send).toList();
            for (var future : futures) sent.add(future.get());
        }
        return sent;
    }

    private KafkaConsumer<String, String> consumer() {
        return new KafkaConsumer<>(Map.of("bootstrap.servers", bootstrapServers, "enable.auto.commit", false,
            "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class));
    }

    private List<ConsumerRecord<String, String>> read(long offset, int count) {
        List<ConsumerRecord<String, String>> records = new ArrayList<>();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer()) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, offset);
            long deadline = System.nanoTime() + Duration.ofSeconds(20).toNanos();
            while (records.size() < count) {
                if (System.nanoTime() > deadline) throw new IllegalStateException("only " + records.size() + " of " + count);
                consumer.poll(Duration.ofSeconds(1)).forEach(records::add);
            }
        }
        return records;
    }

    private static void equal(String what, Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) {
            throw new IllegalStateException(what + ": " + actual + " instead of " + expected);
        }
    }
}
