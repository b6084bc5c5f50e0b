package io.pyslash.catalyst;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Greatest;
import org.apache.spark.sql.catalyst.expressions.InterpretedMutableProjection;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PreciseTimestampConversion;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback;
import org.apache.spark.sql.execution.ExpandExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SortExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.unsafe.types.CalendarInterval;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The input of an aggregation without its window, if it has one: Spark gives a row one struct (tumbling, by a projection)
 * or a row for each window (sliding, by Expand); the native core assigns windows by itself. Without a window all rows are
 * of the same moment.
 */
public final class WindowedInput {
  /** No window: there is none among the grouping expressions. */
  static final long[] ALL_TIME = {};

  private static final Literal MOMENT = new Literal(0L, DataTypes.TimestampType);

  private static final int CHECKED_GAPS = 20;
  private static final long CHECKED_GAP_MICROS = 86_400_000_000L * 1_761 + 1_234_567L; // about a century either way
  private static final int CHECKED_WINDOWS = 10_000; // a row of a long window with a short slide is in thousands

  private final List<SparkPlan> above = new ArrayList<>(); // projections and filters over the windows, from below up
  private final boolean inStage; // the lowest of them is part of generated code
  private final SparkPlan below; // what the windows are given to
  private final NamedExpression moment; // the event time as the input is to be projected
  private final Attribute time;
  private Expression timeInPlan; // what the windows are of: that column, or what computes it in their own place
  private final List<Expression> structs; // the windows of a row
  private final List<Attribute> windows = new ArrayList<>(); // every name of the window
  private final Set<Long> derived = new HashSet<>(); // attributes computed from it
  private final Map<Long, Expression> computed = new HashMap<>(); // what projections name, by the names' ids
  private final List<Expression> windowConditions = new ArrayList<>();
  private final List<WindowedInput> branches = new ArrayList<>(); // of a union that windows were moved into
  private final boolean expands;
  private final boolean isOfSessions;
  private long gap; // 0: each row's session has an end of its own, or there are no sessions
  private final Expression sessionEnd; // of a row's session; null: there are none
  private InterpretedMutableProjection assigner; // of windows, as Spark evaluates them

  /**
   * Of groups by keys alone.
   *
   * @param inStage whether the operator above `input` is in the same generated code
   * @param time of rows; null: all are of the same moment
   */
  static WindowedInput ofKeys(SparkPlan input, boolean inStage, NamedExpression time) {
    SparkPlan node = input;
    boolean stage = inStage;
    while (node instanceof WholeStageCodegenExec || node instanceof InputAdapter) {
      stage = node instanceof WholeStageCodegenExec;
      node = node.children().head();
    }
    // A sort is the sort-based aggregation's own.
    NamedExpression moment = time == null ? alias(MOMENT, "moment") : time;
    return node instanceof SortExec sort
        ? new WindowedInput(stage, sort.child(), moment)
        : new WindowedInput(inStage, input, moment);
  }

  /** Of rows without a window that come from this operator; without a time (null) all are of the same moment. */
  static WindowedInput ofRows(SparkPlan below, NamedExpression time) {
    NamedExpression moment = time == null ? alias(MOMENT, "moment") : time;
    return below instanceof WholeStageCodegenExec stage
        ? new WindowedInput(true, stage.child(), moment)
        : new WindowedInput(false, below, moment);
  }

  private WindowedInput(boolean inStage, SparkPlan below, NamedExpression moment) {
    this.inStage = inStage;
    this.below = below;
    structs = List.of();
    expands = false;
    isOfSessions = false;
    gap = 0;
    sessionEnd = null;
    this.moment = moment;
    time = moment.toAttribute();
    // Names of Spark's own making, as of what several functions share, differ from one start of a query to the next.
    computed.putAll(StableSql.names(below));
    for (SparkPlan node = below; isNaming(node); node = node.children().head()) {
      if (node instanceof ProjectExec project) {
        readNames(project.projectList());
      }
    }
  }

