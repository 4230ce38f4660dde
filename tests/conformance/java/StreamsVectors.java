import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Plays vectors in Kafka Streams' own test driver: {@code StreamsVectors IN OUT} reads programs with inputs and
 * writes them with what Kafka Streams gave.
 */
@SuppressWarnings({"unchecked", "rawtypes"})
public class StreamsVectors extends VectorValues {
    public static void main(String[] arguments) throws Exception {
        List<Map<String, Object>> vectors = MAPPER.readValue(new File(arguments[0]), List.class);
        List<Object> played = new ArrayList<>();
        for (Map<String, Object> vector : vectors) {
            played.add(new Play(vector).run());
        }
        MAPPER.writeValue(new File(arguments[1]), played);
    }

    // --- one run -----------------------------------------------------------------------------------

    static class Play {
        final Map<String, Object> vector;
        final List<Map<String, Object>> steps;
        final List<Map<String, Object>> inputs;
        final List<Object> outputs = new ArrayList<>();
        final List<Object> sideEffects = new ArrayList<>();
        final Map<String, Object> internal = new TreeMap<>();
        int number;

        Play(Map<String, Object> vector) {
            this.vector = vector;
            steps = (List<Map<String, Object>>) vector.get("topology");
            inputs = (List<Map<String, Object>>) vector.get("inputs");
        }

