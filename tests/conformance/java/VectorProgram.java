import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.kstream.internals.NamedInternal;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;

/** The program of a vector: every step is one call of the DSL. */
@SuppressWarnings({"unchecked", "rawtypes"})
class VectorProgram extends VectorValues {
    final StreamsBuilder builder = new StreamsBuilder();
    final Map<String, Object> results = new LinkedHashMap<>();
    final StreamsVectors.Play play;

    VectorProgram(StreamsVectors.Play play) {
        this.play = play;
        Object last = null;
        for (Map<String, Object> step : play.steps) {
            Object of = step.containsKey("of") ? results.get(step.get("of")) : last;
            last = take(of, step);
            if (step.containsKey("as")) {
                results.put((String) step.get("as"), last);
            }
        }
    }

    Object take(Object of, Map<String, Object> step) {
        String op = (String) step.get("op");
        switch (op) {
            case "stream":
                return step.containsKey("topics")
                    ? builder.stream((List<String>) step.get("topics"), consumed(step))
                    : builder.stream((String) step.get("topic"), consumed(step));
            case "table": return builder.table((String) step.get("topic"), consumed(step), materialized(step));
            case "globalTable":
                return builder.globalTable((String) step.get("topic"), consumed(step), materialized(step));
            case "process": return processed((KStream) of, step);
            case "processValues": return processedValues((KStream) of, step);
            case "windowedBy": return windowed(of, (Map<String, Object>) step.get("window"));
            case "emitStrategy": {
                EmitStrategy strategy = "onWindowClose".equals(step.get("strategy"))
                    ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
                return of instanceof TimeWindowedKStream ? ((TimeWindowedKStream) of).emitStrategy(strategy)
                    : ((SessionWindowedKStream) of).emitStrategy(strategy);
            }
            case "count": case "reduce": case "aggregate": return aggregated(of, op, step);
            case "cogroup": {
                Aggregator<Object, Object, Object> add = aggregator(step.get("fn"));
                return step.containsKey("with")
                    ? ((CogroupedKStream) of).cogroup((KGroupedStream) results.get(step.get("with")), add)
                    : ((KGroupedStream) of).cogroup(add);
            }
            case "join": case "leftJoin": case "outerJoin": return joined(of, op, step);
            default:
                return of instanceof KTable ? onTable((KTable) of, op, step) : onStream((KStream) of, op, step);
        }
    }

    Object onStream(KStream<Object, Object> of, String op, Map<String, Object> step) {
        Object fn = step.get("fn");
        Named named = named(step);
        switch (op) {
            case "filter": return of.filter((k, v) -> holds(fn, k, v), named);
            case "filterNot": return of.filterNot((k, v) -> holds(fn, k, v), named);
            case "mapValues": return of.mapValues((k, v) -> eval(fn, env("k", k, "v", v)), named);
            case "selectKey": return of.selectKey((k, v) -> eval(fn, env("k", k, "v", v)), named);
            case "map": return of.map((k, v) -> pair(step, k, v), named);
            case "flatMap": return of.flatMap((k, v) -> {
                List<KeyValue<Object, Object>> made = new ArrayList<>();
                for (Object each : (List<Object>) eval(fn, env("k", k, "v", v))) {
                    made.add(KeyValue.pair(((List<Object>) each).get(0), ((List<Object>) each).get(1)));
                }
                return made;
            }, named);
            case "flatMapValues":
                return of.flatMapValues((k, v) -> (List<Object>) eval(fn, env("k", k, "v", v)), named);
            case "peek": return of.peek((k, v) -> play.saw((String) step.get("label"), k, v), named);
            case "foreach":
                of.foreach((k, v) -> play.saw((String) step.get("label"), k, v), named);
                return null;
            case "split": {
                BranchedKStream<Object, Object> split = step.containsKey("name") ? of.split(named) : of.split();
                for (Map<String, Object> branch : (List<Map<String, Object>>) step.get("branches")) {
                    split = split.branch((k, v) -> holds(branch.get("fn"), k, v),
                        Branched.withConsumer(each -> results.put((String) branch.get("as"), each)));
                }
                if (step.containsKey("default")) {
                    split.defaultBranch(
                        Branched.withConsumer(each -> results.put((String) step.get("default"), each)));
                } else {
                    split.noDefaultBranch();
                }
                return of;
            }
            case "merge": return of.merge((KStream) results.get(step.get("with")), named);
            case "repartition": {
                Repartitioned<Object, Object> how = Repartitioned.with(KEY, JSON);
                if (step.containsKey("name")) {
                    how = how.withName((String) step.get("name"));
                }
                if (step.containsKey("partitions")) {
                    how = how.withNumberOfPartitions((int) asLong(step.get("partitions")));
                }
                return of.repartition(how);
            }
            case "to": {
                Produced<Object, Object> how = Produced.with(KEY, JSON);
                if (step.containsKey("name")) {
                    how = how.withName((String) step.get("name"));
                }
                Object choose = step.get("topic_fn");
                if (choose != null) {
                    of.to((k, v, context) -> (String) eval(choose, env("k", k, "v", v)), how);
                } else {
                    of.to((String) step.get("topic"), how);
                }
                return of;
            }
            case "toTable":
                return step.containsKey("store") ? of.toTable(named, materialized(step)) : of.toTable(named);
            case "groupByKey": return of.groupByKey(grouped(step));
            case "groupBy": return of.groupBy((k, v) -> eval(fn, env("k", k, "v", v)), grouped(step));
            default: throw new IllegalArgumentException("no step " + op);
        }
    }

