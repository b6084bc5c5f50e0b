package io.pyslash;

import io.pyslash.FileScan.OnlySpark;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.First;
import org.apache.spark.sql.catalyst.expressions.aggregate.Last;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SQLExecutionRDD;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * An aggregation of a streaming query, found in Spark's physical plan and taken apart around its state.
 *
 * <pre>
 *   operators above                              kept, over the merged rows
 *   aggregate (final)                            its result expressions are kept
 *   StateStoreSave                               tells the watermarks
 *   aggregate (merge), StateStoreRestore, aggregate (merge), Exchange, aggregate (partial)
 *   operators below, a window among them         kept without the window: the input
 * </pre>
 *
 * <p>The plan is one that Spark has planned but not executed; its own nodes are executed below and above, so that
 * broadcasts, event-time statistics and the scans' metrics are Spark's own.
 */
public final class StreamingAggregate {
  private static final String RESTORE = "StateStoreRestoreExec"; // its package differs between Spark's releases
  private static final String WATERMARK_KEY = "spark.watermarkDelayMs";
  private static final long NO_WATERMARK = Long.MIN_VALUE;

  // Fields of StateStoreSaveExec.
  private static final int LATE_WATERMARK = 3;
  private static final int EVICTION_WATERMARK = 4;

  private static final Set<DataType> PLAIN_TYPES =
      Set.of(
          DataTypes.BooleanType,
          DataTypes.ByteType,
          DataTypes.ShortType,
          DataTypes.IntegerType,
          DataTypes.LongType,
          DataTypes.FloatType,
          DataTypes.DoubleType,
          DataTypes.DateType,
          DataTypes.TimestampType,
          DataTypes.TimestampNTZType,
          DataTypes.StringType,
          DataTypes.BinaryType);

  private final SparkPlan plan;
  private final SparkPlan save;
  private final BaseAggregateExec last;
  private final SparkPlan exchange; // of Spark's partial groups
  private final WindowedInput input;
  private final int windowAt; // among the grouping expressions; -1: there is none
  private final boolean isTimed; // groups become complete as the watermark moves
  private final List<Expression> keys = new ArrayList<>();
  private final List<List<Expression>> inputs = new ArrayList<>(); // of the aggregates; none: counts every row
  private final Seq<AggregateExpression> functions;

  /**
   * The aggregation whose state this operator of the plan saves.
   *
   * @param mode the query's output mode, in lower case
   * @throws OnlySpark something about it is not understood
   */
  StreamingAggregate(SparkPlan plan, SparkPlan save, String mode) {
    this.plan = plan;
    this.save = save;
    last = finalOver(plan, save);
    if (last == null) {
      throw new OnlySpark("the state of " + save.nodeName() + " is not used by an aggregation");
    }
    boolean inStage = false;
    SparkPlan node = save.children().head();
    SparkPlan shuffled = null;
    for (int aggregates = 0; true; node = node.children().head()) {
      if (node instanceof WholeStageCodegenExec) {
        inStage = true;
      } else if (node instanceof InputAdapter) {
        inStage = false;
      } else if (node instanceof BaseAggregateExec) {
        if (++aggregates == 3) {
          break;
        }
      } else if (node instanceof ShuffleExchangeExec) {
        shuffled = node;
      } else if (!(node instanceof SortExec || node.getClass().getSimpleName().equals(RESTORE))) {
        throw new OnlySpark("the aggregation is planned with " + node.nodeName());
      }
    }
    exchange = shuffled;
    BaseAggregateExec partial = (BaseAggregateExec) node;
    SparkPlan below = node.children().head();
    input = mayHaveWindow(partial) ? new WindowedInput(below, inStage) : WindowedInput.ofAllTime(below, inStage);
    functions = partial.aggregateExpressions();
    boolean hasWatermark = false;
    int found = -1;
    int index = 0;
    for (NamedExpression grouping : CollectionConverters.asJava(partial.groupingExpressions())) {
      if (grouping instanceof Attribute attribute && input.isWindow(attribute)) {
        if (found >= 0) {
          throw new OnlySpark("it groups by more than one window");
        }
        found = index;
        hasWatermark = attribute.metadata().contains(WATERMARK_KEY);
      } else {
        if (grouping.metadata().contains(WATERMARK_KEY)) {
          throw new OnlySpark("it groups by the event time itself, not by a window of it alone");
        }
        keys.add(withoutWindow(key((Expression) grouping)));
      }
      index++;
    }
    if (input.isWindowed() && found < 0) {
      throw new OnlySpark("there is no time window() among the grouping expressions, though there is one below");
    }
    windowAt = found;
    isTimed = hasWatermark && !mode.equals("complete");
    if (!isTimed && mode.equals("append")) {
      throw new OnlySpark(
          windowAt < 0
              ? "in append mode it has to group by a time window()"
              : "the window's time column carries no watermark: call withWatermark() on it");
    }
    for (AggregateExpression function : CollectionConverters.asJava(functions)) {
      List<Expression> values = inputsOf(function);
      values.forEach(this::withoutWindow);
      inputs.add(values);
    }
  }

