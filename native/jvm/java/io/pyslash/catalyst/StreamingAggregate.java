package io.pyslash.catalyst;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.core.Json;
import io.pyslash.shim.StatefulNodes;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PreciseTimestampConversion;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec;
import org.apache.spark.sql.execution.aggregate.MergingSessionsExec;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

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
public final class StreamingAggregate extends StreamingOperator {
  private static final String DROPPED = "numRowsDroppedByWatermark";
  private static final int BOUNDS = 2; // columns of merged rows before the keys: of the window

  private final BaseAggregateExec last;
  private final BaseAggregateExec partial;
  private final WindowedInput input;
  private final int windowAt; // among the grouping expressions; -1: there is none
  private final boolean hasWatermark; // the event time of the window, or of a key, has one
  private final EventTimeKey timeKey; // null: groups are complete by their window, or never
  private final boolean isTimed; // groups become complete as the watermark moves
  private final boolean isOfSessions;
  private final boolean mergesSessionsEarly; // in the tasks that read rows, where late ones are not dropped yet
  private final SparkPlan restore;
  private final List<Expression> keys = new ArrayList<>();
  private final List<List<RowValue>> read = new ArrayList<>(); // of the aggregates; none: counts every row
  private final Seq<AggregateExpression> functions;
  private BuffersExec.Panes panes; // of what Spark's own code keeps buffers of; null: of nothing
  private BuffersExec.Windows windows; // in each of which rows stand by themselves; null: in panes
  private boolean foldsBuffers; // as no watermark ends their groups
  private Closed closed; // of the groups there are results; null: of all that are merged
  private long changedIn = -1; // the epoch of whose groups alone there are results; -1: of all that are merged

  /** The watermarks between which groups become complete, in microseconds. */
  private record Closed(long after, long until) {}

  /**
   * The aggregation whose state this operator of the plan saves.
   *
   * @param mode the query's output mode, in lower case
   * @param byKeys whether a window is a key like any other, which Spark makes
   * @throws OnlySpark something about it is not understood
   */
  public StreamingAggregate(SparkPlan plan, SparkPlan save, String mode, boolean byKeys) {
    super(plan, save);
    last = finalOver(plan, save);
    if (last == null) {
      throw new OnlySpark("the state of " + save.nodeName() + " is not used by an aggregation");
    }
    isOfSessions = StatefulNodes.savesSessions(save);
    boolean inStage = false;
    SparkPlan node = save.children().head();
    SparkPlan restored = null;
    int sessionMerges = 0;
    int sessionAt = -1; // among the grouping expressions
    for (int aggregates = 0; true; node = node.children().head()) {
      if (node instanceof ReusedExchangeExec reused) {
        node = reused.child(); // that of an aggregation beside this one, which has the same input
      }
      if (node instanceof WholeStageCodegenExec) {
        inStage = true;
      } else if (node instanceof InputAdapter) {
        inStage = false;
      } else if (node instanceof MergingSessionsExec merging) {
        sessionMerges++;
        sessionAt = sessionMerges == 1 ? grouping(last, merging.sessionExpression()) : sessionAt;
      } else if (node instanceof BaseAggregateExec) {
        if (++aggregates == 3 || isOfSessions) {
          break;
        }
      } else if (StatefulNodes.restores(node)) {
        restored = node;
      } else if (!(node instanceof SortExec || node instanceof ShuffleExchangeExec)) {
        throw new OnlySpark("the aggregation is planned with " + node.nodeName());
      }
    }
    restore = restored;
    mergesSessionsEarly = sessionMerges > 1;
    partial = (BaseAggregateExec) node;
    SparkPlan below = node.children().head();
    List<NamedExpression> groupings = CollectionConverters.asJava(partial.groupingExpressions());
    EventTimeKey timed = byKeys ? EventTimeKey.among(groupings) : null;
    timeKey = mode.equals("complete") ? null : timed;
    if (byKeys || !mayHaveWindow(groupings)) {
      input = WindowedInput.ofKeys(below, inStage, timeKey == null ? null : timeKey.moment());
    } else {
      input = new WindowedInput(below, inStage, isOfSessions);
    }
    functions = partial.aggregateExpressions();
    boolean isWatermarked = timed != null;
    int found = -1;
    int index = 0;
    for (NamedExpression grouping : groupings) {
      if (grouping instanceof Attribute attribute && input.isWindow(attribute)) {
        if (found >= 0 || isOfSessions && index != sessionAt) {
          throw new OnlySpark("it groups by more than one window");
        }
        found = index;
        isWatermarked = attribute.metadata().contains(WATERMARK_KEY);
      } else {
        if (!byKeys && grouping.metadata().contains(WATERMARK_KEY)) {
          throw new OnlySpark("it groups by the event time itself beside windows of which a row has so many");
        }
        keys.add(KeyBytes.of(withoutWindow(key((Expression) grouping))));
      }
      index++;
    }
    if (input.isWindowed() && found < 0) {
      throw new OnlySpark("there is no time window() among the grouping expressions, though there is one below");
    }
    windowAt = found;
    hasWatermark = isWatermarked;
    isTimed = hasWatermark && !mode.equals("complete");
    if (!isTimed && mode.equals("append")) {
      throw new OnlySpark(
          !mayHaveWindow(groupings)
              ? "in append mode it has to group by a time window()"
              : "the window's time column carries no watermark: call withWatermark() on it");
    }
    for (AggregateExpression function : CollectionConverters.asJava(functions)) {
      List<RowValue> values = RowValue.of(function);
      values.forEach(value -> withoutWindow(value.value()));
      read.add(values);
    }
  }

