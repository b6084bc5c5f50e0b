package io.pyslash.transform;

import io.pyslash.catalyst.OnlySpark;
import io.pyslash.catalyst.PlannedOperator;
import io.pyslash.catalyst.StableSql;
import io.pyslash.catalyst.WindowedInput;
import io.pyslash.core.Fields;
import io.pyslash.core.Json;
import io.pyslash.shim.SparkNodes;
import io.pyslash.shim.StatefulNodes;
import io.pyslash.shim.TransformNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownNullable;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A `transformWithState` in Python, or an `applyInPandasWithState`, found in Spark's physical plan and taken apart
 * around its state.
 *
 * <pre>
 *   operators above                 kept, over the rows that the user's processor has given
 *   TransformWithStateInPySpark     tells the processor, its keys and columns, times and watermarks
 *   Sort, Exchange                  made once more: rows come to the home of their key in the order of keys
 *   operators below                 kept: the input
 *   the initial state               kept, shuffled and sorted: the first micro-batch takes it before the input
 * </pre>
 */
public final class StreamingTransform extends PlannedOperator {
  private final TransformNode node;
  private final SparkPlan child;

  /** The transformation that this operator of the plan does. */
  public StreamingTransform(SparkPlan plan, SparkPlan operator) {
    super(plan, operator);
    node = TransformNode.of(operator);
    child = outOfStage(operator.children().head());
  }

  /**
   * What brings rows together; the plan of a query that has not started has none yet. Spark has none either where rows come
   * together from an operator below: by the same key, after a deduplication or a join.
   */
  private ShuffleExchangeExec exchange() {
    if (!(child instanceof SortExec)) {
      throw new OnlySpark("Spark does not bring its rows together by a shuffle and a sort: " + child.nodeName());
    }
    SparkPlan rows = outOfStage(child.children().head());
    if ((rows instanceof ReusedExchangeExec reused ? reused.child() : rows) instanceof ShuffleExchangeExec exchange) {
      return exchange;
    }
    return SparkNodes.shuffled(rows, partitioning(node.keys(), homes()));
  }

  private static SparkPlan outOfStage(SparkPlan plan) {
    return plan instanceof WholeStageCodegenExec || plan instanceof InputAdapter ? outOfStage(plan.children().head())
                                                                                 : plan;
  }

  /**
   * What does not change from micro-batch to micro-batch. Schemas are Spark's JSON; {@code command} is the user's
   * processor as PySpark has pickled it, in Base64; {@code takes}, {@code timers} and {@code state} are as {@link
   * TransformNode} tells them; {@code times} are the places of event times among the columns.
   */
  record Facts(String command, boolean hasBroadcasts, String takes, String timers, String state,
      String keys, String columns, int[] offsets, String output, List<Integer> times) {}

  /** The {@link Facts}, in JSON. */
  public String facts() {
    PythonFunction function = node.function();
    List<Attribute> columns = CollectionConverters.asJava(node.columns());
    List<Integer> times = new ArrayList<>();
    for (int i = 0; i < columns.size(); i++) {
      if (columns.get(i).metadata().contains(WATERMARK_KEY)) {
        times.add(i);
      }
    }
    byte[] command = new byte[function.command().size()];
    int at = 0;
    for (Object one : CollectionConverters.asJava(function.command())) {
      command[at++] = ((Number) one).byteValue();
    }
    return Json.of(
        new Facts(Base64.getEncoder().encodeToString(command), !function.broadcastVars().isEmpty(), node.takes(),
            node.timers(), node.state(), schema(node.keys()), schema(node.columns()),
            node.offsets(), schema(operator.output()), times));
  }

  private static String schema(Seq<Attribute> columns) {
    return DataTypeUtils.fromAttributes(columns).json();
  }

  /**
   * The time of the micro-batch in milliseconds, the number of homes that keys are divided among, and, if there is an
   * initial state to take, {@code initialOffsets}: those of its columns, else null.
   */
  record Moment(long batchMs, int homes, int[] initialOffsets) {}

  /** The {@link Moment}, in JSON. */
  public String moment() {
    return Json.of(
        new Moment(millis(node.batchTimestamp()), homes(), node.hasInitialState() ? node.initialOffsets() : null));
  }

  private int homes() {
    return ((Number) operator.requiredChildDistribution().head().requiredNumPartitions().get()).intValue();
  }

  private static HashPartitioning partitioning(Seq<Attribute> keys, int homes) {
    List<Expression> grouped = List.copyOf(CollectionConverters.asJava(keys));
    return new HashPartitioning(CollectionConverters.asScala(grouped).toSeq(), homes);
  }

