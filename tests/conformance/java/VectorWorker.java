import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.Cancellable;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.ProcessingContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;

/** Where a processor sends what it makes. */
interface VectorSender {
    void send(Object key, Object value, long time, Headers headers);
}

/** What the processors of vectors do with a record, and at a punctuation. */
@SuppressWarnings("unchecked")
class VectorWorker extends VectorValues {
    final Map<String, Object> step;
    final ProcessingContext context;
    final VectorSender sender;
    final KeyValueStore<Object, Object> store;

    VectorWorker(Map<String, Object> step, ProcessingContext context, VectorSender sender) {
        this.step = step;
        this.context = context;
        this.sender = sender;
        store = step.containsKey("store") ? context.getStateStore((String) step.get("store")) : null;
        for (Map<String, Object> each : (List<Map<String, Object>>) step.getOrDefault("punctuate", List.of())) {
            PunctuationType type = PunctuationType.valueOf((String) each.get("type"));
            Duration interval = Duration.ofMillis(asLong(each.get("interval_ms")));
            Cancellable[] schedule = new Cancellable[1];
            org.apache.kafka.streams.processor.Punctuator run = time -> punctuate(each, time, schedule);
            schedule[0] = each.containsKey("start_ms")
                ? context.schedule(Instant.ofEpochMilli(asLong(each.get("start_ms"))), interval, type, run)
                : context.schedule(interval, type, run);
        }
    }

    long count(Object key) {
        Object before = store.get(key);
        long count = (before == null ? 0 : asLong(before)) + 1;
        store.put(key, count);
        return count;
    }

    void take(Object key, Object value, long time, Headers headers, VectorSender to) {
        switch ((String) step.get("on_record")) {
            case "forward": to.send(key, value, time, headers); break;
            case "drop": break;
            case "twice":
                to.send(key, value, time, headers);
                to.send(key, value, time, headers);
                break;
            case "context": {
                Map<String, Object> seen = new TreeMap<>();
                seen.put("value", value);
                seen.put("timestamp", time);
                seen.put("stream_time", context.currentStreamTimeMs());
                seen.put("topic", context.recordMetadata().get().topic());
                seen.put("partition", context.recordMetadata().get().partition());
                seen.put("offset", context.recordMetadata().get().offset());
                to.send(key, seen, time, headers);
                break;
            }
            case "count_forward": to.send(key, count(key), time, headers); break;
            case "count_store": count(key); break;
            case "last_store": {
                Map<String, Object> row = new TreeMap<>();
                row.put("value", value);
                row.put("ts", time);
                store.put(key, row);
                break;
            }
            case "dedup": {
                Object last = store.get(key);
                if (last == null || time - asLong(last) >= asLong(step.get("ttl_ms"))) {
                    store.put(key, time);
                    to.send(key, value, time, headers);
                }
                break;
            }
            case "delta": {
                Object before = store.get(key);
                store.put(key, value);
                to.send(key, before == null ? 0L : asLong(value) - asLong(before), time, headers);
                break;
            }
            case "fan_out":
                to.send(key + "1", value, time, headers);
                to.send(key + "2", value, time + 5, headers);
                break;
            case "shift_time": to.send(key, value, time + asLong(step.get("by_ms")), headers); break;
            case "add_header": {
                Headers more = new RecordHeaders(headers.toArray());
                more.add((String) step.getOrDefault("name_of_header", "added"),
                    ((String) step.getOrDefault("header_value", "1")).getBytes(StandardCharsets.UTF_8));
                to.send(key, value, time, more);
                break;
            }
            default: throw new IllegalArgumentException("no processor " + step.get("on_record"));
        }
    }

    void punctuate(Map<String, Object> punctuation, long time, Cancellable[] schedule) {
        Headers none = new RecordHeaders();
        Map<String, Object> seen = new TreeMap<>();
        seen.put("at", time);
        switch ((String) punctuation.get("action")) {
            case "mark":
                seen.put("stream_time", context.currentStreamTimeMs());
                seen.put("metadata_present", context.recordMetadata().isPresent());
                sender.send("punctuate", seen, time, none);
                break;
            case "mark_once":
                sender.send("once", seen, time, none);
                schedule[0].cancel();
                break;
            default:
                boolean flush = punctuation.get("action").equals("flush");
                try (KeyValueIterator<Object, Object> all = store.all()) {
                    while (all.hasNext()) {
                        KeyValue<Object, Object> row = all.next();
                        if (flush) {
                            sender.send(row.key, row.value, time, none);
                            store.delete(row.key);
                        } else if (asLong(((Map<String, Object>) row.value).get("ts"))
                            <= time - asLong(punctuation.get("ttl_ms"))) {
                            store.delete(row.key);
                            sender.send(row.key, null, time, none);
                        }
                    }
                }
        }
    }
}
