import java.io.Closeable;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.List;
import org.apache.kafka.common.message.DescribeGroupsRequestData;
import org.apache.kafka.common.message.DescribeGroupsResponseData;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/**
 * One connection that speaks the protocol with Kafka's own messages and no client in between.
 *
 * For loads where a client's threads, back-offs and heartbeat intervals would be measured instead of the broker. Sends
 * and receives as told; answers come in the order of the requests.
 */
final class Wire implements Closeable {
    private static final int FIND_COORDINATOR = 4;
    private static final int DESCRIBE_GROUPS = 5; // answers for groups that do not exist without an error

    private final SocketChannel channel;
    private final ByteBuffer size = ByteBuffer.allocate(4);
    private int correlation;

    Wire(String bootstrapServer) throws IOException {
        String[] address = bootstrapServer.split(":");
        channel = SocketChannel.open(new InetSocketAddress(address[0], Integer.parseInt(address[1])));
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    }

    void send(ApiKeys api, int version, ApiMessage request) throws IOException {
        RequestHeader header = new RequestHeader(api, (short) version, "bench", correlation++);
        ByteBuffer head = MessageUtil.toByteBufferAccessor(header.data(), header.headerVersion()).buffer();
        ByteBuffer body = MessageUtil.toByteBufferAccessor(request, (short) version).buffer();
        ByteBuffer frame = ByteBuffer.allocate(4 + head.remaining() + body.remaining());
        frame.putInt(head.remaining() + body.remaining()).put(head).put(body).flip();
        while (frame.hasRemaining()) channel.write(frame);
    }

    /** Reads the next answer into an empty message and returns it. */
    <T extends ApiMessage> T receive(ApiKeys api, int version, T answer) throws IOException {
        size.clear();
        fill(size);
        ByteBuffer frame = ByteBuffer.allocate(size.getInt(0));
        fill(frame);
        frame.flip();
        ResponseHeader.parse(frame, api.responseHeaderVersion((short) version));
        answer.read(new ByteBufferAccessor(frame), (short) version);
        return answer;
    }

    <T extends ApiMessage> T ask(ApiKeys api, int version, ApiMessage request, T answer) throws IOException {
        send(api, version, request);
        return receive(api, version, answer);
    }

    /** Returns when the groups have a coordinator that has loaded; the first who asks makes its topic come to be. */
    void awaitCoordinator(List<String> groups) throws IOException {
        FindCoordinatorRequestData finding = new FindCoordinatorRequestData().setCoordinatorKeys(groups);
        while (ask(ApiKeys.FIND_COORDINATOR, FIND_COORDINATOR, finding, new FindCoordinatorResponseData())
                .coordinators().stream().anyMatch(each -> each.errorCode() != 0)) {
            pause();
        }
        DescribeGroupsRequestData describing = new DescribeGroupsRequestData().setGroups(groups);
        while (ask(ApiKeys.DESCRIBE_GROUPS, DESCRIBE_GROUPS, describing, new DescribeGroupsResponseData())
                .groups().stream().anyMatch(each -> each.errorCode() != 0)) {
            pause();
        }
    }

    private static void pause() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException(interrupted);
        }
    }

    private void fill(ByteBuffer buffer) throws IOException {
        while (buffer.hasRemaining()) {
            if (channel.read(buffer) < 0) throw new EOFException("the broker closed the connection");
        }
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
