package io.pyslash.catalyst;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.util.Comparator;
import java.util.UUID;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;

/** The physical plan of a streaming query before it has started, as Spark's own explain() makes it. */
public final class PlannedQuery {
  private static final String STREAMING = "org.apache.spark.sql.execution.streaming.";

  private PlannedQuery() {}

  public static SparkPlan of(SparkSession session, LogicalPlan analysed, OutputMode mode) {
    try {
      Class<?> execution = find("runtime.", "IncrementalExecution");
      Class<?> metadata = find("checkpointing.", "OffsetSeqMetadata");
      Object noPropagator = find("runtime.", "WatermarkPropagator$").getField("MODULE$").get(null);
      Object[] known = {
        session,
        BatchTime.of(analysed),
        mode,
        "<unknown>",
        UUID.randomUUID(),
        UUID.randomUUID(),
        0L,
        Option.empty(),
        newest(metadata).newInstance(0L, 0L, scala.collection.immutable.Map$.MODULE$.empty()),
        noPropagator.getClass().getMethod("noop").invoke(noPropagator),
        false
      };
      Constructor<?> constructor = newest(execution);
      Object companion = Class.forName(execution.getName() + "$").getField("MODULE$").get(null);
      Object[] arguments = new Object[constructor.getParameterCount()];
      for (int i = 0; i < arguments.length; i++) {
        arguments[i] =
            i < known.length
                ? known[i]
                : companion.getClass().getMethod("$lessinit$greater$default$" + (i + 1)).invoke(companion);
      }
      return ((QueryExecution) constructor.newInstance(arguments)).sparkPlan();
    } catch (InvocationTargetException failure) {
      if (failure.getCause() instanceof RuntimeException refused) {
        throw refused;
      }
      throw new IllegalStateException(failure.getCause());
    } catch (ReflectiveOperationException unknown) {
      throw new OnlySpark("this release of Spark plans streams in a way that is not known: " + unknown);
    }
  }

  /** A class of Spark's streaming; most have moved to packages of their own after 4.0. */
  private static Class<?> find(String where, String name) throws ClassNotFoundException {
    try {
      return Class.forName(STREAMING + where + name);
    } catch (ClassNotFoundException earlier) {
      return Class.forName(STREAMING + name);
    }
  }

  private static Constructor<?> newest(Class<?> type) {
    return Stream.of(type.getConstructors()).max(Comparator.comparing(Constructor::getParameterCount)).orElseThrow();
  }
}