  @Override
  protected List<SparkPlan> below() {
    return List.of(child instanceof SortExec ? exchange().child() : child);
  }

  /** The operators below and the keys; not the processor, which users mend while its state stays. */
  @Override
  public String fingerprint() {
    StringBuilder text = new StringBuilder();
    describe(child, text);
    CollectionConverters.asJava(node.keys()).forEach(key -> text.append(StableSql.of(key)).append('\n'));
    return StableSql.numbered(text.append(schema(operator.output())).append('\n').toString());
  }

  /** Rows at or before this (milliseconds) are late; the least long: none are. */
  @Override
  protected long lateWatermark() {
    boolean byEventTime = node.timers().equals(TransformNode.BY_EVENT_TIME);
    return byEventTime ? millis(StatefulNodes.lateWatermark(operator)) : NO_WATERMARK;
  }

  /** What the processor knows as the watermark (milliseconds); the least long: there is none. */
  @Override
  protected long evictionWatermark() {
    return millis(StatefulNodes.evictionWatermark(operator));
  }

  /**
   * What has to be executed for the rows of the update: the home of the key, then the columns, sorted by keys in a
   * home. With an initial state to take, the columns are one struct, and behind it stands a null.
   */
  public SparkPlan input() {
    // The exchange remembers what it has shuffled, and a micro-batch may have to be read once more.
    SparkPlan shuffled = shuffled();
    SparkPlan sorted = child.withNewChildren(CollectionConverters.asScala(List.of(shuffled)).toSeq());
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(node.columns()));
    if (node.hasInitialState()) {
      columns = List.of(struct(node.columns(), "input"), nothing(node.initialColumns(), "initial"));
    }
    return atHome(sorted, node.keys(), columns);
  }

  private SparkPlan shuffled() {
    SparkPlan shuffled = anew(exchange());
    // Of what is shuffled for another operator, too, the columns have their names here.
    return child instanceof SortExec && outOfStage(child.children().head()) instanceof ReusedExchangeExec reused
        ? new ReusedExchangeExec(reused.output(), (Exchange) shuffled)
        : shuffled;
  }

  /** The same of the initial state's rows: a null and a struct of their columns; null: there is none to take. */
  public SparkPlan initial() {
    if (!node.hasInitialState()) {
      return null;
    }
    List<NamedExpression> columns =
        List.of(nothing(node.columns(), "input"), struct(node.initialColumns(), "initial"));
    return atHome(node.initialState(), node.initialKeys(), columns);
  }

  private SparkPlan atHome(SparkPlan rows, Seq<Attribute> keys, List<NamedExpression> columns) {
    List<NamedExpression> behind = new ArrayList<>();
    behind.add(WindowedInput.alias(partitioning(keys, homes()).partitionIdExpression(), nameBeside(columns)));
    behind.addAll(columns);
    return new ProjectExec(CollectionConverters.asScala(behind).toSeq(), rows);
  }

  /** Of the home's column: PySpark asks for columns by their names. */
  private static String nameBeside(List<NamedExpression> columns) {
    String name = "home";
    while (columns.stream().map(NamedExpression::name).anyMatch(name::equalsIgnoreCase)) {
      name += "_";
    }
    return name;
  }

  private static NamedExpression struct(Seq<Attribute> columns, String name) {
    List<Expression> fields = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(columns)) {
      fields.add(Literal$.MODULE$.create(column.name(), DataTypes.StringType));
      fields.add(column);
    }
    Expression struct = new CreateNamedStruct(CollectionConverters.asScala(fields).toSeq());
    return WindowedInput.alias(new KnownNullable(struct), name); // other rows have none
  }

  private static NamedExpression nothing(Seq<Attribute> columns, String name) {
    return WindowedInput.alias(new Literal(null, DataTypeUtils.fromAttributes(columns)), name);
  }

  private static SparkPlan anew(SparkPlan node) {
    return node.makeCopy(Fields.of(node));
  }

  /** The whole plan, with the rows that the processor has given in the place of the operator. */
  public SparkPlan over(Dataset<Row> given) {
    SparkPlan rows = planned(given);
    List<NamedExpression> columns = new ArrayList<>();
    for (int i = 0; i < operator.output().size(); i++) {
      columns.add(WindowedInput.alias(rows.output().apply(i), operator.output().apply(i)));
    }
    return with(
        operator, inStage -> new ProjectExec(CollectionConverters.asScala(columns).toSeq(), placed(rows, inStage)));
  }

  /** The whole plan of a query that has not started, with no rows in the place of the operator. */
  public SparkPlan overNothing(SparkSession session) {
    return session.withActive(() -> over(session.createDataFrame(List.of(), operator.schema())));
  }
}