  /**
   * Size, slide and start offset of the window, in microseconds; of a plan that has all of a row's windows or not. Empty
   * without a window.
   */
  public long[] window(boolean windowsTruncated) {
    return input.parameters(windowsTruncated);
  }

  /**
   * How a session goes on: for so many microseconds from a row on; 0: until a time of the row's own, which the input has
   * behind its event time.
   */
  public long gap() {
    return input.gap();
  }

  /** The SQL of the end of a row's session. */
  public String sessionEnd() {
    return describe(input.endOfRow());
  }

  /** Whether rows are late by what a task's rows make of their session, not each by itself. */
  public boolean isLateByTask() {
    return mergesSessionsEarly;
  }

  @Override
  WindowedInput input() {
    return input;
  }

  /** Whether groups become complete, and are forgotten, as the watermark moves. */
  public boolean isTimed() {
    return isTimed;
  }

  /** Whether some groups of rows with a watermark are never complete, however many rows they come to have. */
  public boolean hasTotals() {
    return timeKey != null && timeKey.isLeftOut(input.below());
  }

  /**
   * From now on, Spark's own code computes these functions, and what it has computed of a task's rows stands in rows of its
   * own, one a group ({@link BuffersExec}). All that others read of such a row is null.
   *
   * @param which numbers of functions: a list, in JSON
   * @param paneMicros length of panes, none of which belongs to a window in part
   * @param offset a time at which one begins
   * @param folds whether buffers of a group become one now and then ({@link #folded})
   */
  public void keepBuffers(String which, long paneMicros, long offset, boolean folds) {
    // The rows of buffers are late by their own times, too.
    panes = timeKey == null ? new BuffersExec.Panes(paneMicros, offset) : BuffersExec.Panes.OF_MOMENTS;
    foldsBuffers = folds;
    Set<Integer> kept = new HashSet<>();
    Json.parse(which).forEach(number -> kept.add(number.intValue()));
    for (int i = 0; i < read.size(); i++) {
      AggregateExpression function = functions.apply(i);
      if (kept.contains(i)) {
        Expression filter = function.filter().isDefined() ? function.filter().get() : null;
        read.set(i, List.of(new RowValue(new BufferOf(function.aggregateFunction(), filter))));
      } else {
        read.set(i, RowValue.withPresence(function, read.get(i)));
      }
    }
  }

  /**
   * From now on a row stands in each of its windows by itself, not in a pane of several: in buffers of Spark the order of
   * rows may show. Merged rows then have the last slide of a window in its place. The times are microseconds.
   */
  public void separateWindows(long size, long slide, long offset) {
    windows = new BuffersExec.Windows(size, slide, offset);
  }

  @Override
  public SparkPlan input(String columns) {
    return panes == null ? super.input(columns) : withBuffers(columns);
  }

  /** The same with buffers: what their functions read crosses to {@link BuffersExec}, which leaves it out. */
  private SparkPlan withBuffers(String columns) {
    List<RowValue> slots = slots();
    List<BufferOf> buffers = new ArrayList<>();
    // Functions may read the event time itself, which is not where a row stands in its windows.
    NamedExpression moment =
        windows == null ? input.moment() : WindowedInput.alias((Expression) input.moment(), "place");
    List<NamedExpression> rows = new ArrayList<>(List.of(moment));
    List<BuffersExec.Column> found = new ArrayList<>();
    found.add(new BuffersExec.Column(moment.toAttribute(), 0, false, false));
    for (InputColumn wanted : InputColumn.parse(columns)) {
      Expression value = wanted.among(slots);
      String name = "column" + found.size();
      if (value instanceof BufferOf buffer) {
        Attribute column = WindowedInput.alias(buffer, name).toAttribute();
        found.add(new BuffersExec.Column(column, buffers.size(), false, true));
        buffers.add(buffer);
      } else {
        NamedExpression column = WindowedInput.alias(value, name);
        Attribute nullable = column.toAttribute().withNullability(true); // in a row of buffers
        found.add(new BuffersExec.Column(nullable, rows.size(), wanted.slot() < keys.size(), false));
        rows.add(column);
      }
    }
    boolean keepsRows = found.stream().anyMatch(one -> !one.isBuffer() && !one.isKey() && one.place() > 0);
    Set<Long> read = new HashSet<>();
    for (BufferOf buffer : buffers) {
      for (Expression leaf : CollectionConverters.asJava(buffer.collectLeaves())) {
        if (leaf instanceof Attribute attribute && read.add(attribute.exprId().id())) {
          rows.add(attribute);
        }
      }
    }
    return new BuffersExec(input.plan(rows), new BuffersExec.Layout(found, buffers, panes, windows, keepsRows, foldsBuffers));
  }