    Object onTable(KTable<Object, Object> of, String op, Map<String, Object> step) {
        Object fn = step.get("fn");
        Named named = named(step);
        boolean kept = step.containsKey("store");
        Predicate<Object, Object> predicate = (k, v) -> holds(fn, k, v);
        ValueMapperWithKey<Object, Object, Object> mapper = (k, v) -> eval(fn, env("k", k, "v", v));
        switch (op) {
            case "filter":
                return kept ? of.filter(predicate, named, materialized(step)) : of.filter(predicate, named);
            case "filterNot":
                return kept ? of.filterNot(predicate, named, materialized(step)) : of.filterNot(predicate, named);
            case "mapValues":
                return kept ? of.mapValues(mapper, named, materialized(step)) : of.mapValues(mapper, named);
            case "toStream": {
                Object key = step.get("key");
                return key == null ? of.toStream(named)
                    : of.toStream((k, v) -> eval(key, env("k", k, "v", v)), named);
            }
            case "groupBy": return of.groupBy((k, v) -> pair(step, k, v), grouped(step));
            case "suppress": return of.suppress(suppressed(step));
            default: throw new IllegalArgumentException("no step " + op);
        }
    }

    Object aggregated(Object of, String op, Map<String, Object> step) {
        Named named = named(step);
        // A Materialized without a name takes a number more.
        boolean kept = step.containsKey("store");
        Materialized how = materialized(step);
        Initializer<Object> init = () -> eval(step.get("init"), env());
        Aggregator<Object, Object, Object> add = aggregator(step.get("fn"));
        Reducer<Object> reducer = reducer(step.get("fn"));
        Merger<Object, Object> merger = (k, a, b) -> eval(step.get("merger"), env("k", k, "a", a, "b", b));
        if (of instanceof KGroupedStream) {
            KGroupedStream group = (KGroupedStream) of;
            return op.equals("count") ? (kept ? group.count(named, how) : group.count(named))
                : op.equals("reduce") ? group.reduce(reducer, named, how) : group.aggregate(init, add, named, how);
        }
        if (of instanceof KGroupedTable) {
            KGroupedTable group = (KGroupedTable) of;
            return op.equals("count") ? (kept ? group.count(named, how) : group.count(named))
                : op.equals("reduce")
                    ? group.reduce(reducer(step.get("adder")), reducer(step.get("subtractor")), named, how)
                    : group.aggregate(init, aggregator(step.get("adder")), aggregator(step.get("subtractor")),
                        named, how);
        }
        if (of instanceof TimeWindowedKStream) {
            TimeWindowedKStream group = (TimeWindowedKStream) of;
            return op.equals("count") ? (kept ? group.count(named, how) : group.count(named))
                : op.equals("reduce") ? group.reduce(reducer, named, how) : group.aggregate(init, add, named, how);
        }
        if (of instanceof SessionWindowedKStream) {
            SessionWindowedKStream group = (SessionWindowedKStream) of;
            return op.equals("count") ? (kept ? group.count(named, how) : group.count(named))
                : op.equals("reduce") ? group.reduce(reducer, named, how)
                : group.aggregate(init, add, merger, named, how);
        }
        if (of instanceof TimeWindowedCogroupedKStream) {
            return ((TimeWindowedCogroupedKStream) of).aggregate(init, named, how);
        }
        if (of instanceof SessionWindowedCogroupedKStream) {
            return ((SessionWindowedCogroupedKStream) of).aggregate(init, merger, named, how);
        }
        return ((CogroupedKStream) of).aggregate(init, named, how);
    }

