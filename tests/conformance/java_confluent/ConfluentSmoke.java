import io.confluent.kafka.schemaregistry.CompatibilityLevel;
import io.confluent.kafka.schemaregistry.ParsedSchemaHolder;
import io.confluent.kafka.schemaregistry.SimpleParsedSchemaHolder;
import io.confluent.kafka.schemaregistry.avro.AvroSchema;
import io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import io.confluent.kafka.schemaregistry.client.SchemaRegistryClient;
import io.confluent.kafka.schemaregistry.client.rest.entities.Metadata;
import io.confluent.kafka.schemaregistry.client.rest.entities.Rule;
import io.confluent.kafka.schemaregistry.client.rest.entities.RuleKind;
import io.confluent.kafka.schemaregistry.client.rest.entities.RuleMode;
import io.confluent.kafka.schemaregistry.client.rest.entities.RuleSet;
import io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * Confluent's Java client and Avro serializers against our registry: arguments are the registry, the brokers, a
 * step, and what the step needs. A step prints what it found; one that finds something wrong throws.
 */
public class ConfluentSmoke {
  static final String ORDER =
      "{\"type\":\"record\",\"name\":\"Order\",\"namespace\":\"shop\",\"fields\":["
          + "{\"name\":\"id\",\"type\":\"long\"},{\"name\":\"note\",\"type\":[\"null\",\"string\"],\"default\":null}]}";
  static final String MORE = ORDER.replace("]}", ",{\"name\":\"size\",\"type\":\"int\",\"default\":0}]}");
  static final String WRONG = ORDER.replace("]}", ",{\"name\":\"weight\",\"type\":\"int\"}]}");

  public static void main(String[] arguments) throws Exception {
    String registry = arguments[0], brokers = arguments[1], step = arguments[2];
    switch (step) {
      case "client" -> client(new CachedSchemaRegistryClient(registry, 100));
      case "references" -> references(new CachedSchemaRegistryClient(registry, 100));
      case "contracts" -> contracts(registry);
      case "write" -> write(registry, brokers, arguments[3]);
      case "read" -> read(registry, brokers, arguments[3]);
      case "verdicts" -> verdicts();
      case "texts" -> texts();
      default -> throw new IllegalArgumentException(step);
    }
  }

  static void client(SchemaRegistryClient client) throws Exception {
    int first = client.register("java-client", new AvroSchema(ORDER));
    check(client.register("java-client", new AvroSchema(ORDER)) == first, "registered once");
    int second = client.register("java-client", new AvroSchema(MORE), true);
    check(client.getAllVersions("java-client").equals(List.of(1, 2)), "two versions");
    SchemaMetadata latest = client.getLatestSchemaMetadata("java-client");
    check(latest.getId() == second && latest.getVersion() == 2, "the latest");
    check(client.getSchemaById(first).canonicalString().equals(ORDER), "by id");
    check(client.getVersion("java-client", new AvroSchema(MORE)) == 2, "look-up");
    check(client.testCompatibility("java-client", new AvroSchema(MORE)), "compatible");
    check(!client.testCompatibility("java-client", new AvroSchema(WRONG)), "incompatible");
    List<String> why = client.testCompatibilityVerbose("java-client", new AvroSchema(WRONG));
    check(why.toString().contains("READER_FIELD_MISSING_DEFAULT_VALUE"), "why: " + why);
    refused(409, () -> client.register("java-client", new AvroSchema(WRONG)));
    refused(40401, () -> client.getLatestSchemaMetadata("java-nowhere"));
    check(client.updateCompatibility("java-client", "FULL").equals("FULL"), "level");
    check(client.getCompatibility("java-client").equals("FULL"), "level again");
    check(client.getMode().equals("READWRITE"), "mode");
    check(client.getAllSubjectsById(first).contains("java-client"), "subjects");
    check(client.getAllContexts().contains("."), "contexts");
    check(client.getAllSubjectsByPrefix("java-cl").contains("java-client"), "prefix");
    check(client.deleteSchemaVersion("java-client", "1") == 1, "a version goes");
    check(client.deleteSubject("java-client").equals(List.of(2)), "the subject goes");
    check(client.deleteSubject("java-client", true).equals(List.of(1, 2)), "for good");
    System.out.println("ok");
  }

