package io.pyslash;

import io.pyslash.FileScan.OnlySpark;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.execution.CollapseCodegenStages;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.util.AccumulatorV2;
import org.apache.spark.util.LongAccumulator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The rows of an update job with {@link JsonDecoder} in the place of `from_json` and {@link JsonScanExec} in that of a scan
 * of JSON files, in a plan whose stages are made again: Spark has no generated code for `from_json`, and so interrupts a
 * stage for it.
 */
public final class JsonInput {
  private final SQLConf conf;
  private final LongAccumulator leftToSpark;
  private final LongAccumulator inPages;
  private final Map<Expression, Expression> decoders = new HashMap<>(); // one for all places that want the same
  private final Map<SparkPlan, SparkPlan> watermarks = new HashMap<>(); // Spark's, and those that are executed
  private final List<String> obstacles = new ArrayList<>();
  private final SparkPlan plan;
  private boolean decodesFiles;

  JsonInput(SparkPlan spark) {
    this(spark, true);
  }

  private JsonInput(SparkPlan spark, boolean natively) {
    conf = spark.conf();
    leftToSpark = new LongAccumulator();
    inPages = new LongAccumulator();
    SparkPlan decoded = natively ? decoded(spark) : spark;
    if (decoders.isEmpty() && !decodesFiles) {
      plan = spark;
      watermarks.clear();
    } else {
      spark.session().sparkContext().register(leftToSpark);
      spark.session().sparkContext().register(inPages);
      plan = SQLConf.withExistingConf(conf, () -> new CollapseCodegenStages(new AtomicInteger()).apply(decoded));
    }
  }

  /** Spark's own plan. */
  static JsonInput bySpark(SparkPlan spark) {
    return new JsonInput(spark, false);
  }

  /** What is to be executed: Spark's own plan where native code reads none of its JSON. */
  public SparkPlan plan() {
    return plan;
  }

  /** Why Spark reads all records of a `from_json`, or of files. */
  public List<String> obstacles() {
    return obstacles;
  }

  /** Records that Spark has read, of those that native code was given. */
  public long leftToSpark() {
    return leftToSpark.sum();
  }

  /** Records of files that have not been rows of their own between the reader and the update, but pages of them. */
  public long inPages() {
    return inPages.sum();
  }

  /** Give Spark's watermark operators what those in their places have collected. */
  void tellTimes() {
    watermarks.forEach((spark, ours) -> merge(Watermark.times(spark), Watermark.times(ours)));
  }

  @SuppressWarnings("unchecked")
  private static void merge(AccumulatorV2<?, ?> into, AccumulatorV2<?, ?> from) {
    if (into != from) {
      ((AccumulatorV2<Object, Object>) into).merge((AccumulatorV2<Object, Object>) from);
    }
  }

  /** The same operators without stages, what is broadcast excepted. */
  private SparkPlan decoded(SparkPlan node) {
    if (node instanceof WholeStageCodegenExec || node instanceof InputAdapter) {
      return decoded(node.children().head());
    }
    if (node instanceof FileSourceScanExec scan && JsonScanExec.isJson(scan)) {
      return scanned(scan);
    }
    if (node.children().isEmpty()) { // Spark looks for its figures in the very scans that it has planned
      return node;
    }
    List<SparkPlan> children = new ArrayList<>();
    for (SparkPlan child : CollectionConverters.asJava(node.children())) {
      children.add(child instanceof Exchange ? child : decoded(child));
    }
    SparkPlan rewritten =
        node.withNewChildren(CollectionConverters.asScala(children).toSeq()).transformExpressions(new Replacing());
    if (Watermark.is(node)) {
      watermarks.put(node, rewritten);
    }
    return rewritten;
  }

  private SparkPlan scanned(FileSourceScanExec scan) {
    try {
      SparkPlan natively = new JsonScanExec(scan, leftToSpark, inPages);
      decodesFiles = true;
      // An operator that has generated code, so that what stands above has the rows in one stage with it.
      Seq<NamedExpression> columns =
          CollectionConverters.asScala(CollectionConverters.asJava(natively.output()).stream().map(NamedExpression.class::cast).toList()).toSeq();
      return new ProjectExec(columns, natively);
    } catch (OnlySpark reason) {
      obstacles.add(reason.getMessage());
      return scan;
    }
  }

  private final class Replacing extends AbstractPartialFunction<Expression, Expression> {
    @Override
    public boolean isDefinedAt(Expression expression) {
      return expression instanceof JsonToStructs;
    }

    @Override
    public Expression apply(Expression expression) {
      JsonToStructs json = (JsonToStructs) expression;
      try {
        Expression known = decoders.get(json.canonicalized());
        if (known == null) {
          known = decoder(json);
          decoders.put(json.canonicalized(), known);
        }
        return invoke(json, known);
      } catch (OnlySpark reason) {
        obstacles.add(reason.getMessage());
        return json;
      }
    }
  }

  private Expression decoder(JsonToStructs json) {
    JsonSchema schema = JsonSchema.of(json, conf);
    return new Literal(
        new JsonDecoder(schema.text(), schema.fields(), json, leftToSpark), ObjectType.apply(Function.class));
  }

  /** As an interface of Java's own: generated code finds no class of an added jar. */
  private static Expression invoke(JsonToStructs json, Expression decoder) {
    return new Invoke(
        decoder,
        "apply",
        json.dataType(),
        CollectionConverters.asScala(List.of(json.child())).toSeq(),
        CollectionConverters.asScala(List.<AbstractDataType>of()).toSeq(),
        true,
        true,
        true);
  }
}
