package io.pyslash.join;

import io.pyslash.catalyst.OnlySpark;
import io.pyslash.catalyst.PlannedOperator;
import io.pyslash.catalyst.StableSql;
import io.pyslash.catalyst.WindowedInput;
import io.pyslash.merge.MergeCounts;
import io.pyslash.merge.MergeSpec;
import io.pyslash.shim.JoinNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.OptionalLong;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A join of two streams, found in Spark's physical plan and taken apart around its state.
 *
 * <pre>
 *   operators above                    kept, over the rows that join
 *   StreamingSymmetricHashJoin         tells the condition, and the watermarks of each side
 *   Exchange, Exchange                 left out
 *   operators below, of each side      kept: the input
 * </pre>
 */
public final class StreamingJoin extends PlannedOperator {
  private static final String LATE_ROWS = "numRowsDroppedByWatermark";
  private static final long MICROS = 1000; // in a millisecond
  // By which evictions are tried, in milliseconds: the first one that there is, and two that are decades apart.
  private static final long[] WATERMARKS = {0, 1_000_000_000_000L, 4_000_000_000_000L};

  private final JoinNode join;
  private final JoinRules rules;
  private final List<JoinSide> sides; // left, right
  private final Map<Long, Expression> names = new HashMap<>(); // what those of Spark's own making stand for

  /**
   * The join that this operator of the plan does.
   *
   * @throws OnlySpark something about it is not understood
   */
  public StreamingJoin(SparkPlan plan, SparkPlan operator) {
    super(plan, operator);
    join = new JoinNode(operator);
    rules = new JoinRules(type(), child(0).output(), child(1).output(), part(join.bothSides()));
    if (rules.condition() != null && !rules.condition().deterministic()) {
      throw new OnlySpark("its condition is not deterministic: " + rules.condition().sql());
    }
    Stream.of(0, 1).flatMap(this::keys).forEach(StreamingJoin::checkSubqueries);
    sides = List.of(side(0), side(1));
    below().forEach(input -> names.putAll(StableSql.names(input)));
    if (Stream.of(0, 1).flatMap(this::keys).noneMatch(StreamingJoin::isWatermarked)) {
      checkEviction(0, rules.type().keepsRight(), part(join.fullCondition()));
      checkEviction(1, rules.type().remembersLeft(), part(join.fullCondition()));
    }
  }

  /**
   * Passes if rows of a side are evicted by a time that moves with the watermark. Spark takes any comparison in the condition
   * for one of times, and evicts nothing above the number in `v > 0`. And it takes the bound of any column for one of the event
   * time: by `ts <= r_end` it evicts by r_ts, before rows of the other side that have joined such a row.
   *
   * @param tells whether it counts for rows of the other side that rows of this one have joined them
   */
  private void checkEviction(int side, boolean tells, Expression condition) {
    List<Attribute> columns = CollectionConverters.asJava(child(side).output());
    List<Attribute> times = columns.stream().filter(StreamingJoin::isWatermarked).toList();
    if (times.isEmpty()) {
      return;
    }
    LongStream shifts =
        LongStream.of(WATERMARKS).map(watermark -> evicted(side, columns, condition, watermark).orElse(watermark) - watermark);
    if (shifts.distinct().count() > 1) {
      throw new OnlySpark("Spark does not evict its rows as the watermark moves: " + condition.sql());
    }
    if (tells
        && evicted(side, columns, condition, WATERMARKS[1]).isPresent()
        && evicted(side, times, condition, WATERMARKS[1]).isEmpty()) {
      throw new OnlySpark("Spark evicts rows by another time than their condition bounds: " + condition.sql());
    }
  }

  /** The time up to which Spark evicts rows of a side by this watermark, if the condition bounds one of the columns. */
  private OptionalLong evicted(int side, List<Attribute> columns, Expression condition, long watermark) {
    List<Attribute> others = CollectionConverters.asJava(child(1 - side).output());
    Option<Object> time =
        StreamingJoinHelper.getStateValueWatermark(
            attributes(columns), attributes(others), Option.apply(condition), Option.apply(watermark));
    return time.isDefined() ? OptionalLong.of(((Number) time.get()).longValue()) : OptionalLong.empty();
  }