  /**
   * The groups that have many buffers, each with one in the place of all: rows as the update takes those of buffers.
   *
   * @param merged all groups, as {@link #over} takes them
   * @param columns as {@link #input} takes them
   * @param epoch the last one of which there are buffers
   * @param least so many buffers are many
   */
  public SparkPlan folded(Dataset<Row> merged, String columns, long epoch, int least) {
    SparkPlan groups = planned(merged);
    List<Attribute> given = CollectionConverters.asJava(groups.output());
    List<Expression> values = new ArrayList<>(given.subList(BOUNDS, BOUNDS + keys.size()));
    for (int i = 0; i < read.size(); i++) {
      Attribute kept = given.get(BOUNDS + keys.size() + i);
      for (RowValue one : read.get(i)) {
        values.add(
            one.value() instanceof BufferOf buffer
                ? new FoldedBuffers(kept, buffer.function(), epoch, least)
                : Literal$.MODULE$.create(null, one.value().dataType()));
      }
    }
    List<NamedExpression> row = new ArrayList<>(List.of(WindowedInput.alias(given.get(0), "moment")));
    Expression anyFolded = null; // functions that the query has had for different times have different numbers of buffers
    for (InputColumn wanted : InputColumn.parse(columns)) {
      NamedExpression column = WindowedInput.alias(values.get(wanted.slot()), "column" + row.size());
      if (values.get(wanted.slot()) instanceof FoldedBuffers) {
        Expression isFolded = new IsNotNull(column.toAttribute());
        anyFolded = anyFolded == null ? isFolded : new Or(anyFolded, isFolded);
      }
      row.add(column);
    }
    SparkPlan rows = new ProjectExec(CollectionConverters.asScala(row).toSeq(), groups);
    return new FilterExec(anyFolded, rows);
  }

  /** From now on there are results only of groups that rows of this epoch have changed: of others buffers were folded. */
  public void onlyChangedIn(long epoch) {
    changedIn = epoch;
  }

  /** From now on there are results only of groups that become complete between these watermarks; microseconds. */
  public void onlyClosedBetween(long afterMicros, long untilMicros) {
    closed = new Closed(afterMicros, untilMicros);
  }

  /** Grouping expressions but the window. */
  @Override
  public List<Expression> keys() {
    return keys;
  }

  /** The aggregate functions, as the partial aggregation has them. */
  public Seq<AggregateExpression> functions() {
    return functions;
  }

  @Override
  List<List<RowValue>> read() {
    return read;
  }

  @Override
  List<String> functionNames() {
    return CollectionConverters.asJava(functions).stream().map(one -> one.aggregateFunction().nodeName()).toList();
  }

  @Override
  void readAs(JsonNode shape) {
    if (shape.required("gap").longValue() == 0) {
      input.giveEnds();
    }
    for (int i = 0; i < read.size(); i++) {
      read.set(i, RowValue.of(functions.apply(i), Json.strings(shape.required("inputs").get(i))));
    }
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
  @Override
  protected long lateWatermark() {
    // Whatever the output mode, late rows of sessions are dropped where sessions are restored.
    return isTimed || isOfSessions && hasWatermark ? millis(StatefulNodes.lateWatermark(operator)) : NO_WATERMARK;
  }

  /** Windows that end at or before this (milliseconds) are closed; the least long: none are. */
  @Override
  protected long evictionWatermark() {
    return isTimed ? millis(StatefulNodes.evictionWatermark(operator)) : NO_WATERMARK;
  }

  @Override
  public void count(String metrics) {
    super.count(metrics);
    if (isOfSessions) {
      Origin.of(restore).metrics().apply(DROPPED).set(metric(DROPPED).value()); // where Spark drops them
    }
  }

  /** Whether one of the keys is of a window's type: there are windows below, or the plan is not understood. */
  private static boolean mayHaveWindow(List<NamedExpression> groupings) {
    return groupings.stream()
        .anyMatch(
            grouping ->
                ((Expression) grouping).dataType() instanceof StructType struct
                    && List.of(struct.fieldNames()).equals(List.of("start", "end")));
  }

  /**
   * The whole plan, with merged rows in the place of the state.
   *
   * @param merged columns: the window's start and end, keys, functions' results; more are ignored
   */
  @Override
  public SparkPlan over(Dataset<Row> merged) {
    SparkPlan groups = planned(merged);
    boolean isEmpty = groups instanceof LocalTableScanExec local && local.rows().isEmpty();
    boolean isGlobal = windowAt < 0 && keys.isEmpty(); // a group of all rows has a row of none too
    return with(
        (SparkPlan) last,
        inStage -> isEmpty && isGlobal ? overNothing(groups, inStage) : results(groups, inStage));
  }

  /** Spark's own final aggregation, over a partition without rows. */
  private SparkPlan overNothing(SparkPlan empty, boolean inStage) {
    List<NamedExpression> columns = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(((SparkPlan) partial).output())) {
      columns.add(WindowedInput.alias(Literal$.MODULE$.create(null, column.dataType()), column));
    }
    SparkPlan nothing = new ProjectExec(CollectionConverters.asScala(columns).toSeq(), empty);
    SparkPlan task = new CoalesceExec(1, nothing); // one, where the empty plan has none
    SparkPlan aggregate = ((SparkPlan) last).withNewChildren(CollectionConverters.asScala(List.of(task)).toSeq());
    return inStage ? new InputAdapter(aggregate) : aggregate;
  }