    Object windowed(Object of, Map<String, Object> window) {
        Duration grace = ms(window, "grace_ms");
        String type = (String) window.get("type");
        if (type.equals("session")) {
            SessionWindows windows = SessionWindows.ofInactivityGapAndGrace(ms(window, "gap_ms"), grace);
            return of instanceof KGroupedStream ? ((KGroupedStream) of).windowedBy(windows)
                : ((CogroupedKStream) of).windowedBy(windows);
        }
        if (type.equals("sliding")) {
            SlidingWindows windows = SlidingWindows.ofTimeDifferenceAndGrace(ms(window, "difference_ms"), grace);
            return of instanceof KGroupedStream ? ((KGroupedStream) of).windowedBy(windows)
                : ((CogroupedKStream) of).windowedBy(windows);
        }
        Windows windows;
        if (type.equals("unlimited")) {
            windows = UnlimitedWindows.of().startOn(Instant.ofEpochMilli(
                asLong(window.getOrDefault("start_ms", 0L))));
        } else {
            TimeWindows made = TimeWindows.ofSizeAndGrace(ms(window, "size_ms"), grace);
            windows = type.equals("hopping") ? made.advanceBy(ms(window, "advance_ms")) : made;
        }
        return of instanceof KGroupedStream ? ((KGroupedStream) of).windowedBy(windows)
            : ((CogroupedKStream) of).windowedBy(windows);
    }

    Object joined(Object of, String op, Map<String, Object> step) {
        Object fn = step.get("fn");
        Object with = results.get(step.get("with"));
        ValueJoinerWithKey<Object, Object, Object, Object> joiner =
            (k, l, r) -> eval(fn, env("k", k, "l", l, "r", r));
        if (of instanceof KTable) {
            return joinedTables((KTable) of, (KTable) with, op, step);
        }
        KStream<Object, Object> stream = (KStream) of;
        boolean inner = op.equals("join");
        if (with instanceof KStream) {
            KStream<Object, Object> other = (KStream) with;
            Map<String, Object> window = (Map<String, Object>) step.get("window");
            JoinWindows windows = JoinWindows.ofTimeDifferenceAndGrace(
                ms(window, "difference_ms"), ms(window, "grace_ms"));
            windows = window.containsKey("before_ms") ? windows.before(ms(window, "before_ms")) : windows;
            windows = window.containsKey("after_ms") ? windows.after(ms(window, "after_ms")) : windows;
            StreamJoined<Object, Object, Object> how = StreamJoined.with(KEY, JSON, JSON);
            how = step.containsKey("name") ? how.withName((String) step.get("name")) : how;
            return inner ? stream.join(other, joiner, windows, how)
                : op.equals("leftJoin") ? stream.leftJoin(other, joiner, windows, how)
                : stream.outerJoin(other, joiner, windows, how);
        }
        if (with instanceof GlobalKTable) {
            GlobalKTable<Object, Object> table = (GlobalKTable) with;
            KeyValueMapper<Object, Object, Object> key = (k, v) -> eval(step.get("key"), env("k", k, "v", v));
            return inner ? stream.join(table, key, joiner, named(step))
                : stream.leftJoin(table, key, joiner, named(step));
        }
        KTable<Object, Object> table = (KTable) with;
        Joined<Object, Object, Object> how = Joined.with(KEY, JSON, JSON);
        how = step.containsKey("grace_ms") ? how.withGracePeriod(ms(step, "grace_ms")) : how;
        how = step.containsKey("name") ? how.withName((String) step.get("name")) : how;
        return inner ? stream.join(table, joiner, how) : stream.leftJoin(table, joiner, how);
    }

    Object joinedTables(KTable<Object, Object> left, KTable<Object, Object> right, String op,
        Map<String, Object> step) {
        Object fn = step.get("fn");
        ValueJoiner<Object, Object, Object> joiner = (l, r) -> eval(fn, env("l", l, "r", r));
        Named named = named(step);
        boolean inner = op.equals("join");
        boolean kept = step.containsKey("store");
        Materialized how = materialized(step);
        if (step.containsKey("foreign_key")) {
            java.util.function.Function<Object, Object> key = v -> eval(step.get("foreign_key"), env("v", v));
            TableJoined<Object, Object> tables = TableJoined.with(null, null);
            tables = step.containsKey("name") ? tables.withName((String) step.get("name")) : tables;
            if (kept) {
                return inner ? left.join(right, key, joiner, tables, how)
                    : left.leftJoin(right, key, joiner, tables, how);
            }
            return inner ? left.join(right, key, joiner, tables) : left.leftJoin(right, key, joiner, tables);
        }
        if (kept) {
            return inner ? left.join(right, joiner, named, how)
                : op.equals("leftJoin") ? left.leftJoin(right, joiner, named, how)
                : left.outerJoin(right, joiner, named, how);
        }
        return inner ? left.join(right, joiner, named)
            : op.equals("leftJoin") ? left.leftJoin(right, joiner, named) : left.outerJoin(right, joiner, named);
    }