        Map<String, Object> run() throws Exception {
            Map<String, Object> got = new LinkedHashMap<>();
            for (String field : List.of("name", "about", "config", "topology", "inputs")) {
                if (vector.containsKey(field)) {
                    got.put(field, vector.get(field));
                }
            }
            Properties settings = new Properties();
            Path state = Files.createTempDirectory("streams-vectors");
            settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
            settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
            settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
            settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
            settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, KeySerde.class);
            settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, JsonSerde.class);
            settings.putAll((Map<String, Object>) vector.getOrDefault("config", Map.of()));
            Topology topology;
            TopologyTestDriver driver;
            try {
                topology = new VectorProgram(this).builder.build(settings);
            } catch (Exception error) {
                got.put("error", described("build", error));
                return got;
            }
            try {
                driver = new TopologyTestDriver(topology, settings, Instant.ofEpochMilli(1_000_000));
            } catch (Exception error) {
                got.put("error", described("start", error));
                return got;
            }
            try {
                got.put("describe", topology.describe().toString());
                feed(driver, got);
            } finally {
                try {
                    driver.close();
                } catch (Exception ignored) {
                    // An application that failed fails again when it is closed.
                }
            }
            return got;
        }

        void feed(TopologyTestDriver driver, Map<String, Object> got) throws Exception {
            got.put("outputs", outputs);
            got.put("internal_topics", internal);
            for (number = 0; number < inputs.size(); number++) {
                try {
                    take(driver, inputs.get(number));
                } catch (Exception error) {
                    Map<String, Object> described = described("input", error);
                    described.put("i", number);
                    got.put("error", described);
                    return;
                }
                collect(driver);
            }
            got.put("side_effects", sideEffects);
            got.put("stores", stores(driver));
            double dropped = driver.metrics().entrySet().stream()
                .filter(each -> each.getKey().name().equals("dropped-records-total"))
                .mapToDouble(each -> (double) each.getValue().metricValue()).sum();
            got.put("dropped_records", (long) dropped);
        }

        void take(TopologyTestDriver driver, Map<String, Object> input) {
            if (input.containsKey("advance_wall_clock_ms")) {
                driver.advanceWallClockTime(Duration.ofMillis(asLong(input.get("advance_wall_clock_ms"))));
                return;
            }
            Headers headers = new RecordHeaders();
            for (List<String> each : (List<List<String>>) input.getOrDefault("headers", List.of())) {
                String value = each.get(1);
                headers.add(each.get(0), value == null ? null : value.getBytes(StandardCharsets.UTF_8));
            }
            byte[] value = input.containsKey("raw_value") ? ((String) input.get("raw_value")).getBytes()
                : bytes(input.get("value"));
            driver.createInputTopic((String) input.get("topic"), new ByteArraySerializer(), new ByteArraySerializer())
                .pipeInput(new TestRecord<>(keyBytes(input.get("key")), value, headers, asLong(input.get("timestamp"))));
        }

        void collect(TopologyTestDriver driver) {
            for (String topic : new TreeSet<>(driver.producedTopicNames())) {
                for (TestRecord<byte[], byte[]> record : driver
                    .createOutputTopic(topic, new ByteArrayDeserializer(), new ByteArrayDeserializer())
                    .readRecordsToList()) {
                    if (topic.startsWith("app-")) {
                        internal.merge(topic, 1L, (a, b) -> (long) a + (long) b);
                        continue;
                    }
                    Map<String, Object> row = new LinkedHashMap<>();
                    row.put("i", number);
                    row.put("topic", topic);
                    row.put("key", parsedKey(record.key()));
                    row.put("value", parsed(record.value()));
                    row.put("timestamp", record.timestamp());
                    List<Object> headers = new ArrayList<>();
                    for (Header header : record.headers()) {
                        headers.add(Arrays.asList(header.key(),
                            header.value() == null ? null : new String(header.value(), StandardCharsets.UTF_8)));
                    }
                    if (!headers.isEmpty()) {
                        row.put("headers", headers);
                    }
                    outputs.add(row);
                }
            }
        }

        Map<String, Object> stores(TopologyTestDriver driver) {
            Map<String, Object> found = new TreeMap<>();
            for (Map<String, Object> step : steps) {
                String name = (String) step.get("store");
                if (name != null && driver.getAllStateStores().containsKey(name)) {
                    found.put(name, rows(driver, name));
                }
            }
            return found;
        }

        List<Object> rows(TopologyTestDriver driver, String name) {
            List<Object> rows = new ArrayList<>();
            KeyValueStore<Object, ValueAndTimestamp<Object>> timed = driver.getTimestampedKeyValueStore(name);
            if (timed != null) {
                try (KeyValueIterator<Object, ValueAndTimestamp<Object>> all = timed.all()) {
                    all.forEachRemaining(each -> rows.add(row(each.key, each.value.value(), each.value.timestamp())));
                }
                return rows;
            }
            VersionedKeyValueStore<Object, Object> versioned = driver.getVersionedKeyValueStore(name);
            if (versioned != null) {
                TreeSet<String> keys = new TreeSet<>();
                inputs.stream().filter(each -> each.get("key") != null).forEach(each -> keys.add((String) each.get("key")));
                for (String key : keys) {
                    VersionedRecord<Object> last = versioned.get(key);
                    if (last != null) {
                        rows.add(row(key, last.value(), last.timestamp()));
                    }
                }
                return rows;
            }
            WindowStore<Object, ValueAndTimestamp<Object>> windows = driver.getTimestampedWindowStore(name);
            if (windows != null) {
                try (KeyValueIterator<Windowed<Object>, ValueAndTimestamp<Object>> all = windows.all()) {
                    all.forEachRemaining(each -> rows.add(row(each.key, each.value.value(), each.value.timestamp())));
                }
                return rows;
            }
            SessionStore<Object, Object> sessions = driver.getSessionStore(name);
            if (sessions != null) {
                try (KeyValueIterator<Windowed<Object>, Object> all = sessions.fetch(null, null)) {
                    all.forEachRemaining(each -> rows.add(row(each.key, each.value, null)));
                }
                return rows;
            }
            KeyValueStore<Object, Object> plain = driver.getKeyValueStore(name);
            try (KeyValueIterator<Object, Object> all = plain.all()) {
                all.forEachRemaining(each -> rows.add(row(each.key, each.value, null)));
            }
            return rows;
        }

        static Map<String, Object> row(Object key, Object value, Long timestamp) {
            Map<String, Object> row = new TreeMap<>();
            if (key instanceof Windowed) {
                row.putAll((Map<String, Object>) plain(key));
            } else {
                row.put("key", key);
            }
            row.put("value", value);
            if (timestamp != null) {
                row.put("timestamp", timestamp);
            }
            return row;
        }

        static Map<String, Object> described(String at, Throwable error) {
            Map<String, Object> described = new TreeMap<>();
            described.put("at", at);
            described.put("class", error.getClass().getName());
            described.put("message", error.getMessage());
            Throwable root = error;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            if (root != error) {
                described.put("root_class", root.getClass().getName());
                described.put("root_message", root.getMessage());
            }
            return described;
        }

        void saw(String label, Object key, Object value) {
            Map<String, Object> seen = new LinkedHashMap<>();
            seen.put("i", number);
            seen.put("step", label);
            seen.put("key", plain(key));
            seen.put("value", plain(value));
            sideEffects.add(seen);
        }
    }
}
