package io.pyslash.plugin;

import io.pyslash.shim.ChangesNoPlan;
import io.pyslash.shim.QueryManager;
import java.util.Collections;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Function1;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Reaches every session, by whatever door it comes: Spark makes this class for each, as `spark.sql.extensions` names
 * it, or a session is extended that is there already, and with it those that are made from it. The check rule changes no
 * plan. It runs when the first plan of a session is analysed, and no query starts before that.
 */
public final class Extensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  private static final Set<SparkSession> reached = weakSet();
  private static final Set<SparkSessionExtensions> extended = weakSet();

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    if (extended.add(extensions)) {
      extensions.injectCheckRule(new Check());
    }
    return BoxedUnit.UNIT;
  }

  /** A session that may have analysed plans already: its rules are made, and only sessions made from it get another. */
  static void extend(org.apache.spark.sql.classic.SparkSession session) {
    new Extensions().apply(session.extensions());
    reach(session);
  }

  private static void reach(SparkSession session) {
    DriverSide driver = DriverSide.current();
    if (driver != null && reached.add(session)) {
      QueryManager.install((org.apache.spark.sql.classic.SparkSession) session, driver::start);
    }
  }

  private static <T> Set<T> weakSet() {
    return Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));
  }

  private static final class Check extends AbstractFunction1<SparkSession, Function1<LogicalPlan, BoxedUnit>> {
    @Override
    public Function1<LogicalPlan, BoxedUnit> apply(SparkSession session) {
      return new Reaching(session);
    }
  }

  private static final class Reaching extends AbstractFunction1<LogicalPlan, BoxedUnit> implements ChangesNoPlan {
    private final SparkSession session;

    Reaching(SparkSession session) {
      this.session = session;
    }

    @Override
    public BoxedUnit apply(LogicalPlan plan) {
      reach(session);
      return BoxedUnit.UNIT;
    }
  }
}
