import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.kafka.common.message.OffsetCommitRequestData;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestPartition;
import org.apache.kafka.common.message.OffsetCommitRequestData.OffsetCommitRequestTopic;
import org.apache.kafka.common.message.OffsetCommitResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/**
 * Commits offsets over one connection: bootstrap-server topic partitions group groups requests warm-up in-flight.
 *
 * Each request commits for all partitions of the topic; requests go to the groups group-0, group-1, ... in turn, by a
 * consumer that is no member. At most `in-flight` of them are without an answer at any time: 1 is one after the other.
 * The committed offset is the number of the request. Prints the seconds that the requests after the warm-up took.
 */
public final class OffsetCommits {
    private static final int VERSION = 9;

    public static void main(String[] arguments) throws IOException {
        int partitions = Integer.parseInt(arguments[2]);
        int groups = Integer.parseInt(arguments[4]);
        int requests = Integer.parseInt(arguments[5]);
        int warmUp = Integer.parseInt(arguments[6]);
        int inFlight = Integer.parseInt(arguments[7]);
        try (Wire wire = new Wire(arguments[0])) {
            // so many names that every partition of the coordinator's topic is among them
            wire.awaitCoordinator(IntStream.range(0, Math.min(groups, 500)).mapToObj(i -> arguments[3] + "-" + i).toList());
            run(wire, arguments[1], partitions, arguments[3], groups, warmUp, inFlight);
            long begin = System.nanoTime();
            run(wire, arguments[1], partitions, arguments[3], groups, requests, inFlight);
            System.out.println((System.nanoTime() - begin) / 1e9);
        }
    }

    private static void run(
            Wire wire, String topic, int partitions, String group, int groups, int requests, int inFlight)
            throws IOException {
        for (int sent = 0, answered = 0; answered < requests; ) {
            if (sent < requests && sent - answered < inFlight) {
                wire.send(ApiKeys.OFFSET_COMMIT, VERSION, request(topic, partitions, group + "-" + sent % groups, sent));
                sent++;
            } else {
                check(wire.receive(ApiKeys.OFFSET_COMMIT, VERSION, new OffsetCommitResponseData()));
                answered++;
            }
        }
    }

    private static OffsetCommitRequestData request(String topic, int partitions, String group, long offset) {
        List<OffsetCommitRequestPartition> committed = new ArrayList<>(partitions);
        for (int i = 0; i < partitions; i++) {
            committed.add(new OffsetCommitRequestPartition().setPartitionIndex(i).setCommittedOffset(offset)
                .setCommittedMetadata(""));
        }
        return new OffsetCommitRequestData().setGroupId(group).setTopics(List.of(
            new OffsetCommitRequestTopic().setName(topic).setPartitions(committed)));
    }

    private static void check(OffsetCommitResponseData answer) {
        answer.topics().forEach(topic -> topic.partitions().forEach(partition -> {
            if (partition.errorCode() != 0) throw Errors.forCode(partition.errorCode()).exception();
        }));
    }
}
