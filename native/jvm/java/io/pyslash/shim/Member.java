package io.pyslash.shim;

import io.pyslash.core.SlashException;
import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Comparator;
import java.util.stream.Stream;

/**
 * Classes and members of Spark's by their names. What is looked up and not there is an error, which names the release and
 * what it lacks; what Spark throws comes out unchanged.
 */
final class Member {
  private static final String STREAMING = "org.apache.spark.sql.execution.streaming.";

  private Member() {}

  /** The class by the first of these names that there is. */
  static Class<?> type(String... names) {
    for (String name : names) {
      try {
        return Class.forName(name);
      } catch (ClassNotFoundException otherRelease) {
        continue;
      }
    }
    throw missing("class " + String.join(" or ", names), null);
  }

  /** A class of Spark's streaming; most have moved to packages of their own after 4.0. */
  static Class<?> streaming(String where, String name) {
    return type(STREAMING + where + name, STREAMING + name);
  }

  static Method method(Class<?> type, String name, Class<?>... parameters) {
    try {
      return type.getMethod(name, parameters);
    } catch (NoSuchMethodException unknown) {
      throw missing("method " + type.getName() + "." + name, unknown);
    }
  }

  /** A method that may be private, by the number of its parameters. */
  static Method method(Class<?> type, String name, int parameters) {
    return Stream.of(type.getDeclaredMethods())
        .filter(one -> one.getName().equals(name) && one.getParameterCount() == parameters)
        .findFirst()
        .map(Member::opened)
        .orElseThrow(() -> missing("method " + type.getName() + "." + name, null));
  }

  static Field field(Class<?> type, String name) {
    try {
      return opened(type.getDeclaredField(name));
    } catch (NoSuchFieldException unknown) {
      throw missing("field " + type.getName() + "." + name, unknown);
    }
  }

  /** The constructor with the most parameters. */
  static Constructor<?> constructor(Class<?> type) {
    return Stream.of(type.getConstructors())
        .max(Comparator.comparing(Constructor::getParameterCount))
        .orElseThrow(() -> missing("public constructor of " + type.getName(), null));
  }

  /** The one instance of a Scala object. */
  static Object module(Class<?> type) {
    return get(field(type, "MODULE$"), null);
  }

  static <M extends AccessibleObject> M opened(M member) {
    member.setAccessible(true);
    return member;
  }

  @SuppressWarnings("unchecked") // the caller names the method's type
  static <T> T call(Method method, Object object, Object... arguments) {
    try {
      return (T) method.invoke(object, arguments);
    } catch (InvocationTargetException failure) {
      throw thrown(failure.getCause());
    } catch (IllegalAccessException | IllegalArgumentException unknown) {
      throw missing("method " + method + " of these arguments", unknown);
    }
  }

  @SuppressWarnings("unchecked") // the caller names the type
  static <T> T make(Constructor<?> constructor, Object... arguments) {
    try {
      return (T) constructor.newInstance(arguments);
    } catch (InvocationTargetException failure) {
      throw thrown(failure.getCause());
    } catch (ReflectiveOperationException | IllegalArgumentException unknown) {
      throw missing("constructor " + constructor + " of these arguments", unknown);
    }
  }

  @SuppressWarnings("unchecked") // the caller names the field's type
  static <T> T get(Field field, Object object) {
    try {
      return (T) field.get(object);
    } catch (IllegalAccessException unknown) {
      throw missing("readable field " + field, unknown);
    }
  }

  static void set(Field field, Object object, Object value) {
    try {
      field.set(object, value);
    } catch (IllegalAccessException unknown) {
      throw missing("writable field " + field, unknown);
    }
  }

  /** Throws Spark's own error; declared as a value, so that the compiler sees that the caller ends there. */
  @SuppressWarnings("unchecked") // Scala declares no checked exceptions, and so throws them like others
  static <E extends Throwable> RuntimeException thrown(Throwable error) throws E {
    throw (E) error;
  }

  /** Whether this is that release of Spark, or a later one. */
  static boolean isFrom(int major, int minor) {
    String[] release = org.apache.spark.package$.MODULE$.SPARK_VERSION().split("[.-]");
    int ours = Integer.parseInt(release[0]);
    return ours > major || ours == major && Integer.parseInt(release[1]) >= minor;
  }

  static SlashException missing(String what, Throwable cause) {
    String release = org.apache.spark.package$.MODULE$.SPARK_VERSION();
    String words = "Spark " + release + " has no " + what;
    return new SlashException("UnknownSparkError", cause == null ? words : words + ": " + cause);
  }
}