  /**
   * Size, slide and start offset of the window, in microseconds; of a plan that has all of a row's windows or not. Empty
   * without a window.
   */
  public long[] window(boolean thinned) {
    return input.parameters(thinned);
  }

  /** The attribute that is the event time. */
  public Attribute time() {
    return input.time();
  }

  /** Grouping expressions but the window. */
  public List<Expression> keys() {
    return keys;
  }

  /** The aggregate functions, as the partial aggregation has them. */
  public Seq<AggregateExpression> functions() {
    return functions;
  }

  /**
   * What each function reads; nothing if it counts every row. The last of its inputs is null where a `FILTER` leaves the
   * row out; a function that heeds nulls has that as an input of its own.
   */
  public List<List<Expression>> inputs() {
    return inputs;
  }

  /** The SQL of a key, of an input or of the event time, over the columns that the query's input has. */
  public String describe(Expression expression) {
    return input.inlined(expression).sql();
  }

  /** Spark's operators that collect the event times of the input. */
  public List<SparkPlan> watermarks() {
    return input.watermarks();
  }

  /** The attributes that the state gives: keys, functions. */
  public List<Attribute> results() {
    List<Attribute> results = new ArrayList<>();
    List<NamedExpression> groupings = CollectionConverters.asJava(last.groupingExpressions());
    for (int i = 0; i < groupings.size(); i++) {
      if (i != windowAt) {
        results.add(groupings.get(i).toAttribute());
      }
    }
    results.addAll(CollectionConverters.asJava(last.aggregateAttributes()));
    return results;
  }

  /** Rows of windows that end at or before this (milliseconds) are late; the least long: none are. */
  public long lateWatermark() {
    return watermark(LATE_WATERMARK);
  }

  /** Windows that end at or before this (milliseconds) are closed; the least long: none are. */
  public long evictionWatermark() {
    return watermark(EVICTION_WATERMARK);
  }

  /**
   * What has to be executed for the rows of the update: the event time, then these columns.
   *
   * @param columns each, behind a blank, the number of a key or, from there on, of a function's input, all functions'
   *     inputs in a row; `?` behind it: it may be null
   * @throws OnlySpark a column may be null that was planned as never null
   */
  public SparkPlan input(String columns) {
    List<Expression> values = new ArrayList<>(keys);
    inputs.forEach(values::addAll);
    List<NamedExpression> projected = new ArrayList<>();
    projected.add(input.moment());
    for (String text : columns.isEmpty() ? new String[0] : columns.split(" ")) {
      boolean nullable = text.endsWith("?");
      int at = Integer.parseInt(nullable ? text.substring(0, text.length() - 1) : text);
      Expression column = values.get(at);
      if (column.nullable() && !nullable) {
        throw new OnlySpark(describe(column) + " may be null in this micro-batch, and was never null when the query began");
      }
      projected.add(WindowedInput.alias(column, "column" + projected.size()));
    }
    return input.plan(projected);
  }

  /** Whether the micro-batch has no input, as Spark runs one where only the watermark has moved. */
  public boolean isWithoutRows() {
    // Static tables bring no rows of their own: Spark refuses joins that would keep them.
    return CollectionConverters.asJava(input.below().collectLeaves()).stream()
        .filter(leaf -> leaf.logicalLink().isEmpty() || leaf.logicalLink().get().isStreaming())
        .allMatch(leaf -> leaf instanceof LocalTableScanExec local && local.rows().isEmpty());
  }

  /** Forget what Spark has counted below, before the rows are read once more. */
  public void resetCounts() {
    for (SparkPlan watermark : watermarks()) {
      eventTimes(watermark).reset();
    }
    for (SparkPlan leaf : CollectionConverters.asJava(input.below().collectLeaves())) {
      CollectionConverters.asJava(leaf.metrics()).values().forEach(SQLMetric::reset);
    }
  }

  /**
   * All that decides which rows the operator takes, as text: the operators below with their expressions, and the code of
   * Python functions among them.
   */
  public String fingerprint() {
    StringBuilder text = new StringBuilder();
    describe(input.plan(List.of()), text);
    keys.forEach(key -> text.append(key.sql()).append('\n'));
    for (List<Expression> values : inputs) {
      if (values.isEmpty()) {
        text.append("*\n");
      }
      values.forEach(value -> text.append(value.sql()).append('\n'));
    }
    return text.toString();
  }

