import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.kstream.Windowed;

/** Values of vectors: JSON in and out, and the expressions of the notation. */
@SuppressWarnings({"unchecked", "rawtypes"})
class VectorValues {
    static final ObjectMapper MAPPER = new ObjectMapper()
        .configure(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS, true)
        .configure(DeserializationFeature.USE_LONG_FOR_INTS, true);
    static final Serde<Object> JSON = Serdes.serdeFrom(
        (topic, value) -> bytes(value),
        (topic, data) -> parsed(data));

    /** Texts are keys as they are; windows are objects. */
    static final Serde<Object> KEY = Serdes.serdeFrom(
        (topic, key) -> keyBytes(key),
        (topic, data) -> parsedKey(data));

    public static class KeySerde extends Serdes.WrapperSerde<Object> {
        public KeySerde() {
            super(KEY.serializer(), KEY.deserializer());
        }
    }

    public static class JsonSerde extends Serdes.WrapperSerde<Object> {
        public JsonSerde() {
            super(JSON.serializer(), JSON.deserializer());
        }
    }

    // --- values ------------------------------------------------------------------------------------

    static byte[] bytes(Object value) {
        try {
            return value == null ? null : MAPPER.writeValueAsBytes(plain(value));
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    static Object parsed(byte[] data) {
        try {
            return data == null ? null : MAPPER.readValue(data, Object.class);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    static byte[] keyBytes(Object key) {
        return key instanceof String ? ((String) key).getBytes(StandardCharsets.UTF_8) : bytes(key);
    }

    static Object parsedKey(byte[] data) {
        if (data == null || data.length == 0 || data[0] != '{') {
            return data == null ? null : new String(data, StandardCharsets.UTF_8);
        }
        Object found = parsed(data);
        boolean isWindow = ((Map<?, ?>) found).keySet().equals(Set.of("key", "start", "end"));
        return isWindow ? found : new String(data, StandardCharsets.UTF_8);
    }

    static Object plain(Object value) {
        if (value instanceof Windowed) {
            Windowed<?> windowed = (Windowed<?>) value;
            Map<String, Object> shown = new TreeMap<>();
            shown.put("key", windowed.key());
            shown.put("start", windowed.window().start());
            shown.put("end", windowed.window().end());
            return shown;
        }
        return value;
    }

    static String text(Object value) {
        value = plain(value);
        if (value instanceof Map || value instanceof List) {
            return new String(bytes(value), StandardCharsets.UTF_8);
        }
        return String.valueOf(value);
    }

    static long asLong(Object value) {
        return ((Number) value).longValue();
    }

    // --- expressions -------------------------------------------------------------------------------

    static Map<String, Object> env(Object... pairs) {
        Map<String, Object> found = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            found.put((String) pairs[at], pairs[at + 1]);
        }
        return found;
    }

    static Object eval(Object expression, Map<String, Object> env) {
        if (!(expression instanceof List)) {
            return expression;
        }
        List<Object> call = (List<Object>) expression;
        String name = (String) call.get(0);
        if (call.size() == 1 && env.containsKey(name)) {
            return env.get(name);
        }
        switch (name) {
            case "obj": {
                Map<String, Object> made = new TreeMap<>();
                ((Map<String, Object>) call.get(1)).forEach((field, each) -> made.put(field, eval(each, env)));
                return made;
            }
            case "foreach": {
                List<Object> made = new ArrayList<>();
                for (Object item : (List<Object>) eval(call.get(1), env)) {
                    Map<String, Object> inner = new LinkedHashMap<>(env);
                    inner.put("x", item);
                    made.add(eval(call.get(2), inner));
                }
                return made;
            }
            case "if":
                return eval(call.get(eval(call.get(1), env) == Boolean.TRUE ? 2 : 3), env);
            case "and":
                return call.stream().skip(1).allMatch(each -> eval(each, env) == Boolean.TRUE);
            case "or":
                return call.stream().skip(1).anyMatch(each -> eval(each, env) == Boolean.TRUE);
            default:
        }
        List<Object> given = new ArrayList<>();
        for (Object each : call.subList(1, call.size())) {
            given.add(eval(each, env));
        }
        return function(name, given);
    }

    static Object function(String name, List<Object> given) {
        Object one = given.isEmpty() ? null : given.get(0);
        Object other = given.size() < 2 ? null : given.get(1);
        switch (name) {
            case "list": return given;
            case "get": {
                Object from = plain(one);
                return from == null ? null : ((Map<String, Object>) from).get(other);
            }
            case "append": {
                List<Object> made = one == null ? new ArrayList<>() : new ArrayList<>((List<Object>) one);
                made.add(other);
                return made;
            }
            case "extend": {
                List<Object> made = one == null ? new ArrayList<>() : new ArrayList<>((List<Object>) one);
                made.addAll(other == null ? List.of() : (List<Object>) other);
                return made;
            }
            case "remove": {
                List<Object> made = new ArrayList<>((List<Object>) one);
                made.remove(other);
                return made;
            }
            case "not": return one != Boolean.TRUE;
            case "eq": return java.util.Objects.equals(plain(one), plain(other));
            case "ne": return !java.util.Objects.equals(plain(one), plain(other));
            case "gt": return compared(one, other) > 0;
            case "ge": return compared(one, other) >= 0;
            case "lt": return compared(one, other) < 0;
            case "le": return compared(one, other) <= 0;
            case "isnull": return one == null;
            case "coalesce": return given.stream().filter(each -> each != null).findFirst().orElse(null);
            case "add": return given.stream().reduce((a, b) -> number(a, b, asLongs(a, b) ? asLong(a) + asLong(b)
                : asDouble(a) + asDouble(b))).get();
            case "mul": return given.stream().reduce((a, b) -> number(a, b, asLongs(a, b) ? asLong(a) * asLong(b)
                : asDouble(a) * asDouble(b))).get();
            case "sub": return number(one, other, asLongs(one, other) ? asLong(one) - asLong(other)
                : asDouble(one) - asDouble(other));
            case "div": return asDouble(one) / asDouble(other);
            case "min": return compared(one, other) <= 0 ? one : other;
            case "max": return compared(one, other) >= 0 ? one : other;
            case "len": return (long) (one == null ? 0 : one instanceof List ? ((List) one).size()
                : ((String) one).length());
            case "upper": return ((String) one).toUpperCase();
            case "lower": return ((String) one).toLowerCase();
            case "str": return text(one);
            case "long": return one == null ? null : Long.valueOf(one.toString());
            case "startswith": return ((String) one).startsWith((String) other);
            case "contains": return one instanceof List ? ((List) one).contains(other)
                : one != null && ((String) one).contains((String) other);
            case "concat": {
                StringBuilder made = new StringBuilder();
                given.forEach(each -> made.append(text(each)));
                return made.toString();
            }
            case "split": return new ArrayList<Object>(List.of(((String) one).split((String) other)));
            case "words": {
                List<Object> made = new ArrayList<>();
                for (String word : (one == null ? "" : (String) one).toLowerCase().split("\\W+")) {
                    if (!word.isEmpty()) {
                        made.add(word);
                    }
                }
                return made;
            }
            case "fail": throw new IllegalStateException((String) one);
            default: throw new IllegalArgumentException("no function " + name);
        }
    }

    static boolean asLongs(Object one, Object other) {
        return one instanceof Long && other instanceof Long;
    }

    static double asDouble(Object value) {
        return ((Number) value).doubleValue();
    }

    static Object number(Object one, Object other, double value) {
        return asLongs(one, other) ? (Object) (long) value : (Object) value;
    }

    static int compared(Object one, Object other) {
        if (one instanceof Number) {
            return Double.compare(asDouble(one), asDouble(other));
        }
        return ((Comparable) one).compareTo(other);
    }
}
