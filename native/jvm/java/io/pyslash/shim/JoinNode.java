package io.pyslash.shim;

import java.lang.reflect.Method;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Option;
import scala.collection.immutable.Seq;

/** Spark's join of two streams, `StreamingSymmetricHashJoinExec`. */
public final class JoinNode {
  private static final String WHERE = StatefulNodes.STATEFUL + "join.";
  private static final Class<?> JOIN = Member.streaming(WHERE, "StreamingSymmetricHashJoinExec");
  private static final Method LEFT_KEYS = Member.method(JOIN, "leftKeys");
  private static final Method RIGHT_KEYS = Member.method(JOIN, "rightKeys");
  private static final Method TYPE = Member.method(JOIN, "joinType");
  private static final Method CONDITION = Member.method(JOIN, "condition");
  private static final Method LATE = Member.method(JOIN, "eventTimeWatermarkForLateEvents");
  private static final Method EVICTION = Member.method(JOIN, "eventTimeWatermarkForEviction");
  private static final Method EVICTIONS = Member.method(JOIN, "stateWatermarkPredicates");

  private static final Class<?> SPLIT = helper("JoinConditionSplitPredicates");
  private static final Method LEFT_ONLY = Member.method(SPLIT, "leftSideOnly");
  private static final Method RIGHT_ONLY = Member.method(SPLIT, "rightSideOnly");
  private static final Method BOTH_SIDES = Member.method(SPLIT, "bothSides");
  private static final Method FULL = Member.method(SPLIT, "full");

  private static final Class<?> OF_SIDES = helper("JoinStateWatermarkPredicates");
  private static final Method LEFT = Member.method(OF_SIDES, "left");
  private static final Method RIGHT = Member.method(OF_SIDES, "right");
  private static final Class<?> BY_KEY = helper("JoinStateKeyWatermarkPredicate");
  private static final Method EVICTS = Member.method(helper("JoinStateWatermarkPredicate"), "expr");

  private final SparkPlan join;
  private final Object condition;

  public JoinNode(SparkPlan join) {
    this.join = join;
    condition = Member.call(CONDITION, join);
  }

  private static Class<?> helper(String name) {
    return Member.streaming(WHERE, "StreamingSymmetricHashJoinHelper$" + name);
  }

  /** What of a side's rows is equal: 0 the left one's, 1 the right one's. */
  public Seq<Expression> keys(int side) {
    return Member.call(side == 0 ? LEFT_KEYS : RIGHT_KEYS, join);
  }

  public JoinType type() {
    return Member.call(TYPE, join);
  }

  /**
   * Whether new rows of the left side look for rows of the right side that are kept, and find no new one that is evicted in
   * the micro-batch it comes in. Spark turned the sides of a semi join around in 4.2.
   */
  public boolean rightIsFirst() {
    return type() == LeftSemi$.MODULE$ && Member.isFrom(4, 2);
  }

  /** Of the condition, what reads one side alone. */
  public Option<Expression> own(int side) {
    return Member.call(side == 0 ? LEFT_ONLY : RIGHT_ONLY, condition);
  }

  /** Of the condition, what reads both sides. */
  public Option<Expression> bothSides() {
    return Member.call(BOTH_SIDES, condition);
  }

  public Option<Expression> fullCondition() {
    return Member.call(FULL, condition);
  }

  public Option<?> lateWatermark() {
    return Member.call(LATE, join);
  }

  public Option<?> evictionWatermark() {
    return Member.call(EVICTION, join);
  }

  /** By what a side's rows are evicted, and whether it reads their keys alone. */
  public record Eviction(Expression condition, boolean byKey) {}

  /** Null: nothing of the side is evicted. */
  public Eviction eviction(int side) {
    Option<?> predicate = Member.call(side == 0 ? LEFT : RIGHT, Member.call(EVICTIONS, join));
    return predicate.isEmpty()
        ? null
        : new Eviction(Member.call(EVICTS, predicate.get()), BY_KEY.isInstance(predicate.get()));
  }
}