  private static AccumulatorV2<?, ?> eventTimes(SparkPlan watermark) {
    try {
      return (AccumulatorV2<?, ?>) watermark.getClass().getMethod("eventTimeStats").invoke(watermark);
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException(unknown);
    }
  }

  private static void describe(SparkPlan node, StringBuilder text) {
    text.append(node.nodeName()).append('\n');
    for (Expression expression : CollectionConverters.asJava(node.expressions())) {
      text.append("  ").append(expression.sql()).append('\n');
      expression.foreach(
          one -> {
            if (one instanceof PythonUDF function) {
              text.append("  ").append(function.func().command().hashCode()).append('\n');
            }
            return null;
          });
    }
    CollectionConverters.asJava(node.children()).forEach(child -> describe(child, text));
  }

  /** Spark's figures of the operator, as its progress, its listeners and its UI show them: `name=value`, by blanks. */
  public void count(String metrics) {
    for (String metric : metrics.split(" ")) {
      String[] named = metric.split("=");
      save.metrics().apply(named[0]).set(Long.parseLong(named[1]));
    }
  }

  /** Only a window is a struct that the native core can group by. */
  private static boolean mayHaveWindow(BaseAggregateExec partial) {
    return CollectionConverters.asJava(partial.groupingExpressions()).stream()
        .anyMatch(grouping -> ((Expression) grouping).dataType() instanceof StructType);
  }

  /**
   * The rows of the whole plan, with merged rows in the place of the state.
   *
   * @param merged columns: the window's start and end, keys, functions' results; more are ignored
   * @param schema as Spark has it for the micro-batch: its optimizer may know more of what is never null
   */
  public Dataset<Row> above(SparkSession session, Dataset<Row> merged, StructType schema) {
    SparkPlan groups = merged.queryExecution().executedPlan();
    boolean isEmpty = groups instanceof LocalTableScanExec local && local.rows().isEmpty();
    boolean isGlobal = windowAt < 0 && keys.isEmpty(); // then there is a row of no rows too
    RDD<InternalRow> rows =
        isEmpty && !isGlobal && passesOnRows(plan)
            ? session.sparkContext().emptyRDD(ClassTag$.MODULE$.apply(InternalRow.class))
            : new SQLExecutionRDD(
                replaced(plan, isEmpty && isGlobal ? overNothing(groups) : groups, false).execute(), session.sessionState().conf());
    return RowsDataset.of(session, rows, schema);
  }

  /** Whether the operators above give rows only for rows: nothing of them has to be executed when no group is closed. */
  private boolean passesOnRows(SparkPlan node) {
    return node == last
        || (node instanceof ProjectExec
                || node instanceof FilterExec
                || node instanceof WholeStageCodegenExec
                || node instanceof InputAdapter)
            && passesOnRows(node.children().head());
  }

  /** The subtree with merged rows, or an aggregation like it, in the place of the final aggregation. */
  private SparkPlan replaced(SparkPlan node, SparkPlan merged, boolean inStage) {
    if (node == last) {
      return !(merged instanceof BaseAggregateExec) ? results(merged, inStage) : inStage ? new InputAdapter(merged) : merged;
    }
    boolean below = node instanceof WholeStageCodegenExec || inStage && !(node instanceof InputAdapter);
    List<SparkPlan> children = new ArrayList<>(CollectionConverters.asJava(node.children()));
    for (int i = 0; i < children.size(); i++) {
      if (contains(children.get(i), (SparkPlan) last)) {
        children.set(i, replaced(children.get(i), merged, below));
      }
    }
    return node.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  /** Spark's own final aggregation, over a plan without rows. */
  private SparkPlan overNothing(SparkPlan empty) {
    List<NamedExpression> columns = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(exchange.children().head().output())) {
      columns.add(WindowedInput.alias(Literal$.MODULE$.create(null, column.dataType()), column));
    }
    SparkPlan nothing = new ProjectExec(CollectionConverters.asScala(columns).toSeq(), empty);
    SparkPlan gathered = exchange.withNewChildren(CollectionConverters.asScala(List.of(nothing)).toSeq());
    return ((SparkPlan) last).withNewChildren(CollectionConverters.asScala(List.of(gathered)).toSeq());
  }

