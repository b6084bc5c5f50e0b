package io.pyslash.shim;

import java.lang.reflect.Method;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
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
  private static final Method RUN_ID = Member.method(STREAM, "runId");
  private static final Method SESSION = Member.method(STREAM, "sparkSession");
  private static final Method REPORTER = Member.method(STREAM, "progressReporter");
  private static final Method EXPECTS_COMMITS = expectsCommits();

  private RunningStream() {}

  /** The one whose thread this is, of a query that the session has started. */
  public static Object of(SparkSession session) {
    String id = session.sparkContext().getLocalProperty(QUERY_ID);
    return Member.call(OF_QUERY, session.streams().get(UUID.fromString(id)));
  }

  /** The running micro-batch. */
  public static QueryExecution lastExecution(Object stream) {
    return Member.call(LAST, stream);
  }

  /**
   * Spark is to expect no commit of a state store in the running micro-batch: 4.3 checks under `foreachBatch` that each was
   * committed, and a query whose state is ours opens none.
   */
  public static void expectNoStateStore(Object stream) {
    if (EXPECTS_COMMITS == null) {
      return; // a release that does not check
    }
    AtomicBoolean expects = Member.call(EXPECTS_COMMITS, Member.call(REPORTER, stream));
    if (expects.getAndSet(false)) {
      // What it expects is dropped with the run's store instances, of which there are none.
      UUID run = Member.call(RUN_ID, stream);
      SparkSession session = Member.call(SESSION, stream);
      Object stores = Member.call(Member.method(session.streams().getClass(), "stateStoreCoordinator"), session.streams());
      Member.call(Member.method(stores.getClass(), "deactivateInstances", UUID.class), stores, run);
    }
  }

  private static Method expectsCommits() {
    Class<?> reporter = Member.streaming(WHERE, "ProgressReporter");
    String name = "shouldValidateStateStoreCommit";
    boolean isThere = Stream.of(reporter.getMethods()).anyMatch(one -> one.getName().equals(name));
    return isThere ? Member.method(reporter, name) : null;
  }
}