  /** Of a union the first branch gives the names. */
  private static boolean isNaming(SparkPlan node) {
    return node instanceof ProjectExec
        || node instanceof FilterExec
        || node instanceof UnionExec
        || node instanceof WholeStageCodegenExec
        || node instanceof InputAdapter;
  }

  /**
   * @param inStage whether the operator above `input` is in the same generated code
   * @param isOfSessions whether what looks like a window is what a session of its row alone would be
   */
  WindowedInput(SparkPlan input, boolean inStage, boolean isOfSessions) {
    this.isOfSessions = isOfSessions;
    SparkPlan node = input;
    boolean stage = inStage;
    boolean atBoundary = false; // of generated code
    Maker maker;
    while ((maker = makerOf(node)) == null && !(node instanceof UnionExec)) {
      if (node instanceof WholeStageCodegenExec || node instanceof InputAdapter) {
        atBoundary = node instanceof InputAdapter && stage;
        stage = node instanceof WholeStageCodegenExec;
      } else if (node instanceof ProjectExec || node instanceof FilterExec) {
        above.add(node);
      } else if (!(node instanceof SortExec)) { // a sort is the sort-based aggregation's own
        throw new OnlySpark("there is no time window() among the grouping expressions");
      }
      node = node.children().head();
    }
    expands = node instanceof ExpandExec;
    if (node instanceof ProjectExec) {
      above.add(node);
    }
    Collections.reverse(above);
    if (node instanceof UnionExec union) {
      SparkPlan rows = withoutWindows(union);
      below = atBoundary ? new InputAdapter(rows) : rows;
      this.inStage = stage || atBoundary;
      structs = branches.get(0).structs;
      List<Attribute> output = CollectionConverters.asJava(rows.output());
      time = output.get(output.size() - (isOfSessions ? 2 : 1));
      sessionEnd = isOfSessions ? output.get(output.size() - 1) : null;
      gap = branches.stream().allMatch(branch -> branch.gap == branches.get(0).gap) ? branches.get(0).gap : 0;
      moment = time;
      computed.putAll(branches.get(0).computed);
      computed.put(time.exprId().id(), (Expression) branches.get(0).moment);
      if (isOfSessions) {
        computed.put(((Attribute) sessionEnd).exprId().id(), branches.get(0).sessionEnd);
      }
    } else {
      this.inStage = stage;
      windows.add(maker.window());
      SparkPlan rows = node.children().head();
      timeInPlan = timeOf(maker.structs().stream().map(struct -> struct.children().apply(1)).toList());
      if (timeInPlan instanceof Attribute column) {
        time = column;
        below = rows;
        structs = maker.structs();
      } else {
        NamedExpression named = alias(timeInPlan, "event_time");
        time = named.toAttribute();
        computed.put(time.exprId().id(), timeInPlan);
        below = withColumn(named, rows);
        structs = maker.structs().stream().map(this::withTime).toList();
      }
      if (isOneMoment(below, time)) {
        throw new OnlySpark("the window is of " + time.name() + ", which is one moment for all rows of a micro-batch");
      }
      gap = isOfSessions ? constantGap() : 0;
      moment = isOfSessions && gap == 0 ? alias(bound(0), "session_start") : time;
      sessionEnd = isOfSessions ? bound(1) : null;
    }
    computed.putAll(StableSql.names(below));
    for (SparkPlan operator : above) {
      if (operator instanceof ProjectExec project) {
        readNames(project.projectList());
      } else {
        sort(((FilterExec) operator).condition());
      }
    }
  }

