import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/**
 * One more member comes to a group of the new protocol: bootstrap-server topic partitions group members rounds warm-up.
 *
 * Every member is a connection that sends heartbeats without a pause and gives up what it is told to give up. The clock
 * runs from the newcomer's first heartbeat until all members are in one epoch and own all partitions between them.
 * Afterwards the newcomer leaves, which is not timed. Prints the microseconds of one rebalance a line.
 */
public final class ConsumerRebalance {
    private static final int HEARTBEAT = 1;

    private final String server;
    private final String topic;
    private final int partitions;
    private final String group;
    private final List<Member> members = new ArrayList<>();

    private static final class Member {
        final Wire wire;
        final String id = Uuid.randomUuid().toString();
        int epoch;
        List<ConsumerGroupHeartbeatRequestData.TopicPartitions> owned = List.of();
        boolean changed = true;

        Member(Wire wire) {
            this.wire = wire;
        }

        int ownedPartitions() {
            return owned.stream().mapToInt(each -> each.partitions().size()).sum();
        }
    }

    private ConsumerRebalance(String[] arguments) {
        server = arguments[0];
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        group = arguments[3];
    }

    public static void main(String[] arguments) throws Exception {
        ConsumerRebalance load = new ConsumerRebalance(arguments);
        int size = Integer.parseInt(arguments[4]);
        int rounds = Integer.parseInt(arguments[5]);
        int warmUp = Integer.parseInt(arguments[6]);
        try (Wire wire = new Wire(load.server)) {
            wire.awaitCoordinator(List.of(load.group));
        }
        load.assignWithoutDelay();
        for (int i = 0; i < size; i++) load.timeNewcomer();
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < warmUp + rounds; i++) {
            long microseconds = load.timeNewcomer();
            load.leave();
            load.settle();
            if (i >= warmUp) lines.append(microseconds).append('\n');
        }
        while (!load.members.isEmpty()) load.leave();
        System.out.print(lines);
    }

    /** By default a group waits a second between two assignments, and that would be all there is to measure. */
    private void assignWithoutDelay() throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        AlterConfigOp set = new AlterConfigOp(
            new ConfigEntry("consumer.assignment.interval.ms", "0"), AlterConfigOp.OpType.SET);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", server))) {
            admin.incrementalAlterConfigs(Map.of(resource, List.of(set))).all().get();
        }
    }

    private long timeNewcomer() throws IOException {
        members.add(new Member(new Wire(server)));
        long begin = System.nanoTime();
        settle();
        return (System.nanoTime() - begin) / 1000;
    }

    private void leave() throws IOException {
        Member last = members.remove(members.size() - 1);
        last.epoch = -1;
        heartbeat(last);
        check(last.wire.receive(ApiKeys.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, new ConsumerGroupHeartbeatResponseData()));
        last.wire.close();
    }

    private void settle() throws IOException {
        while (true) {
            for (Member member : members) heartbeat(member);
            for (Member member : members) receive(member);
            int owned = 0;
            boolean settled = true;
            for (Member member : members) {
                owned += member.ownedPartitions();
                settled &= !member.changed && member.epoch == members.get(0).epoch;
            }
            if (settled && owned == partitions) return;
        }
    }

    private void heartbeat(Member member) throws IOException {
        ConsumerGroupHeartbeatRequestData request = new ConsumerGroupHeartbeatRequestData()
            .setGroupId(group).setMemberId(member.id).setMemberEpoch(member.epoch);
        if (member.epoch == 0) {
            request.setRebalanceTimeoutMs(300_000).setSubscribedTopicNames(List.of(topic));
        }
        if (member.changed) request.setTopicPartitions(member.owned);
        member.wire.send(ApiKeys.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, request);
    }

    private void receive(Member member) throws IOException {
        ConsumerGroupHeartbeatResponseData answer =
            member.wire.receive(ApiKeys.CONSUMER_GROUP_HEARTBEAT, HEARTBEAT, new ConsumerGroupHeartbeatResponseData());
        check(answer);
        member.epoch = answer.memberEpoch();
        member.changed = answer.assignment() != null;
        if (!member.changed) return;
        member.owned = new ArrayList<>();
        for (ConsumerGroupHeartbeatResponseData.TopicPartitions each : answer.assignment().topicPartitions()) {
            member.owned.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions()
                .setTopicId(each.topicId()).setPartitions(each.partitions()));
        }
    }

    private static void check(ConsumerGroupHeartbeatResponseData answer) {
        if (answer.errorCode() != 0) {
            throw new IllegalStateException(Errors.forCode(answer.errorCode()) + ": " + answer.errorMessage());
        }
    }
}
