package io.pyslash.shim;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.execution.SparkPlan;

/** What tasks count by in nodes of Spark's physical plans: SQL metrics, observed metrics, event times. */
public final class Counters {
  /** Fields of nodes; each has a method of its name, which makes a lazy one. A node has some of them. */
  private static final List<String> NAMES = List.of("metrics", "accumulator", "eventTimeStats");

  private static final ClassValue<List<Counter>> countersOf = new ClassValue<>() {
    @Override
    protected List<Counter> computeValue(Class<?> type) {
      return countersOf(type);
    }
  };

  private record Counter(Field field, Method made) {
    void share(SparkPlan copy, SparkPlan origin) {
      Object shared = Member.call(made, origin);
      if (Member.call(made, copy) != shared) {
        Member.set(field, copy, shared);
      }
    }
  }

  private Counters() {}

  /** A node counts as another one of its class does. */
  public static void share(SparkPlan copy, SparkPlan origin) {
    countersOf.get(copy.getClass()).forEach(counter -> counter.share(copy, origin));
  }

  private static List<Counter> countersOf(Class<?> type) {
    List<Counter> found = new ArrayList<>();
    for (Class<?> declaring = type; declaring != null; declaring = declaring.getSuperclass()) {
      for (Field field : declaring.getDeclaredFields()) {
        boolean isMade = Stream.of(declaring.getDeclaredMethods()).anyMatch(one -> makes(one, field));
        if (NAMES.contains(field.getName()) && isMade) {
          found.add(new Counter(Member.opened(field), Member.method(declaring, field.getName(), 0)));
        }
      }
    }
    return found;
  }

  private static boolean makes(Method method, Field field) {
    return method.getName().equals(field.getName()) && method.getParameterCount() == 0;
  }
}
