package io.pyslash.ingest;

import io.pyslash.catalyst.OnlySpark;
import io.pyslash.core.Json;
import io.pyslash.kafka.KafkaScanExec;
import io.pyslash.records.AvroSchema;
import io.pyslash.records.JsonSchema;
import io.pyslash.records.LineRecords;
import io.pyslash.shim.AvroFunction;
import io.pyslash.shim.StreamPlanning;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** What {@link NativeInput} will do with a query's records, so far as the plan of a query that has not started tells. */
public final class RecordOutlook {
  private static final String KAFKA = "kafka";

  private final SparkSession session;
  private final SQLConf conf;
  private final Map<String, String> found = new LinkedHashMap<>(); // of each kind an obstacle, or nothing
  private final Set<Long> headers = new HashSet<>(); // columns of topics, by their ids

  private RecordOutlook(SparkSession session) {
    this.session = session;
    conf = session.sessionState().conf();
  }

  /**
   * Of each kind of source (as queries name it), of `from_json` and `from_avro`, why only Spark reads such records; nothing if nothing is
   * known against native code. JSON.
   */
  public static String of(SparkSession session, LogicalPlan analysed) {
    RecordOutlook outlook = new RecordOutlook(session);
    outlook.look(analysed);
    CollectionConverters.asJava(analysed.output()).forEach(outlook::look);
    return Json.of(outlook.found);
  }

  private void look(LogicalPlan node) {
    CollectionConverters.asJava(node.children()).forEach(this::look);
    for (Expression expression : CollectionConverters.asJava(node.expressions())) {
      if (!(node instanceof Project && expression instanceof Attribute)) { // which passes a column on, perhaps to nobody
        look(expression);
      }
    }
    if (node.children().isEmpty() && node.isStreaming()) {
      source(node);
    }
  }

  private void look(Expression expression) {
    if (expression instanceof JsonToStructs json) {
      note("from_json", () -> JsonSchema.of(json, conf));
    }
    Expression avro = AvroFunction.in(expression);
    if (avro != null) {
      note("from_avro", () -> new AvroSchema(avro, place -> false, conf));
    }
    if (expression instanceof Attribute column && headers.contains(column.exprId().id())) {
      found.put(KAFKA, "headers of records are read");
    }
    CollectionConverters.asJava(expression.children()).forEach(this::look);
  }

  private void source(LogicalPlan leaf) {
    DataSource files = StreamPlanning.source(leaf);
    if (files != null) {
      note(files.className().toLowerCase(Locale.ROOT), () -> check(files));
    } else if (leaf instanceof StreamingRelationV2 relation) {
      String name = relation.sourceName().toLowerCase(Locale.ROOT);
      note(name, () -> {});
      if (name.equals(KAFKA)) {
        topics(leaf);
      }
    } else {
      note(leaf.nodeName(), () -> {});
    }
  }

  private void topics(LogicalPlan leaf) {
    for (Attribute column : CollectionConverters.asJava(leaf.output())) {
      if (column.name().equals(KafkaScanExec.HEADERS)) {
        headers.add(column.exprId().id());
      }
    }
    if (session.sparkContext().conf().getAllWithPrefix(KafkaScanExec.TOKENS).length > 0) {
      found.put(KAFKA, "Spark makes tokens for brokers (" + KafkaScanExec.TOKENS + "*)");
    }
  }

  /** Whether native code can read the records of these files, if they are of a kind that it reads. */
  private void check(DataSource files) {
    FileFormat format = LineRecords.formatOf(files.providingClass());
    if (format != null) {
      StructType columns = files.sourceInfo().schema();
      Map<String, String> options = CollectionConverters.asJava(files.options());
      LineRecords.of(format, new LineRecords.Source(conf, columns, columns, List.of(), options));
    }
  }

  private void note(String kind, Runnable reads) {
    try {
      reads.run();
      found.putIfAbsent(kind, "");
    } catch (OnlySpark reason) {
      found.put(kind, reason.getMessage());
    }
  }
}