  /** The same union, its window a time: the optimizer moves a tumbling window into the branches. */
  private SparkPlan withoutWindows(UnionExec union) {
    List<SparkPlan> children = new ArrayList<>();
    int windowAt = -1;
    for (SparkPlan child : CollectionConverters.asJava(union.children())) {
      WindowedInput branch = new WindowedInput(child, false, isOfSessions);
      List<Attribute> output = CollectionConverters.asJava(child.output());
      List<NamedExpression> columns = new ArrayList<>();
      for (int i = 0; i < output.size(); i++) {
        if (!branch.readsWindow(output.get(i))) {
          columns.add(output.get(i));
        } else if (branches.isEmpty() && windowAt < 0) {
          windowAt = i;
        } else if (i != windowAt) {
          throw new OnlySpark("the branches of a union have their windows in different columns");
        }
      }
      if (!branch.windowConditions.isEmpty() || !output.stream().anyMatch(branch::isWindow)) {
        throw new OnlySpark("a branch of a union reads the window");
      }
      columns.add(alias(branch.moment instanceof Alias named ? named.child() : branch.time, "event_time"));
      if (branch.isOfSessions) {
        columns.add(alias(branch.sessionEnd, "session_end"));
      }
      branches.add(branch);
      children.add(branch.plan(columns));
    }
    windows.add(union.output().apply(windowAt));
    return union.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  private record Maker(Attribute window, List<Expression> structs) {}

  Attribute time() {
    return time;
  }

  /** What the event time is a column of the input by. */
  NamedExpression moment() {
    return moment;
  }

  /** Whether it is the event time of rows without a window. */
  public static boolean isMoment(NamedExpression column) {
    return column instanceof Alias alias && alias.child().equals(MOMENT);
  }

  /** Microseconds from a row to the end of its session; 0 where that differs from row to row. */
  long gap() {
    return gap;
  }

  /** From now on each row's session has an end of its own, whether or not it is as long as others. */
  void giveEnds() {
    gap = 0;
  }

  /** The end of each row's session, where rows have ends of their own. */
  Optional<NamedExpression> sessionEnd() {
    return isOfSessions && gap == 0 ? Optional.of(alias(sessionEnd, "session_end")) : Optional.empty();
  }

  Expression endOfRow() {
    return sessionEnd;
  }

  /** A bound of a row's session: 0 the start, 1 the end. */
  private Expression bound(int which) {
    return CollectionConverters.asJava(structs.get(0).children()).get(2 * which + 1);
  }

  /**
   * The gap of sessions, if it is the same for all rows and moments, and sessions start at their rows' own time: checked by
   * evaluating Spark's own expressions. Else 0, as for a day by the calendar.
   */
  private long constantGap() {
    if (PlannedQuery.isOfBatch(bound(1))) {
      return 0; // each micro-batch has its own
    }
    // Of a gap that is computed of the time, the end has it once more. Samples may miss the hours that it tells apart.
    if (CollectionConverters.asJava(bound(1).collectLeaves()).stream().filter(this::isTime).count() > 1) {
      return 0;
    }
    for (Expression leaf : CollectionConverters.asJava(structs.get(0).collectLeaves())) {
      boolean isOfCalendar =
          leaf instanceof Literal literal
              && literal.value() instanceof CalendarInterval interval
              && (interval.months != 0 || interval.days != 0);
      if (isOfCalendar || leaf instanceof Attribute && !isTime(leaf)) {
        return 0;
      }
    }
    long[] first = evaluate(0).get(0);
    long constant = first[1];
    for (int sample = -CHECKED_GAPS; sample <= CHECKED_GAPS; sample++) {
      long at = sample * CHECKED_GAP_MICROS;
      long[] session = evaluate(at).get(0);
      if (session[0] != at || session[1] != at + constant) {
        return 0;
      }
    }
    return Math.max(constant, 0);
  }

  /** Whether rows have windows. */
  boolean isWindowed() {
    return !windows.isEmpty();
  }

  /** What windows are given to. */
  SparkPlan below() {
    return below;
  }

  /** Every attribute that is the window. */
  List<Attribute> windows() {
    return windows;
  }

  boolean isWindow(Attribute attribute) {
    return windows.stream().anyMatch(window -> window.exprId().id() == attribute.exprId().id());
  }

  boolean readsWindow(Expression expression) {
    return references(expression).stream().anyMatch(one -> isWindow(one) || derived.contains(one.exprId().id()));
  }

  /** The SQL of an expression over the columns below, without the names that projections in between have given. */
  String sql(Expression expression) {
    return StableSql.of(expression, computed);
  }

  /** The expression with others in the place of some of its parts; null: the part stays, but for what it is made of. */
  static Expression replaced(Expression expression, UnaryOperator<Expression> other) {
    Expression whole = other.apply(expression);
    if (whole != null) {
      return whole;
    }
    List<Expression> children = new ArrayList<>();
    for (Expression child : CollectionConverters.asJava(expression.children())) {
      children.add(replaced(child, other));
    }
    return expression.withNewChildren(CollectionConverters.asScala(children).toSeq());
  }

  /** Conditions on the window alone: for groups as for their rows. */
  List<Expression> windowConditions() {
    return windowConditions;
  }

  /** The rows below the window with these columns, in one stage with as much of Spark's generated code as there is. */
  SparkPlan plan(List<NamedExpression> columns) {
    SparkPlan node = below;
    for (SparkPlan operator : above) {
      if (operator instanceof ProjectExec project) {
        List<NamedExpression> kept = new ArrayList<>();
        Map<Long, Attribute> missing = new LinkedHashMap<>();
        passedOn().forEach(attribute -> missing.put(attribute.exprId().id(), attribute));
        for (NamedExpression item : CollectionConverters.asJava(project.projectList())) {
          if (!readsWindow((Expression) item) && !isMade(item)) {
            kept.add(item);
            missing.remove(item.exprId().id());
          }
        }
        kept.addAll(missing.values());
        node = new ProjectExec(CollectionConverters.asScala(kept).toSeq(), node);
      } else {
        for (Expression condition : conjuncts(((FilterExec) operator).condition())) {
          if (!readsWindow(condition)) {
            node = new FilterExec(condition, node);
          } else if (isOfSessions) {
            node = new FilterExec(withStruct(condition), node);
          }
        }
      }
    }
    if (inStage && columns.stream().anyMatch(WindowedInput::isInterpreted)) {
      SparkPlan stage = node instanceof InputAdapter boundary ? boundary.child() : new WholeStageCodegenExec(node, 1);
      return new ProjectExec(CollectionConverters.asScala(columns).toSeq(), stage);
    }
    SparkPlan rows = new ProjectExec(CollectionConverters.asScala(columns).toSeq(), node);
    return inStage ? new WholeStageCodegenExec(rows, 1) : rows;
  }

  /** The rows below the window, and the end of the last window that each of them is in: {@link PlannedOperator#closings}. */
  SparkPlan closing() {
    List<Expression> ends = new ArrayList<>();
    if (isOfSessions && (!branches.isEmpty() || gap == 0)) {
      ends.add(sessionEnd);
    } else if (!isWindowed()) {
      ends.add((Expression) moment);
    } else {
      structs.forEach(struct -> ends.add(ofThis(struct.children().apply(3))));
    }
    Expression last = ends.size() == 1 ? ends.get(0) : new Greatest(CollectionConverters.asScala(ends).toSeq());
    List<NamedExpression> columns = new ArrayList<>(columns());
    columns.add(closing(last));
    return plan(columns);
  }

  /** What of the rows below has a name behind the projections and filters that there are. */
  private List<Attribute> columns() {
    List<Attribute> columns = CollectionConverters.asJava(below.output());
    for (SparkPlan operator : above) {
      if (operator instanceof ProjectExec project) {
        columns = CollectionConverters.asJava(project.output());
      }
    }
    return columns.stream().filter(column -> !readsWindow(column)).toList();
  }

  /** The expression of the first branch of a union, of the union's own event time. */
  private Expression ofThis(Expression expression) {
    return branches.isEmpty() ? expression : replaced(expression, part -> branches.get(0).isTime(part) ? time : null);
  }

  /** A time, as microseconds. */
  static NamedExpression closing(Expression end) {
    return alias(new PreciseTimestampConversion(end, end.dataType(), DataTypes.LongType), "closing");
  }

  /** Whether Spark keeps it out of generated stages. */
  private static boolean isInterpreted(NamedExpression column) {
    return ((Expression) column).exists(part -> part instanceof CodegenFallback);
  }

  /** Attributes below that the bounds of windows are computed of. */
  private List<Attribute> passedOn() {
    if (!isOfSessions) {
      return List.of(time);
    }
    return branches.isEmpty() ? references(structs.get(0)) : List.of(time, (Attribute) sessionEnd);
  }

  /** The expression with a row's own session in the place of the attribute that it had. */
  private Expression withStruct(Expression expression) {
    return replaced(
        expression,
        part -> {
          if (!isWindowItself(part)) {
            return null;
          }
          if (!branches.isEmpty()) {
            throw new OnlySpark("a filter above a union reads the session of a row");
          }
          return structs.get(0);
        });
  }

  /**
   * Size, slide and start offset in microseconds, read by evaluating Spark's own expressions and then held against them
   * over many times: a release of Spark that assigns windows in another way is refused rather than misread. Without a
   * window {@link #ALL_TIME}.
   *
   * @param windowsTruncated whether the plan has only some of a row's windows ({@link OverlappingWindows})
   */
  long[] parameters(boolean windowsTruncated) {
    if (!isWindowed()) {
      if (windowsTruncated) {
        throw notUnderstood();
      }
      return ALL_TIME;
    }
    if (!branches.isEmpty()) {
      long[] first = branches.get(0).parameters(windowsTruncated);
      if (!branches.stream().allMatch(branch -> Arrays.equals(branch.parameters(windowsTruncated), first))) {
        throw new OnlySpark("the branches of a union have different windows");
      }
      return first;
    }
    List<long[]> atZero = evaluate(0);
    long size = atZero.get(0)[1] - atZero.get(0)[0];
    long slide = atZero.size() == 1 ? size : Math.abs(atZero.get(0)[0] - atZero.get(1)[0]);
    if (size <= 0 || slide <= 0 || slide > size) {
      throw notUnderstood();
    }
    long offset = Math.floorMod(atZero.get(0)[0], slide);
    long step = size / 7 + 1;
    int samples = Math.max(1, CHECKED_WINDOWS / structs.size() / 6);
    for (int sample = -samples / 2; sample <= samples / 2; sample++) {
      for (long near = -1; near <= 1; near++) {
        check(sample * step + near, size, slide, offset, windowsTruncated);
        check(offset + sample * slide + near, size, slide, offset, windowsTruncated);
      }
    }
    return new long[] {size, slide, offset};
  }

  private void check(long time, long size, long slide, long offset, boolean windowsTruncated) {
    Map<Long, Long> expected = new TreeMap<>();
    long first = time - Math.floorMod(time - offset, slide);
    for (long start = first; start > time - size && !(windowsTruncated && expected.size() == structs.size()); start -= slide) {
      expected.put(start, start + size);
    }
    Map<Long, Long> found = new TreeMap<>();
    for (long[] window : evaluate(time)) {
      if (window[0] <= time && time < window[1]) { // where the slide does not divide the size, a filter drops one
        found.put(window[0], window[1]);
      }
    }
    if (!found.equals(expected)) {
      throw notUnderstood();
    }
  }

  private List<long[]> evaluate(long at) {
    if (assigner == null) {
      assigner =
          new InterpretedMutableProjection(
              CollectionConverters.asScala(structs).toSeq(), CollectionConverters.asScala(List.of(time)).toSeq());
    }
    InternalRow row = assigner.apply(new GenericInternalRow(new Object[] {at}));
    List<long[]> found = new ArrayList<>();
    for (int i = 0; i < structs.size(); i++) {
      InternalRow window = row.getStruct(i, 2);
      found.add(new long[] {window.getLong(0), window.getLong(1)});
    }
    return found;
  }

  private void readNames(Seq<NamedExpression> projection) {
    for (NamedExpression item : CollectionConverters.asJava(projection)) {
      if (item instanceof Alias alias && !(isWindowed() ? isMade(item) : makesWindow(item))) {
        computed.put(alias.exprId().id(), alias.child());
      }
      if (item instanceof Alias alias && readsWindow(alias.child())) {
        if (alias.child() instanceof Attribute attribute && isWindow(attribute)) {
          windows.add(alias.toAttribute());
        } else {
          derived.add(alias.exprId().id());
        }
      }
    }
  }

  /** Tells conditions on the window alone, which may wait until groups are merged, from those on rows. */
  private void sort(Expression condition) {
    for (Expression conjunct : conjuncts(condition)) {
      if (!readsWindow(conjunct) || isOfSessions || isSparksOwn(conjunct)) {
        continue; // what a row's session is to be is not told by that which it becomes part of
      }
      if (!references(conjunct).stream().allMatch(this::isWindow)) {
        throw new OnlySpark("the filter " + conjunct.sql() + " under the aggregation reads the window and other columns");
      }
      if (PlannedQuery.isOfBatch(conjunct)) {
        throw new OnlySpark(
            "the filter " + conjunct.sql() + " under the aggregation reads the window, and changes with the micro-batch");
      }
      windowConditions.add(conjunct);
    }
  }

  /** Where the slide does not divide the size, Expand makes one window too many for some rows. */
  private boolean isSparksOwn(Expression condition) {
    if (condition instanceof IsNotNull present) {
      return isBound(present.child(), 0) || isBound(present.child(), 1) || isWindowItself(present.child());
    }
    return expands
        && (condition instanceof GreaterThanOrEqual from && isTime(from.left()) && isBound(from.right(), 0)
            || condition instanceof LessThan to && isTime(to.left()) && isBound(to.right(), 1));
  }

  private boolean isTime(Expression expression) {
    return expression instanceof Attribute attribute && attribute.exprId().id() == time.exprId().id()
        || timeInPlan != null && expression.semanticEquals(timeInPlan);
  }

  private boolean isBound(Expression expression, int ordinal) {
    return expression instanceof GetStructField field && field.ordinal() == ordinal && isWindowItself(field.child());
  }

  /** Whether it is what rows are given their windows by; others that a row has are columns. */
  private boolean isMade(NamedExpression item) {
    return item.exprId().id() == windows.get(0).exprId().id();
  }

  private boolean isWindowItself(Expression expression) {
    return expression instanceof Attribute attribute && isWindow(attribute);
  }

  private Maker makerOf(SparkPlan node) {
    if (node instanceof ProjectExec project) {
      for (NamedExpression item : CollectionConverters.asJava(project.projectList())) {
        if (makesWindow(item)) {
          return new Maker(item.toAttribute(), List.of(((Alias) item).child()));
        }
      }
    } else if (node instanceof ExpandExec expand) {
      return makerOf(expand);
    }
    return null;
  }

  private Maker makerOf(ExpandExec expand) {
    List<Attribute> output = CollectionConverters.asJava(expand.output());
    Maker maker = null;
    for (int i = 0; i < output.size(); i++) {
      List<Expression> column = new ArrayList<>();
      for (Seq<Expression> projection : CollectionConverters.asJava(expand.projections())) {
        column.add(projection.apply(i));
      }
      if (maker == null && column.stream().allMatch(WindowedInput::isWindowStruct)) {
        maker = new Maker(output.get(i), column);
      } else {
        long id = output.get(i).exprId().id();
        if (!column.stream().allMatch(one -> one instanceof Attribute same && same.exprId().id() == id)) {
          throw new OnlySpark(
              isOfSessions
                  ? "grouping sets, cube and rollup of sessions are not covered"
                  : "grouping sets, cube and rollup of windows of which a row has so many are not covered");
        }
      }
    }
    return maker;
  }

  private static boolean makesWindow(NamedExpression item) {
    return item instanceof Alias alias && isWindowStruct(alias.child());
  }

  static boolean isWindowStruct(Expression expression) {
    return expression instanceof CreateNamedStruct struct
        && struct.children().size() == 4
        && CollectionConverters.asJava(struct.collectLeaves()).stream().anyMatch(Attribute.class::isInstance)
        && struct.exists(node -> node instanceof PreciseTimestampConversion);
  }

  /**
   * What windows that start so are of: a column, or what computes it, as in {@code window(to_timestamp(text))} and, by
   * Spark's optimizer, wherever a time is a field of a struct and has no watermark.
   */
  private static Expression timeOf(List<Expression> starts) {
    List<Expression> times = new ArrayList<>();
    starts.forEach(start -> collectTimes(start, times));
    if (times.isEmpty() || !times.stream().allMatch(times.get(0)::semanticEquals)) { // the same if it is deterministic
      throw notUnderstood();
    }
    return times.get(0);
  }

  /** What Spark's own expressions convert to microseconds. */
  private static void collectTimes(Expression expression, List<Expression> times) {
    if (expression instanceof PreciseTimestampConversion conversion && conversion.toType().equals(DataTypes.LongType)) {
      times.add(conversion.child());
      return;
    }
    CollectionConverters.asJava(expression.children()).forEach(child -> collectTimes(child, times));
  }

  /** The expression with the column of the time in the place of what computes it. */
  private Expression withTime(Expression expression) {
    return replaced(expression, part -> part.semanticEquals(timeInPlan) ? time : null);
  }

  /** The rows with one more column. */
  static SparkPlan withColumn(NamedExpression column, SparkPlan rows) {
    List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(rows.output()));
    columns.add(column);
    return new ProjectExec(CollectionConverters.asScala(columns).toSeq(), rows);
  }