  static void references(SchemaRegistryClient client) throws Exception {
    String address = "{\"type\":\"record\",\"name\":\"Address\",\"fields\":[{\"name\":\"street\",\"type\":\"string\"}]}";
    String user = "{\"type\":\"record\",\"name\":\"User\",\"fields\":[{\"name\":\"home\",\"type\":\"Address\"}]}";
    client.register("java-address", new AvroSchema(address));
    SchemaReference reference = new SchemaReference("Address", "java-address", 1);
    AvroSchema schema = new AvroSchema(user, List.of(reference), Map.of("Address", address), null);
    int id = client.register("java-user", schema);
    check(client.getSchemaById(id).references().equals(List.of(reference)), "references come back");
    check(((Schema) client.getSchemaById(id).rawSchema()).getField("home").schema().getName().equals("Address"), "read");
    refused(42206, () -> client.deleteSubject("java-address"));
    System.out.println("ok");
  }

  static void contracts(String registry) throws Exception {
    SchemaRegistryClient client = new CachedSchemaRegistryClient(registry, 100);
    Rule rule = new Rule("positive", null, RuleKind.CONDITION, RuleMode.WRITE, "CEL", null, null, "m.id > 0", null, null, false);
    RuleSet rules = new RuleSet(null, List.of(rule));
    Metadata metadata = new Metadata(null, Map.of("owner", "ann"), null);
    AvroSchema plain = new AvroSchema(ORDER);
    client.register("java-contracts", plain);
    int id = client.register("java-contracts", plain.copy(metadata, rules));
    check(client.getAllVersions("java-contracts").equals(List.of(1, 2)), "rules make a version");
    SchemaRegistryClient other = new CachedSchemaRegistryClient(registry, 100);
    var found = other.getSchemaById(id);
    check(rules.equals(found.ruleSet()) && metadata.equals(found.metadata()), "as they were: " + found.ruleSet());
    check(other.register("java-contracts", found) == id, "nothing new");
    check(other.getVersion("java-contracts", found) == 2, "look-up");
    check(other.getLatestWithMetadata("java-contracts", Map.of("owner", "ann"), false).getVersion() == 2, "metadata");
    System.out.println("ok");
  }

  static void write(String registry, String brokers, String topic) {
    Schema schema = new Schema.Parser().parse(ORDER);
    try (var producer = new KafkaProducer<String, GenericRecord>(properties(registry, brokers))) {
      for (long id = 0; id < 100; id++) {
        GenericRecord order = new GenericData.Record(schema);
        order.put("id", id);
        order.put("note", id % 2 == 0 ? null : "水 " + id);
        producer.send(new ProducerRecord<>(topic, Long.toString(id), order));
      }
    }
    System.out.println("ok");
  }

  static void read(String registry, String brokers, String topic) {
    List<String> found = new ArrayList<>();
    try (var consumer = new KafkaConsumer<String, GenericRecord>(properties(registry, brokers))) {
      consumer.subscribe(List.of(topic));
      while (found.size() < 100) {
        for (ConsumerRecord<String, GenericRecord> record : consumer.poll(Duration.ofSeconds(1))) {
          found.add(record.value().getSchema().getFullName() + record.value());
        }
      }
    }
    found.forEach(System.out::println);
  }

  /** For each line, a level and two schemas with tabs between: what speaks against the second, with tabs. */
  static void verdicts() throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] parts = line.split("\t");
      var old = List.<ParsedSchemaHolder>of(new SimpleParsedSchemaHolder(new AvroSchema(parts[1])));
      var level = CompatibilityLevel.valueOf(parts[0]);
      System.out.println(String.join("\t", new AvroSchema(parts[2]).isCompatible(level, old)));
    }
  }

  /** For each schema in a line: how it is stored, and how with normalize=true. */
  static void texts() throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      AvroSchema schema = new AvroSchema(line);
      System.out.println(schema.canonicalString() + "\t" + schema.normalize().canonicalString());
    }
  }

  static Properties properties(String registry, String brokers) {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", brokers);
    properties.put("schema.registry.url", registry);
    properties.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
    properties.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
    properties.put("value.serializer", "io.confluent.kafka.serializers.KafkaAvroSerializer");
    properties.put("value.deserializer", "io.confluent.kafka.serializers.KafkaAvroDeserializer");
    properties.put("group.id", "confluent-smoke");
    properties.put("auto.offset.reset", "earliest");
    return properties;
  }

  interface Asked {
    void run() throws Exception;
  }

  static void refused(int code, Asked asked) throws Exception {
    try {
      asked.run();
    } catch (RestClientException error) {
      check(error.getErrorCode() == code, "code " + error.getErrorCode() + " in place of " + code + ": " + error);
      return;
    }
    throw new AssertionError("not refused with " + code);
  }

  static void check(boolean holds, String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
