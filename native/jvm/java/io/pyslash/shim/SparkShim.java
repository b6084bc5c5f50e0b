package io.pyslash.shim;

import java.lang.invoke.MethodHandles;
import java.util.List;

/**
 * All that pyslash takes of Spark by name, because it is private, or because its class or its parameters are others in
 * other releases. The classes of this package hold the names in their static fields, and nothing else of pyslash reflects.
 */
public final class SparkShim {
  private static final List<Class<?>> NAMES =
      List.of(
          BegunQuery.class,
          Counters.class,
          FileSource.class,
          InputWatermark.class,
          JoinNode.class,
          PageHeader.class,
          QueryManager.class,
          QueryPlans.class,
          QueryStart.class,
          ReadPartitions.class,
          RunningStream.class,
          SparkNodes.class,
          StatefulNodes.class,
          StreamPlanning.class,
          Watermark.class);

  private SparkShim() {}

  /** Throws Spark's own error; declared as a value, so that the compiler sees that the caller ends there. */
  public static RuntimeException thrown(Throwable error) {
    throw Member.thrown(error);
  }

  /** Looks up every name. Fails at the first one that this release of Spark lacks. */
  public static void check() {
    for (Class<?> names : NAMES) {
      try {
        MethodHandles.lookup().ensureInitialized(names);
      } catch (IllegalAccessException impossible) {
        throw new IllegalStateException(impossible);
      } catch (ExceptionInInitializerError failure) {
        throw Member.thrown(failure.getCause());
      } catch (NoClassDefFoundError again) { // such a class fails only once with its reason
        throw Member.missing("what " + names.getSimpleName() + " takes of it", again);
      }
    }
  }
}
