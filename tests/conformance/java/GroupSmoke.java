import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Groups and transactions through the Java client, one step each: java GroupSmoke bootstrap-server step. */
public final class GroupSmoke {
    private final String bootstrapServers;
    private final String name;
    private final TopicPartition first;
    private final TopicPartition second;
    private final Admin admin;

    private GroupSmoke(String bootstrapServers, String name, Admin admin) {
        this.bootstrapServers = bootstrapServers;
        this.name = name;
        this.first = new TopicPartition(name, 0);
        this.second = new TopicPartition(name, 1);
        this.admin = admin;
    }

    public static void main(String[] arguments) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            GroupSmoke smoke = new GroupSmoke(arguments[0], "smoke-" + arguments[1] + "-" + System.nanoTime(), admin);
            admin.createTopics(List.of(new NewTopic(smoke.name, 2, (short) 1))).all().get();
            switch (arguments[1]) {
                case "classic", "consumer" -> smoke.group(arguments[1]);
                case "offsets" -> smoke.offsets();
                case "transactions" -> smoke.transactions();
                case "abort" -> smoke.abort();
                case "fence" -> smoke.fence();
                case "send-offsets" -> smoke.sendOffsets();
                default -> throw new IllegalArgumentException(arguments[1]);
            }
        }
        System.out.println("ok");
    }

    /** A group with a member: listed, described, refused to be deleted; then empty, and deleted. */
    private void group(String protocol) throws Exception {
        try (KafkaConsumer<String, String> consumer = consumer(protocol)) {
            consumer.subscribe(List.of(name));
            while (consumer.assignment().size() < 2) consumer.poll(Duration.ofMillis(100));
            ConsumerGroupDescription group = described();
            equal("state", GroupState.STABLE, group.groupState());
            equal("type", protocol, group.type().toString().toLowerCase());
            equal("members", 1, group.members().size());
            equal("assignment", Set.of(first, second), group.members().iterator().next().assignment().topicPartitions());
            equal("listed", true, admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get().stream()
                .anyMatch(each -> each.groupId().equals(name)));
            fails("GroupNotEmptyException", () -> admin.deleteConsumerGroups(List.of(name)).all().get());
            fails("GroupSubscribedToTopicException",
                () -> admin.deleteConsumerGroupOffsets(name, Set.of(first)).all().get());
            consumer.commitSync(Map.of(first, new OffsetAndMetadata(0, "note")));
            if (protocol.equals("classic")) {
                admin.removeMembersFromConsumerGroup(name, new RemoveMembersFromConsumerGroupOptions()).all().get();
                equal("members put out", 0, described().members().size());
            }
        }
        equal("state without members", GroupState.EMPTY, described().groupState());
        equal("committed", "note", admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get().get(first).metadata());
        admin.deleteConsumerGroups(List.of(name)).all().get();
        fails("GroupIdNotFoundException", this::described);
    }

    private void offsets() throws Exception {
        admin.alterConsumerGroupOffsets(name, Map.of(first, new OffsetAndMetadata(3), second, new OffsetAndMetadata(4))).all().get();
        equal("altered", 3L, committed(first).offset());
        Map<String, ListConsumerGroupOffsetsSpec> many = Map.of(
            name, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(second)), name + "-none", new ListConsumerGroupOffsetsSpec());
        var found = admin.listConsumerGroupOffsets(many).all().get();
        equal("of two groups", 4L, found.get(name).get(second).offset());
        equal("of a group that is not there", 0, found.get(name + "-none").size());
        admin.deleteConsumerGroupOffsets(name, Set.of(first)).all().get();
        equal("deleted", null, committed(first));
        equal("kept", 4L, committed(second).offset());
    }

    /** Committed and aborted records, seen and not seen; a transaction from its beginning to its end. */
    private void transactions() throws Exception {
        try (KafkaProducer<String, String> producer = producer(name)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, 0, "k", "committed")).get();
            TransactionDescription open = transaction();
            equal("state", TransactionState.ONGOING, open.state());
            equal("partitions", Set.of(first), open.topicPartitions());
            ProducerState state = admin.describeProducers(List.of(first)).all().get().get(first).activeProducers().get(0);
            equal("begins at", 0L, state.currentTransactionStartOffset().getAsLong());
            equal("producer", open.producerId(), state.producerId());
            producer.commitTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, 0, "k", "aborted")).get();
            producer.abortTransaction();
            equal("state at the end", TransactionState.COMPLETE_ABORT, transaction().state());
        }
        equal("listed", true, admin.listTransactions().all().get().stream().anyMatch(each -> each.transactionalId().equals(name)));
        equal("read_committed", List.of("committed"), read("read_committed"));
        equal("read_uncommitted", List.of("committed", "aborted"), read("read_uncommitted"));
    }

    /** A transaction that hangs is ended from outside, and holds the readers no more. */
    private void abort() throws Exception {
        try (KafkaProducer<String, String> producer = producer(name)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, 0, "k", "hangs")).get();
            ProducerState state = admin.describeProducers(List.of(first)).all().get().get(first).activeProducers().get(0);
            admin.abortTransaction(new AbortTransactionSpec(
                first, state.producerId(), (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all().get();
            equal("read_committed", List.of(), read("read_committed"));
        }
    }

    private void fence() throws Exception {
        try (KafkaProducer<String, String> producer = producer(name)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, 0, "k", "of a zombie")).get();
            admin.fenceProducers(List.of(name)).all().get();
            try {
                producer.commitTransaction();
                throw new IllegalStateException("a fenced producer committed");
            } catch (org.apache.kafka.common.errors.ProducerFencedException
                     | org.apache.kafka.common.errors.InvalidProducerEpochException e) {
                equal("read_committed", List.of(), read("read_committed"));
            }
        }
    }

    /** Offsets of a group in a transaction: not there before its end, there after a commit, not after an abort. */
    private void sendOffsets() throws Exception {
        try (KafkaProducer<String, String> producer = producer(name)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(name, 0, "k", "v"));
            producer.sendOffsetsToTransaction(Map.of(second, new OffsetAndMetadata(7)), new ConsumerGroupMetadata(name));
            equal("before the end", null, committed(second));
            producer.commitTransaction();
            equal("committed", 7L, committed(second).offset());
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(second, new OffsetAndMetadata(9)), new ConsumerGroupMetadata(name));
            producer.abortTransaction();
            equal("after an abort", 7L, committed(second).offset());
        }
    }

    private ConsumerGroupDescription described() throws Exception {
        return admin.describeConsumerGroups(List.of(name)).all().get().get(name);
    }

    private OffsetAndMetadata committed(TopicPartition partition) throws Exception {
        return admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get().get(partition);
    }

    private TransactionDescription transaction() throws Exception {
        return admin.describeTransactions(List.of(name)).description(name).get();
    }

    private List<String> read(String isolation) throws Exception {
        Map<String, Object> settings = settings();
        settings.put("isolation.level", isolation);
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.assign(List.of(first));
            consumer.seekToBeginning(List.of(first));
            long end = consumer.endOffsets(List.of(first)).get(first);
            List<String> values = new java.util.ArrayList<>();
            while (consumer.position(first) < end) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
            }
            return values;
        }
    }

    private KafkaConsumer<String, String> consumer(String protocol) {
        Map<String, Object> settings = settings();
        settings.put("group.protocol", protocol);
        settings.put("group.id", name);
        return new KafkaConsumer<>(settings);
    }

    private Map<String, Object> settings() {
        return new HashMap<>(Map.of("bootstrap.servers", bootstrapServers, "enable.auto.commit", false,
            "key.deserializer", StringDeserializer.class, "value.deserializer", StringDeserializer.class));
    }

    private KafkaProducer<String, String> producer(String transactionalId) {
        return new KafkaProducer<>(Map.of("bootstrap.servers", bootstrapServers, "transactional.id", transactionalId,
            "key.serializer", StringSerializer.class, "value.serializer", StringSerializer.class));
    }

    private interface Step {
        void run() throws Exception;
    }

    private static void fails(String exception, Step step) throws Exception {
        try {
            step.run();
        } catch (ExecutionException e) {
            equal("error", exception, e.getCause().getClass().getSimpleName());
            return;
        }
        throw new IllegalStateException("no " + exception);
    }

    private static void equal(String what, Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) {
            throw new IllegalStateException(what + ": " + actual + " instead of " + expected);
        }
    }
}
