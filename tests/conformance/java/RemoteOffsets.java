import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** What MirrorMaker 2's client utilities say of a target: hops, upstream clusters, the offsets of a group. */
public class RemoteOffsets {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = new HashMap<>();
        properties.put("bootstrap.servers", arguments[0]);
        System.out.println("hops " + RemoteClusterUtils.replicationHops(properties, arguments[1]));
        System.out.println("upstream " + RemoteClusterUtils.upstreamClusters(properties));
        Map<String, Long> offsets = new TreeMap<>();
        RemoteClusterUtils.translateOffsets(properties, arguments[1], arguments[2], Duration.ofSeconds(30))
            .forEach((partition, offset) -> offsets.put(partition.toString(), offset.offset()));
        System.out.println("offsets " + offsets);
    }
}
