package io.pyslash.sink;

import io.pyslash.core.SlashException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;
import scala.collection.immutable.Seq;

/** What a {@link DataStreamWriter} has been told. It has no getters, so its private members are read by reflection. */
public final class WriterSettings {
  private final DataStreamWriter<?> writer;

  public WriterSettings(DataStreamWriter<?> writer) {
    this.writer = writer;
  }

  String source() {
    return field("source");
  }

  OutputMode outputMode() {
    return field("outputMode");
  }

  CaseInsensitiveMap<String> options() {
    return field("extraOptions");
  }

  Option<Seq<String>> partitionColumns() {
    return field("partitioningColumns");
  }

  /** The clustering columns, spelled as the query spells them. */
  Option<Seq<String>> clusteringColumns() {
    return call("normalizedClusteringCols");
  }

  Dataset<Row> rows() {
    return field("ds");
  }

  SparkSession session() {
    return rows().sparkSession();
  }

  SessionState state() {
    return session().sessionState();
  }

  @SuppressWarnings("unchecked") // the caller names the field's type
  <T> T field(String name) {
    try {
      Field field = DataStreamWriter.class.getDeclaredField(name);
      field.setAccessible(true);
      return (T) field.get(writer);
    } catch (ReflectiveOperationException e) {
      throw unknown(name, e);
    }
  }

  /** Calls a private method of the writer; what it throws comes out unchanged. */
  @SuppressWarnings("unchecked") // the caller names the method's type
  <T> T call(String name, Object... arguments) {
    try {
      Method method =
          Arrays.stream(DataStreamWriter.class.getDeclaredMethods())
              .filter(one -> one.getName().equals(name) && one.getParameterCount() == arguments.length)
              .findFirst()
              .orElseThrow(() -> new NoSuchMethodException(name));
      method.setAccessible(true);
      return (T) method.invoke(writer, arguments);
    } catch (InvocationTargetException e) {
      throw thrown(e.getCause());
    } catch (ReflectiveOperationException e) {
      throw unknown(name, e);
    }
  }

  /** Throws Spark's own error; declared as a value, so that the compiler sees that the caller ends there. */
  @SuppressWarnings("unchecked") // Scala declares no checked exceptions, and so throws them like others
  static <E extends Throwable> RuntimeException thrown(Throwable error) throws E {
    throw (E) error;
  }

  private static SlashException unknown(String member, ReflectiveOperationException cause) {
    return new SlashException("internal", "Spark's DataStreamWriter has no " + member + ": " + cause);
  }
}