  private static AttributeSet attributes(List<Attribute> columns) {
    return AttributeSet.apply(CollectionConverters.asScala(List.<Expression>copyOf(columns)));
  }

  private static boolean isWatermarked(Object column) {
    return column instanceof NamedExpression named && named.metadata().contains(WATERMARK_KEY);
  }

  private Stream<Expression> keys(int side) {
    return CollectionConverters.asJava(join.keys(side)).stream();
  }

  private JoinRules.Type type() {
    String name = join.type().sql();
    try {
      return JoinRules.Type.valueOf(name.replace(' ', '_'));
    } catch (IllegalArgumentException unknown) {
      throw new OnlySpark("it is a join of another type: " + name.toLowerCase(Locale.ROOT));
    }
  }

  private SparkPlan child(int side) {
    return operator.children().apply(side);
  }

  private static Expression part(Option<Expression> part) {
    if (part.isEmpty()) {
      return null;
    }
    checkSubqueries(part.get());
    return part.get();
  }

  private static void checkSubqueries(Expression expression) {
    if (expression.containsPattern(TreePattern.PLAN_EXPRESSION())) {
      throw new OnlySpark("its condition has a subquery: " + expression.sql());
    }
  }

  private JoinSide side(int side) {
    Seq<Attribute> columns = child(side).output();
    List<Attribute> listed = CollectionConverters.asJava(columns);
    List<Attribute> watermarked =
        listed.stream().filter(column -> column.metadata().contains(WATERMARK_KEY)).toList();
    if (watermarked.stream().map(Attribute::exprId).distinct().count() > 1) {
      throw new OnlySpark("one of its sides has more than one event time");
    }
    long lateWatermark = lateWatermark();
    boolean hasLate = !watermarked.isEmpty() && lateWatermark != NO_WATERMARK;
    TimeField expiring = null;
    boolean byKey = false;
    long shift = 0;
    JoinNode.Eviction eviction = join.eviction(side);
    if (eviction != null) {
      byKey = eviction.byKey();
      LessThanOrEqual evicts = evicts(eviction.condition());
      expiring = TimeField.of(evicts.left(), byKey ? List.of() : listed);
      shift = ((Number) ((Literal) evicts.right()).value()).longValue() - evictionWatermark() * MICROS;
    }
    return new JoinSide(
        columns,
        join.keys(side),
        part(join.own(side)),
        hasLate ? TimeField.of(watermarked.get(0), listed) : null,
        hasLate ? lateWatermark * MICROS : 0,
        expiring,
        byKey,
        shift);
  }

  /** A side's predicate of rows that are evicted: their time is at most a moment, which follows from the watermark. */
  private static LessThanOrEqual evicts(Expression evicts) {
    if (evicts instanceof LessThanOrEqual bound
        && bound.right() instanceof Literal moment
        && moment.value() instanceof Number) {
      return bound;
    }
    throw new OnlySpark("it evicts rows in a way that is not known: " + evicts.sql());
  }

  @Override
  protected List<SparkPlan> below() {
    return List.of(below(child(0)), below(child(1)));
  }

  private static SparkPlan below(SparkPlan child) {
    SparkPlan shuffled = child instanceof ReusedExchangeExec reused ? reused.child() : child;
    return shuffled instanceof Exchange ? shuffled.children().head() : child;
  }

  @Override
  public String fingerprint() {
    StringBuilder text = new StringBuilder(told()).append('\n');
    below().forEach(input -> describe(input, text));
    return StableSql.numbered(text.toString());
  }

  /** What joins with what, in SQL. */
  public String told() {
    return type() + " JOIN ON " + conditionSql() + " OF " + layout();
  }

  /** The type of the join, as SQL has it. */
  public String typeSql() {
    return join.type().sql();
  }

  /** What has to be equal. */
  public String keysSql() {
    List<Expression> left = CollectionConverters.asJava(sides.get(0).keys());
    List<Expression> right = CollectionConverters.asJava(sides.get(1).keys());
    return IntStream.range(0, left.size())
        .mapToObj(i -> sql(left.get(i)) + " = " + sql(right.get(i)))
        .collect(Collectors.joining(" AND "));
  }

