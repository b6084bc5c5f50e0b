package io.pyslash;

import java.lang.reflect.Method;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Spark 4.3 checks under foreachBatch that every state store of a micro-batch was committed. A query whose state is ours
 * opens none.
 */
final class CommitValidation {
  private CommitValidation() {}

  /** Spark is to expect no commit in the running micro-batch of this `StreamExecution`. */
  static void skip(Object stream) {
    try {
      Object reporter = call(stream, "progressReporter");
      Method expects = reporter.getClass().getMethod("shouldValidateStateStoreCommit");
      if (((AtomicBoolean) expects.invoke(reporter)).getAndSet(false)) {
        // What it expects is dropped with the run's store instances, of which there are none.
        Object runId = call(stream, "runId");
        Object stores = call(call(call(stream, "sparkSession"), "streams"), "stateStoreCoordinator");
        stores.getClass().getMethod("deactivateInstances", runId.getClass()).invoke(stores, runId);
      }
    } catch (NoSuchMethodException earlier) {
      return; // a release that does not check
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException(unknown);
    }
  }

  private static Object call(Object object, String method) throws ReflectiveOperationException {
    return object.getClass().getMethod(method).invoke(object);
  }
}
