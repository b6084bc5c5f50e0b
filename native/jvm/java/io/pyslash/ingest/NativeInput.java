package io.pyslash.ingest;

import io.pyslash.catalyst.OnlySpark;
import io.pyslash.catalyst.Origin;
import io.pyslash.kafka.KafkaScanExec;
import io.pyslash.records.AvroSchema;
import io.pyslash.records.JsonSchema;
import io.pyslash.records.LineRecords;
import io.pyslash.records.LineScanExec;
import io.pyslash.records.RecordDecoder;
import io.pyslash.records.RecordSchema;
import io.pyslash.shim.AvroFunction;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.execution.CollapseCodegenStages;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.util.LongAccumulator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The rows of an update job with {@link RecordDecoder} in the place of `from_json` and `from_avro`, {@link LineScanExec} in
 * that of a scan of JSON or CSV files and {@link KafkaScanExec} in that of a scan of topics, in a plan whose stages are made
 * again: Spark has no generated code for `from_json`, and so interrupts a stage for it.
 */
public final class NativeInput {
  private final SQLConf conf;
  private final Reads reads;
  private final LongAccumulator leftToSpark;
  private final LongAccumulator fetched;
  private final LongAccumulator inPages;
  private final Map<Expression, Expression> decoders = new HashMap<>(); // of functions as they are canonically
  private final List<String> obstacles = new ArrayList<>();
  private final SparkPlan spark;
  private final SparkPlan plan;
  private UsedFields avroFields; // null: no `from_avro` has come yet
  private boolean readsSome; // of the records

  public NativeInput(SparkPlan spark, Reads reads) {
    this.spark = spark;
    conf = spark.conf();
    leftToSpark = new LongAccumulator();
    fetched = new LongAccumulator();
    inPages = new LongAccumulator();
    this.reads = reads;
    SparkPlan decoded = reads.some() ? decoded(spark, null) : spark;
    if (!readsSome) {
      plan = spark;
    } else {
      spark.session().sparkContext().register(leftToSpark);
      spark.session().sparkContext().register(fetched);
      spark.session().sparkContext().register(inPages);
      SparkPlan staged =
          SQLConf.withExistingConf(conf, () -> new CollapseCodegenStages(new AtomicInteger()).apply(decoded));
      plan = reusing(staged, new IdentityHashMap<>());
    }
  }

  /** What is to be executed: Spark's own plan where native code reads none of its records. */
  public SparkPlan plan() {
    return plan;
  }

  /** Why Spark reads all records of a `from_json` or a `from_avro`, or of files. */
  public List<String> obstacles() {
    return obstacles;
  }

  /** Records that Spark has read, of those that native code was given. */
  public long leftToSpark() {
    return leftToSpark.sum();
  }

  /** Records of topics that have come past Spark's reader. */
  public long fetched() {
    return fetched.sum();
  }

  /** Records of files that have not been rows of their own between the reader and the update, but pages of them. */
  public long inPages() {
    return inPages.sum();
  }

  /**
   * The same operators without stages, those of what is broadcast too: they are put into stages anew, all of them.
   *
   * @param needed columns that are needed of this node; null if it may be all
   */
  private SparkPlan decoded(SparkPlan node, Set<Long> needed) {
    if (node instanceof WholeStageCodegenExec || node instanceof InputAdapter) {
      return decoded(node.children().head(), needed);
    }
    if (reads.kafka() && node instanceof MicroBatchScanExec scan) {
      return consumed(scan, needed == null ? ids(scan.outputSet()) : needed);
    }
    if (node instanceof FileSourceScanExec scan && readsFiles(scan.relation().fileFormat())) {
      return scanned(scan);
    }
    if (node.children().isEmpty()) { // Spark looks for its figures in the very scans that it has planned
      return node;
    }
    Set<Long> below = null;
    if (node instanceof ProjectExec || (node instanceof FilterExec && needed != null)) {
      below = ids(node.references());
      if (node instanceof FilterExec) {
        below.addAll(needed);
      }
    }
    List<SparkPlan> children = new ArrayList<>();
    for (SparkPlan child : CollectionConverters.asJava(node.children())) {
      children.add(decoded(child, below));
    }
    return node.withNewChildren(CollectionConverters.asScala(children).toSeq()).transformExpressions(new Replacing());
  }