    Suppressed suppressed(Map<String, Object> step) {
        boolean last = step.get("until").equals("windowCloses");
        Suppressed.BufferConfig buffer = Suppressed.BufferConfig.unbounded();
        if (step.containsKey("max_records")) {
            buffer = Suppressed.BufferConfig.maxRecords(asLong(step.get("max_records")));
        }
        if (step.containsKey("max_bytes")) {
            buffer = buffer.withMaxBytes(asLong(step.get("max_bytes"))).emitEarlyWhenFull();
        }
        if (last || "shutDown".equals(step.get("when_full"))) {
            buffer = buffer.shutDownWhenFull();
        }
        Suppressed made = last ? Suppressed.untilWindowCloses((Suppressed.StrictBufferConfig) buffer)
            : Suppressed.untilTimeLimit(ms(step, "time_limit_ms"), buffer);
        return step.containsKey("name") ? made.withName((String) step.get("name")) : made;
    }

    KStream<Object, Object> processed(KStream<Object, Object> of, Map<String, Object> step) {
        ProcessorSupplier<Object, Object, Object, Object> supplier = () -> new Processor<>() {
            VectorWorker worker;

            @Override
            public void init(ProcessorContext<Object, Object> context) {
                VectorSender sender = (key, value, time, headers) ->
                    context.forward(new Record<>(key, value, time, headers));
                worker = new VectorWorker(step, context, sender);
            }

            @Override
            public void process(Record<Object, Object> record) {
                worker.take(record.key(), record.value(), record.timestamp(), record.headers(), worker.sender);
            }
        };
        return step.containsKey("name") ? of.process(supplier, named(step), storesOf(step))
            : of.process(supplier, storesOf(step));
    }

    KStream<Object, Object> processedValues(KStream<Object, Object> of, Map<String, Object> step) {
        FixedKeyProcessorSupplier<Object, Object, Object> supplier = () -> new FixedKeyProcessor<>() {
            VectorWorker worker;
            FixedKeyProcessorContext<Object, Object> context;

            @Override
            public void init(FixedKeyProcessorContext<Object, Object> given) {
                context = given;
                worker = new VectorWorker(step, given, null);
            }

            @Override
            public void process(FixedKeyRecord<Object, Object> record) {
                worker.take(record.key(), record.value(), record.timestamp(), record.headers(),
                    (key, value, time, headers) ->
                        context.forward(record.withValue(value).withTimestamp(time).withHeaders(headers)));
            }
        };
        return step.containsKey("name") ? of.processValues(supplier, named(step), storesOf(step))
            : of.processValues(supplier, storesOf(step));
    }

    String[] storesOf(Map<String, Object> step) {
        String name = (String) step.get("store");
        if (name == null) {
            return new String[0];
        }
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(name), KEY, JSON));
        return new String[] {name};
    }

    // --- options ---

    static Named named(Map<String, Object> step) {
        return step.containsKey("name") ? Named.as((String) step.get("name")) : NamedInternal.empty();
    }

    static Consumed<Object, Object> consumed(Map<String, Object> step) {
        Consumed<Object, Object> how = Consumed.with(KEY, JSON);
        how = step.containsKey("name") ? how.withName((String) step.get("name")) : how;
        String field = (String) step.get("timestamp_field");
        return field == null ? how : how.withTimestampExtractor(
            (record, time) -> asLong(((Map<String, Object>) record.value()).get(field)));
    }

    static Grouped<Object, Object> grouped(Map<String, Object> step) {
        Grouped<Object, Object> how = Grouped.with(KEY, JSON);
        return step.containsKey("name") ? how.withName((String) step.get("name")) : how;
    }

    static Materialized materialized(Map<String, Object> step) {
        String store = (String) step.get("store");
        if (store == null) {
            return Materialized.with(KEY, JSON);
        }
        Materialized how = step.containsKey("versioned_history_ms")
            ? Materialized.as(Stores.persistentVersionedKeyValueStore(store, ms(step, "versioned_history_ms")))
            : Materialized.as(store);
        how = how.withKeySerde(KEY).withValueSerde(JSON);
        return step.containsKey("retention_ms") ? how.withRetention(ms(step, "retention_ms")) : how;
    }

    static Duration ms(Map<String, Object> from, String field) {
        return Duration.ofMillis(asLong(from.getOrDefault(field, 0L)));
    }

    static boolean holds(Object fn, Object key, Object value) {
        return eval(fn, env("k", key, "v", value)) == Boolean.TRUE;
    }

    static KeyValue<Object, Object> pair(Map<String, Object> step, Object key, Object value) {
        Map<String, Object> env = env("k", key, "v", value);
        return KeyValue.pair(eval(step.get("key"), env), eval(step.get("value"), env));
    }

    static Aggregator<Object, Object, Object> aggregator(Object fn) {
        return (k, v, agg) -> eval(fn, env("k", k, "v", v, "agg", agg));
    }

    static Reducer<Object> reducer(Object fn) {
        return (a, b) -> eval(fn, env("a", a, "b", b));
    }
}
