package io.pyslash.shim;

import java.lang.reflect.Method;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import scala.jdk.javaapi.CollectionConverters;

/** Spark's `from_avro`, which an application has only with the package spark-avro. */
public final class AvroFunction {
  private static final String NAME = "org.apache.spark.sql.avro.AvroDataToCatalyst";

  private AvroFunction() {}

  public static boolean is(Expression expression) {
    return expression.getClass().getName().equals(NAME);
  }

  /** What stands for it in a plan that is not optimised yet; null: this expression is none. */
  public static Expression in(Expression expression) {
    if (expression instanceof RuntimeReplaceable function && expression.prettyName().equals("from_avro")) {
      return in(function.replacement());
    }
    return is(expression) ? expression : null;
  }

  /** The schema that records are written by. Throws what Spark would throw at each record, if it can read none by it. */
  public static Schema schema(Expression function) {
    Member.call(Member.method(function.getClass(), "deserializer", 0), function);
    return Member.call(Member.method(function.getClass(), "actualSchema", 0), function);
  }

  public static Map<String, String> options(Expression function) {
    Method options = Member.method(function.getClass(), "options");
    return CollectionConverters.asJava(Member.<scala.collection.immutable.Map<String, String>>call(options, function));
  }
}