  /**
   * The same plan, in which what Spark shuffles or broadcasts once for two places is this plan's own copy of it.
   *
   * @param copies of Spark's exchanges; each stands before the places that use it once more
   */
  private static SparkPlan reusing(SparkPlan node, Map<SparkPlan, Exchange> copies) {
    if (node instanceof ReusedExchangeExec reused) {
      Exchange copy = copies.get(Origin.of(reused.child())); // which may be a copy, too
      return copy == null ? node : new ReusedExchangeExec(reused.output(), copy);
    }
    List<SparkPlan> children =
        CollectionConverters.asJava(node.children()).stream().map(child -> reusing(child, copies)).toList();
    SparkPlan found = node;
    for (int i = 0; i < children.size(); i++) {
      if (children.get(i) != node.children().apply(i)) { // a copy equals what it is one of, which `withNewChildren` would keep
        found = node.withNewChildrenInternal(CollectionConverters.asScala(children).toIndexedSeq());
        found.copyTagsFrom(node);
        break;
      }
    }
    if (found instanceof Exchange exchange) {
      copies.put(Origin.of(exchange), exchange);
    }
    return found;
  }

  private static Set<Long> ids(AttributeSet columns) {
    Set<Long> ids = new HashSet<>();
    CollectionConverters.asJava(columns).forEach(column -> ids.add(column.exprId().id()));
    return ids;
  }

  private SparkPlan consumed(MicroBatchScanExec scan, Set<Long> needed) {
    return KafkaScanExec.canRead(scan, needed) ? inOneStage(new KafkaScanExec(scan, needed, fetched), needed) : scan;
  }

  /** These columns by an operator that has generated code, so that what stands above has the rows in one stage with it. */
  private SparkPlan inOneStage(SparkPlan scan, Set<Long> columns) {
    readsSome = true;
    List<NamedExpression> chosen = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(scan.output())) {
      if (columns.contains(column.exprId().id())) {
        chosen.add(column);
      }
    }
    return new ProjectExec(CollectionConverters.asScala(chosen).toSeq(), scan);
  }

  private boolean readsFiles(FileFormat format) {
    return reads.json() && LineRecords.isJson(format) || reads.csv() && LineRecords.isCsv(format);
  }

  private SparkPlan scanned(FileSourceScanExec scan) {
    try {
      return inOneStage(new LineScanExec(scan, leftToSpark, inPages), ids(scan.outputSet()));
    } catch (OnlySpark reason) {
      obstacles.add(reason.getMessage());
      return scan;
    }
  }

  private final class Replacing extends AbstractPartialFunction<Expression, Expression> {
    @Override
    public boolean isDefinedAt(Expression expression) {
      return reads.json() && expression instanceof JsonToStructs || reads.avro() && AvroFunction.is(expression);
    }

    @Override
    public Expression apply(Expression expression) {
      try {
        Expression decoded = invoke(expression, decoder(expression));
        readsSome = true;
        return decoded;
      } catch (OnlySpark reason) {
        obstacles.add(reason.getMessage());
        return expression;
      }
    }
  }

  /** One for all places that want the same of the same. */
  private Expression decoder(Expression function) {
    if (!function.deterministic()) {
      return newDecoder(function);
    }
    Expression known = decoders.get(function.canonicalized());
    if (known == null) {
      known = newDecoder(function);
      decoders.put(function.canonicalized(), known);
    }
    return known;
  }

  private Expression newDecoder(Expression function) {
    if (function.exists(NamedLambdaVariable.class::isInstance)) { // what it gave before may be kept by its caller
      throw new OnlySpark(function.prettyName() + " is computed of each element of an array or a map");
    }
    RecordSchema schema =
        function instanceof JsonToStructs json
            ? JsonSchema.of(json, conf)
            : new AvroSchema(function, avroFields().of(function), conf);
    return new Literal(
        new RecordDecoder(schema.text(), function, leftToSpark), ObjectType.apply(Function.class));
  }

  private UsedFields avroFields() {
    if (avroFields == null) {
      avroFields = new UsedFields(spark, AvroFunction::is);
    }
    return avroFields;
  }

  /** As an interface of Java's own: generated code finds no class of an added jar. */
  private static Expression invoke(Expression function, Expression decoder) {
    return new Invoke(
        decoder,
        "apply",
        function.dataType(),
        function.children(),
        CollectionConverters.asScala(List.<AbstractDataType>of()).toSeq(),
        true,
        true,
        true);
  }
}