  private SparkPlan results(SparkPlan merged, boolean inStage) {
    SparkPlan rows = merged;
    if (inStage) {
      rows = merged instanceof WholeStageCodegenExec stage ? stage.child() : new InputAdapter(merged);
    }
    List<Attribute> columns = CollectionConverters.asJava(merged.output());
    List<Attribute> results = results();
    List<NamedExpression> named = new ArrayList<>();
    if (windowAt >= 0) {
      name(columns, named);
    }
    for (int i = 0; i < results.size(); i++) {
      named.add(WindowedInput.alias(columns.get(i + 2), results.get(i)));
    }
    rows = new ProjectExec(CollectionConverters.asScala(named).toSeq(), rows);
    for (Expression condition : input.windowConditions()) {
      rows = new FilterExec(condition, rows);
    }
    return new ProjectExec(last.resultExpressions(), rows);
  }

  /** The window of merged rows, under every name that it has. */
  private void name(List<Attribute> columns, List<NamedExpression> named) {
    Expression window =
        new CreateNamedStruct(
            seq(
                Literal$.MODULE$.create("start", DataTypes.StringType),
                columns.get(0),
                Literal$.MODULE$.create("end", DataTypes.StringType),
                columns.get(1)));
    Attribute grouped = CollectionConverters.asJava(last.groupingExpressions()).get(windowAt).toAttribute();
    named.add(WindowedInput.alias(window, grouped));
    for (Attribute other : input.windows()) {
      if (other.exprId().id() != grouped.exprId().id()) {
        named.add(WindowedInput.alias(window, other));
      }
    }
  }

  private long watermark(int field) {
    Option<?> watermark = (Option<?>) ((Product) save).productElement(field);
    return isTimed && watermark.isDefined() ? ((Number) watermark.get()).longValue() : NO_WATERMARK;
  }

  private Expression withoutWindow(Expression expression) {
    if (input.readsWindow(expression)) {
      throw new OnlySpark(expression.sql() + " reads the window itself; only the result may");
    }
    return expression;
  }

  /** A grouping expression as the native core takes it, which normalizes floating-point keys by itself. */
  private static Expression key(Expression grouping) {
    Expression value = grouping instanceof Alias alias ? alias.child() : grouping;
    if (value instanceof KnownFloatingPointNormalized known && known.child() instanceof NormalizeNaNAndZero normalized) {
      return normalized.child();
    }
    return value;
  }

  private static List<Expression> inputsOf(AggregateExpression function) {
    List<Expression> arguments =
        CollectionConverters.asJava(((Expression) function.aggregateFunction()).children());
    List<Expression> values =
        new ArrayList<>(function.aggregateFunction() instanceof Count ? counted(arguments) : arguments);
    if (function.filter().isDefined()) {
      if (values.isEmpty() || heedsNulls(function)) {
        values.add(one());
      }
      Expression last = values.remove(values.size() - 1);
      values.add(new If(function.filter().get(), last, Literal$.MODULE$.create(null, last.dataType())));
    }
    return values;
  }

  /** Whether a row counts whose value is null. */
  private static boolean heedsNulls(AggregateExpression function) {
    return function.aggregateFunction() instanceof First first && !first.ignoreNulls()
        || function.aggregateFunction() instanceof Last last && !last.ignoreNulls();
  }

  /** What count() counts where it is not null; nothing: every row. */
  private static List<Expression> counted(List<Expression> arguments) {
    List<Expression> nullable = arguments.stream().filter(Expression::nullable).toList();
    if (nullable.isEmpty()) {
      return List.of();
    }
    DataType type = nullable.get(0).dataType();
    if (nullable.size() == 1 && (PLAIN_TYPES.contains(type) || type instanceof DecimalType)) {
      return nullable;
    }
    Expression present =
        nullable.stream().<Expression>map(IsNotNull::new).reduce((one, other) -> new And(one, other)).get();
    return List.of(new If(present, one(), Literal$.MODULE$.create(null, DataTypes.IntegerType)));
  }

  private static Expression one() {
    return Literal$.MODULE$.create(1, DataTypes.IntegerType);
  }

  private static BaseAggregateExec finalOver(SparkPlan node, SparkPlan save) {
    for (SparkPlan child : CollectionConverters.asJava(node.children())) {
      SparkPlan below = child;
      while (below instanceof WholeStageCodegenExec || below instanceof InputAdapter || below instanceof SortExec) {
        below = below.children().head();
      }
      if (below == save && node instanceof BaseAggregateExec aggregate) {
        return aggregate;
      }
      BaseAggregateExec found = finalOver(child, save);
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  private static boolean contains(SparkPlan node, SparkPlan wanted) {
    return node == wanted
        || CollectionConverters.asJava(node.children()).stream().anyMatch(child -> contains(child, wanted));
  }

  private static Seq<Expression> seq(Expression... expressions) {
    return CollectionConverters.asScala(List.of(expressions)).toSeq();
  }
}