  /** All conditions. */
  public String conditionSql() {
    Stream<Expression> others = Stream.of(sides.get(0).own(), sides.get(1).own(), rules.condition());
    return Stream.concat(Stream.of(keysSql()), others.filter(one -> one != null).map(this::sql))
        .collect(Collectors.joining(" AND "));
  }

  private String sql(Expression expression) {
    return StableSql.of(expression, names);
  }

  /** The columns that both sides keep, and the types of the keys: rows that are kept can be read by nothing else. */
  public String layout() {
    String keys =
        CollectionConverters.asJava(sides.get(0).keys()).stream()
            .map(key -> key.dataType().catalogString())
            .collect(Collectors.joining(", "));
    String rows =
        sides.stream()
            .map(
                side ->
                    side.columnList().stream()
                        .map(column -> column.name() + " " + column.dataType().catalogString())
                        .collect(Collectors.joining(", ", "(", ")")))
            .collect(Collectors.joining(" AND "));
    return StableSql.numbered(rows) + " BY (" + keys + ")";
  }

  /** The columns of the rows of a side (0: left, 1: right), as Spark's JSON: for those who read them without Spark. */
  public String rowSchema(int side) {
    return StableSql.numbered(DataTypeUtils.fromAttributes(sides.get(side).columns()).json());
  }

  /** Rows at or before this (milliseconds) are late; the least long: none are. */
  @Override
  protected long lateWatermark() {
    return millis(join.lateWatermark());
  }

  /** What is evicted follows from this (milliseconds); the least long: nothing is. */
  @Override
  protected long evictionWatermark() {
    return millis(join.evictionWatermark());
  }

  /** Late rows that the input has had. */
  public long lateRows() {
    return metric(LATE_ROWS).value();
  }

  @Override
  public void resetCounts() {
    super.resetCounts();
    metric(LATE_ROWS).reset();
  }

  /** What has to be executed for the rows of the update, in a micro-batch before which rows had been evicted until then. */
  public SparkPlan input(long epoch, long evictedMicros) {
    long evicts = evictionWatermark();
    long passing = join.rightIsFirst() && evicts != Long.MIN_VALUE ? evicts * MICROS : Long.MIN_VALUE;
    return new JoinInput(
        below(),
        List.of(
            new JoinRowWriter.Rules(
                sides.get(0),
                false,
                rules.type().keepsLeft(),
                other(1, rules.type().keepsRight()),
                epoch,
                evictedMicros,
                Long.MIN_VALUE),
            new JoinRowWriter.Rules(
                sides.get(1),
                true,
                rules.type().keepsRight(),
                other(0, rules.type().remembersLeft()),
                epoch,
                evictedMicros,
                passing)),
        metric(LATE_ROWS));
  }

  private JoinRowWriter.Other other(int side, boolean remembers) {
    return new JoinRowWriter.Other(remembers, sides.get(side).expires(), sides.get(side).shift());
  }

  /**
   * The whole plan, with the join of the blocks of an order in the place of Spark's.
   *
   * @param order as {@link MergeSpec} has it
   */
  public SparkPlan over(MergeSpec order, int tasks, boolean keeps, String[] places, MergeCounts counts) {
    SparkPlan joined = new JoinedRows(operator.output(), rules, order, tasks, keeps, places, counts);
    return with(operator, inStage -> placed(joined, inStage));
  }

  /** The whole plan of a query that has not started, with no rows in the place of the join. */
  public SparkPlan overNothing(SparkSession session) {
    return session.withActive(
        () -> {
          SparkPlan nothing = planned(session.createDataFrame(List.of(), operator.schema()));
          List<NamedExpression> columns = new ArrayList<>();
          for (int i = 0; i < operator.output().size(); i++) {
            columns.add(WindowedInput.alias(nothing.output().apply(i), operator.output().apply(i)));
          }
          SparkPlan rows = new ProjectExec(CollectionConverters.asScala(columns).toSeq(), nothing);
          return with(operator, inStage -> placed(rows, inStage));
        });
  }
}