  private SparkPlan results(SparkPlan merged, boolean inStage) {
    SparkPlan rows = placed(merged, inStage);
    List<Attribute> columns = CollectionConverters.asJava(merged.output());
    List<Attribute> results = results();
    if (changedIn >= 0) {
      rows = new FilterExec(FoldedBuffers.isChanged(columns.get(BOUNDS + keys.size() + aBuffer()), changedIn), rows);
    }
    if (closed != null) {
      Attribute time = columns.get(BOUNDS + timeKey.at());
      rows = new FilterExec(timeKey.isCompleteBetween(closed.after(), closed.until(), time), rows);
    }
    List<NamedExpression> named = new ArrayList<>();
    if (windowAt >= 0) {
      name(columns, named);
    }
    for (int i = 0; i < results.size(); i++) {
      Attribute column = columns.get(i + BOUNDS);
      named.add(
          WindowedInput.alias(
              i < keys.size() ? key(column, keys.get(i), results.get(i)) : result(column, i - keys.size()),
              results.get(i)));
    }
    rows = new ProjectExec(CollectionConverters.asScala(named).toSeq(), rows);
    for (Expression condition : input.windowConditions()) {
      rows = new FilterExec(condition, rows);
    }
    return new ProjectExec(last.resultExpressions(), rows);
  }

  /** The number of a function that Spark's own code computes. */
  private int aBuffer() {
    int function = 0;
    while (!isBuffer(function)) {
      function++;
    }
    return function;
  }

  private boolean isBuffer(int function) {
    return read.get(function).stream().anyMatch(one -> one.value() instanceof BufferOf);
  }

  private static Expression key(Attribute column, Expression key, Attribute as) {
    return key instanceof KeyBytes ? KeyBytes.value(column, as.dataType()) : column;
  }

  /** The result of a function, out of the column that native code has given. */
  private Expression result(Attribute column, int function) {
    AggregateFunction of = functions.apply(function).aggregateFunction();
    if (isBuffer(function)) {
      return SparkResult.ofBuffers(column, of);
    }
    return RowValue.isEstimated(of)
        ? SparkResult.ofRegisters(column, of)
        : KeyBytes.given(column, of.dataType());
  }

  /** The window of merged rows, under every name that it has. */
  private void name(List<Attribute> columns, List<NamedExpression> named) {
    Expression window =
        new CreateNamedStruct(
            seq(
                Literal$.MODULE$.create("start", DataTypes.StringType),
                windows == null ? columns.get(0) : startBefore(columns.get(1)),
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

  /** The start of the window that ends there. */
  private Expression startBefore(Attribute end) {
    DataType type = end.dataType();
    Expression micros = new PreciseTimestampConversion(end, type, DataTypes.LongType);
    Expression size = Literal$.MODULE$.create(windows.size(), DataTypes.LongType);
    Expression start = new Subtract(micros, size);
    return new PreciseTimestampConversion(start, DataTypes.LongType, type);
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

  /** The place of an expression among those that an aggregate groups by; -1: it is none of them. */
  private static int grouping(BaseAggregateExec aggregate, NamedExpression expression) {
    List<NamedExpression> groupings = CollectionConverters.asJava(aggregate.groupingExpressions());
    return groupings.stream().map(NamedExpression::exprId).toList().indexOf(expression.exprId());
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

  private static Seq<Expression> seq(Expression... expressions) {
    return CollectionConverters.asScala(List.of(expressions)).toSeq();
  }
}
