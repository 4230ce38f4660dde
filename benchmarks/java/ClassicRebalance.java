import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.HeartbeatRequestData;
import org.apache.kafka.common.message.HeartbeatResponseData;
import org.apache.kafka.common.message.JoinGroupRequestData;
import org.apache.kafka.common.message.JoinGroupRequestData.JoinGroupRequestProtocol;
import org.apache.kafka.common.message.JoinGroupResponseData;
import org.apache.kafka.common.message.LeaveGroupRequestData;
import org.apache.kafka.common.message.LeaveGroupRequestData.MemberIdentity;
import org.apache.kafka.common.message.LeaveGroupResponseData;
import org.apache.kafka.common.message.SyncGroupRequestData;
import org.apache.kafka.common.message.SyncGroupRequestData.SyncGroupRequestAssignment;
import org.apache.kafka.common.message.SyncGroupResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/**
 * One more member comes to a classic group: bootstrap-server topic group members rounds warm-up.
 *
 * Every member is a connection. The clock runs from the newcomer's first JoinGroup until everybody has its assignment;
 * the others find out by a heartbeat that they send at once, so that no client's heartbeat interval counts. Afterwards
 * the newcomer leaves, which is not timed. Prints the microseconds of one rebalance a line.
 */
public final class ClassicRebalance {
    private static final int JOIN = 9;
    private static final int SYNC = 5;
    private static final int HEARTBEAT = 4;
    private static final int LEAVE = 5;

    private final String server;
    private final String topic;
    private final String group;
    private final List<Member> members = new ArrayList<>();

    private static final class Member {
        final Wire wire;
        String id = "";
        int generation = -1;
        boolean leads;

        Member(Wire wire) {
            this.wire = wire;
        }
    }

    private ClassicRebalance(String[] arguments) {
        server = arguments[0];
        topic = arguments[1];
        group = arguments[2];
    }

    public static void main(String[] arguments) throws IOException {
        ClassicRebalance load = new ClassicRebalance(arguments);
        int size = Integer.parseInt(arguments[3]);
        int rounds = Integer.parseInt(arguments[4]);
        int warmUp = Integer.parseInt(arguments[5]);
        try (Wire wire = new Wire(load.server)) {
            wire.awaitCoordinator(List.of(load.group));
        }
        for (int i = 0; i < size; i++) load.timeNewcomer();
        StringBuilder lines = new StringBuilder();
        for (int i = 0; i < warmUp + rounds; i++) {
            long microseconds = load.timeNewcomer();
            load.lastLeaves();
            if (i >= warmUp) lines.append(microseconds).append('\n');
        }
        while (!load.members.isEmpty()) load.leave();
        System.out.print(lines);
    }

    private long timeNewcomer() throws IOException {
        Member newcomer = new Member(new Wire(server));
        long begin = System.nanoTime();
        newcomer.id = newcomer.wire.ask(ApiKeys.JOIN_GROUP, JOIN, join(newcomer), new JoinGroupResponseData()).memberId();
        newcomer.wire.send(ApiKeys.JOIN_GROUP, JOIN, join(newcomer));
        rejoin();
        members.add(newcomer);
        finishRound();
        return (System.nanoTime() - begin) / 1000;
    }

    private void lastLeaves() throws IOException {
        leave();
        rejoin();
        finishRound();
    }

    private void leave() throws IOException {
        Member last = members.remove(members.size() - 1);
        LeaveGroupRequestData request = new LeaveGroupRequestData().setGroupId(group)
            .setMembers(List.of(new MemberIdentity().setMemberId(last.id)));
        check(last.wire.ask(ApiKeys.LEAVE_GROUP, LEAVE, request, new LeaveGroupResponseData()).errorCode());
        last.wire.close();
    }

    /** Everybody hears of the round by a heartbeat and joins it. */
    private void rejoin() throws IOException {
        for (Member member : members) heartbeat(member);
        for (Member member : members) {
            while (true) {
                HeartbeatResponseData answer =
                    member.wire.receive(ApiKeys.HEARTBEAT, HEARTBEAT, new HeartbeatResponseData());
                if (answer.errorCode() == Errors.REBALANCE_IN_PROGRESS.code()) break;
                check(answer.errorCode());
                heartbeat(member); // it came before the newcomer did
            }
            member.wire.send(ApiKeys.JOIN_GROUP, JOIN, join(member));
        }
    }

    private void finishRound() throws IOException {
        for (Member member : members) {
            JoinGroupResponseData answer = member.wire.receive(ApiKeys.JOIN_GROUP, JOIN, new JoinGroupResponseData());
            check(answer.errorCode());
            member.generation = answer.generationId();
            member.leads = answer.leader().equals(member.id);
        }
        for (Member member : members) member.wire.send(ApiKeys.SYNC_GROUP, SYNC, sync(member));
        for (Member member : members) {
            SyncGroupResponseData answer = member.wire.receive(ApiKeys.SYNC_GROUP, SYNC, new SyncGroupResponseData());
            check(answer.errorCode());
            if (answer.assignment().length == 0) throw new IllegalStateException("a member without an assignment");
        }
    }

    private void heartbeat(Member member) throws IOException {
        member.wire.send(ApiKeys.HEARTBEAT, HEARTBEAT, new HeartbeatRequestData().setGroupId(group)
            .setMemberId(member.id).setGenerationId(member.generation));
    }

    private JoinGroupRequestData join(Member member) {
        JoinGroupRequestData request = new JoinGroupRequestData().setGroupId(group).setMemberId(member.id)
            .setSessionTimeoutMs(45_000).setRebalanceTimeoutMs(300_000).setProtocolType("consumer");
        request.protocols().add(new JoinGroupRequestProtocol().setName("range")
            .setMetadata(ConsumerProtocol.serializeSubscription(new Subscription(List.of(topic))).array()));
        return request;
    }

    private SyncGroupRequestData sync(Member member) {
        SyncGroupRequestData request = new SyncGroupRequestData().setGroupId(group).setMemberId(member.id)
            .setGenerationId(member.generation).setProtocolType("consumer").setProtocolName("range");
        if (member.leads) {
            for (int i = 0; i < members.size(); i++) {
                Assignment assignment = new Assignment(List.of(new TopicPartition(topic, i)));
                request.assignments().add(new SyncGroupRequestAssignment().setMemberId(members.get(i).id)
                    .setAssignment(ConsumerProtocol.serializeAssignment(assignment).array()));
            }
        }
        return request;
    }

    private static void check(short code) {
        if (code != 0) throw Errors.forCode(code).exception();
    }
}
