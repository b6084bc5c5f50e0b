package io.pyslash.shim;

import java.util.UUID;
import org.apache.spark.sql.classic.SparkSession;

/** Calls of Spark's methods whose classes have other names, or other packages, in other releases. */
public final class Reflection {
  private Reflection() {}

  /** What a public method without parameters gives. */
  public static Object call(Object object, String method) {
    try {
      return object.getClass().getMethod(method).invoke(object);
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException(unknown);
    }
  }

  /** The `StreamExecution` whose thread this is, of a query that the session has started. */
  public static Object runningQuery(SparkSession session) {
    String id = session.sparkContext().getLocalProperty("sql.streaming.queryId");
    return call(session.streams().get(UUID.fromString(id)), "streamingQuery");
  }
}
