package io.pyslash.shim;

import java.lang.reflect.Method;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.jdk.javaapi.CollectionConverters;

/** Spark's `from_avro`, which an application has only with the package spark-avro. */
public final class AvroFunction {
  private static final String NAME = "org.apache.spark.sql.avro.AvroDataToCatalyst";

  private AvroFunction() {}

  public static boolean is(Expression expression) {
    return expression.getClass().getName().equals(NAME);
  }

  /** The schema that records are written by. */
  public static String schema(Expression function) {
    Method schema = Member.method(function.getClass(), "jsonFormatSchema");
    return Member.call(schema, function);
  }

  public static Map<String, String> options(Expression function) {
    Method options = Member.method(function.getClass(), "options");
    return CollectionConverters.asJava(Member.<scala.collection.immutable.Map<String, String>>call(options, function));
  }
}
