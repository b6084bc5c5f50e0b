package io.pyslash.shim;

import java.lang.reflect.Method;
import java.util.UUID;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;

/** The `StreamExecution` of a query that runs. */
public final class RunningStream {
  private static final String QUERY_ID = "sql.streaming.queryId"; // Spark sets it on the thread that runs a query
  private static final String WHERE = "runtime.";
  private static final Class<?> STREAM = Member.streaming(WHERE, "StreamExecution");
  private static final Method OF_QUERY =
      Member.method(Member.streaming(WHERE, "StreamingQueryWrapper"), "streamingQuery");
  private static final Method LAST = Member.method(STREAM, "lastExecution");
  private static final Method CHECKPOINT = Member.method(STREAM, "resolvedCheckpointRoot");

  private RunningStream() {}

  /** The one whose thread this is, of a query that the session has started. */
  public static Object of(SparkSession session) {
    String id = session.sparkContext().getLocalProperty(QUERY_ID);
    return Member.call(OF_QUERY, session.streams().get(UUID.fromString(id)));
  }

  /** Where its checkpoint is. */
  public static String checkpoint(Object stream) {
    return Member.call(CHECKPOINT, stream);
  }

  /** The running micro-batch. */
  public static QueryExecution lastExecution(Object stream) {
    return Member.call(LAST, stream);
  }
}
