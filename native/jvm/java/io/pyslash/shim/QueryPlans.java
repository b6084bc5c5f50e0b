package io.pyslash.shim;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.LazyTry;
import scala.Function0;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The plans of a `QueryExecution`, and the rules that sessions bring for them. */
public final class QueryPlans {
  private static final Field OPTIMIZED = Member.field(QueryExecution.class, "lazyOptimizedPlan");
  private static final Field EXECUTED = Member.field(QueryExecution.class, "lazyExecutedPlan");

  /** What of a session's extensions gives rules for logical plans; a release need not have all. */
  private static final List<Method> RULES =
      Stream.of(SparkSessionExtensions.class.getMethods()).filter(QueryPlans::givesRules).toList();

  private QueryPlans() {}

  private static boolean givesRules(Method method) {
    return Set.of(
            "buildResolutionRules",
            "buildPostHocResolutionRules",
            "buildCheckRules",
            "buildOptimizerRules",
            "buildPreOperatorOptimizationRules",
            "buildPreCBORules",
            "buildPlanNormalizationRules")
        .contains(method.getName());
  }

  /** The execution makes its optimized plan so, once that is asked for. */
  public static void setOptimized(QueryExecution execution, Function0<LogicalPlan> made) {
    Member.set(OPTIMIZED, execution, new LazyTry<>(made));
  }

  /** The execution makes its physical plan so, once that is asked for. */
  public static void setExecuted(QueryExecution execution, Function0<SparkPlan> made) {
    Member.set(EXECUTED, execution, new LazyTry<>(made));
  }

  /** Whether somebody has brought rules for logical plans to the session. */
  public static boolean hasMoreRules(SparkSession session) {
    return RULES.stream()
            .map(build -> Member.<Seq<?>>call(build, session.extensions(), session))
            .flatMap(rules -> CollectionConverters.asJava(rules).stream())
            .anyMatch(rule -> !(rule instanceof ChangesNoPlan))
        || !session.experimental().extraOptimizations().isEmpty();
  }
}