  /** Whether projections right below give all rows the same time: Spark's scans then fold them, and the window with them. */
  private static boolean isOneMoment(SparkPlan below, Attribute time) {
    long id = time.exprId().id();
    SparkPlan node = below;
    while (node instanceof ProjectExec || node instanceof FilterExec) {
      if (node instanceof ProjectExec project) {
        for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
          if (column instanceof Alias alias && alias.exprId().id() == id) {
            if (!(alias.child() instanceof Attribute source)) {
              return alias.child().references().isEmpty() && alias.child().deterministic();
            }
            id = source.exprId().id();
            break;
          }
        }
      }
      node = node.children().head();
    }
    return false;
  }

  private static List<Attribute> references(Expression expression) {
    List<Attribute> found = new ArrayList<>();
    for (Expression leaf : CollectionConverters.asJava(expression.collectLeaves())) {
      if (leaf instanceof Attribute attribute) {
        found.add(attribute);
      }
    }
    return found;
  }

  private static List<Expression> conjuncts(Expression condition) {
    if (condition instanceof And both) {
      List<Expression> found = new ArrayList<>(conjuncts(both.left()));
      found.addAll(conjuncts(both.right()));
      return found;
    }
    return List.of(condition);
  }

  private static OnlySpark notUnderstood() {
    return new OnlySpark("the window() expression is not one that this version of pyslash understands");
  }

  /** The expression under a new identity. */
  public static NamedExpression alias(Expression child, String name) {
    return alias(child, name, NamedExpression$.MODULE$.newExprId(), Option.empty());
  }

  /** The expression in the place of an attribute. */
  public static NamedExpression alias(Expression child, Attribute as) {
    return alias(child, as.name(), as.exprId(), Option.apply(as.metadata()));
  }

  private static NamedExpression alias(Expression child, String name, ExprId id, Option<Metadata> metadata) {
    Seq<String> none = CollectionConverters.asScala(List.<String>of()).toSeq();
    return new Alias(child, name, id, none, metadata, none);
  }
}
