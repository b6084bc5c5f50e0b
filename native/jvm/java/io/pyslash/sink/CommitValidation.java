package io.pyslash.sink;

import io.pyslash.shim.Reflection;
import java.lang.reflect.Method;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Spark 4.3 checks under foreachBatch that every state store of a micro-batch was committed. A query whose state is ours
 * opens none.
 */
public final class CommitValidation {
  private CommitValidation() {}

  /** Spark is to expect no commit in the running micro-batch of this `StreamExecution`. */
  public static void skip(Object stream) {
    try {
      Object reporter = Reflection.call(stream, "progressReporter");
      Method expects = reporter.getClass().getMethod("shouldValidateStateStoreCommit");
      if (((AtomicBoolean) expects.invoke(reporter)).getAndSet(false)) {
        // What it expects is dropped with the run's store instances, of which there are none.
        Object runId = Reflection.call(stream, "runId");
        Object streams = Reflection.call(Reflection.call(stream, "sparkSession"), "streams");
        Object stores = Reflection.call(streams, "stateStoreCoordinator");
        stores.getClass().getMethod("deactivateInstances", runId.getClass()).invoke(stores, runId);
      }
    } catch (NoSuchMethodException earlier) {
      return; // a release that does not check
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException(unknown);
    }
  }
}
