import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;

/** The programs of benchmarks/streams_programs.py in Kafka Streams: SERVERS PROGRAM ID GUARANTEE STATE_DIR OUT; runs until killed. */
public final class StreamsPrograms {
    public static void main(String[] a) {
        Properties p = new Properties();
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, a[0]);
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, a[2]);
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, a[3]);
        p.put(StreamsConfig.STATE_DIR_CONFIG, a[4]);
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        StreamsBuilder b = new StreamsBuilder();
        KStream<String, Long> in = b.stream("in", Consumed.with(Serdes.String(), Serdes.Long()));
        Produced<String, Long> out = Produced.with(Serdes.String(), Serdes.Long());
        TimeWindows hopping = TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(5)).advanceBy(Duration.ofSeconds(1));
        switch (a[1]) {
            case "count" -> in.groupByKey().count(Materialized.as("counts")).toStream().to(a[5], out);
            case "total" -> in.groupByKey().reduce(Long::sum, Materialized.as("sums")).toStream().to(a[5], out);
            case "python-count" -> in.filter((k, v) -> v >= 0).mapValues(v -> v + 1).groupByKey()
                .aggregate(() -> 0L, (k, v, n) -> n + 1, Materialized.with(Serdes.String(), Serdes.Long())).toStream().to(a[5], out);
            case "hopping" -> in.groupByKey().windowedBy(hopping)
                .aggregate(() -> "0,0", (k, v, s) -> {
                    int at = s.indexOf(',');
                    return (Long.parseLong(s.substring(0, at)) + v) + "," + (Long.parseLong(s.substring(at + 1)) + 1);
                }, Materialized.with(Serdes.String(), Serdes.String()))
                .toStream((w, s) -> w.key())
                .mapValues(s -> {
                    int at = s.indexOf(',');
                    return Math.floorDiv(Long.parseLong(s.substring(0, at)), Long.parseLong(s.substring(at + 1)));
                }).to(a[5], out);
            case "join" -> in.join(b.table("table", Consumed.with(Serdes.String(), Serdes.Long())), Long::sum).to(a[5], out);
            case "sessions" -> in.groupByKey().windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(500), Duration.ofSeconds(1)))
                .count(Materialized.as("sessions")).toStream((w, n) -> w.key()).to(a[5], out);
            default -> throw new IllegalArgumentException(a[1]);
        }
        KafkaStreams streams = new KafkaStreams(b.build(), p);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }
}
