package io.pyslash.ingest;

import io.pyslash.shim.Watermark;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** Which fields a plan looks at of the structs that functions of a kind give. */
final class UsedFields {
  // Operators that use what their expressions name, and hand on columns under the same ids. With another one above a
  // function all is used.
  private static final Set<Class<?>> KNOWN =
      Set.of(
          ProjectExec.class, FilterExec.class, WholeStageCodegenExec.class, InputAdapter.class, CollectMetricsExec.class,
          BroadcastHashJoinExec.class);

  private final Predicate<Expression> isFunction;
  private final Map<Object, BitSet> used = new HashMap<>(); // of structs by their `key`
  private final Map<Object, Set<Object>> columns = new HashMap<>(); // that functions are projected to, both by their `key`
  private boolean isKnown = true;

  UsedFields(SparkPlan plan, Predicate<Expression> isFunction) {
    this.isFunction = isFunction;
    CollectionConverters.asJava(plan.output()).forEach(this::look);
    look(plan);
  }

  /** Tells by a field's place in the struct. */
  IntPredicate of(Expression function) {
    BitSet fields = new BitSet();
    fields.or(used.getOrDefault(key(function), fields));
    columns.getOrDefault(key(function), Set.of()).forEach(column -> fields.or(used.getOrDefault(column, fields)));
    return isKnown ? fields::get : place -> true;
  }

  /** Whether the function is in the plan. What a scan has as filters it does not compute. */
  private boolean look(SparkPlan node) {
    boolean isBelow = false;
    for (SparkPlan child : CollectionConverters.asJava(node.children())) {
      isBelow |= look(child);
    }
    isKnown &= !isBelow || KNOWN.contains(node.getClass()) || Watermark.is(node);
    boolean isHere = false;
    for (Expression expression : CollectionConverters.asJava(node.expressions())) {
      isHere |= !node.children().isEmpty() && expression.exists(isFunction::test);
      boolean isProjected = node instanceof ProjectExec;
      if (isProjected && expression instanceof Alias alias && isFunction.test(alias.child())) {
        columns.computeIfAbsent(key(alias.child()), function -> new HashSet<>()).add(alias.exprId());
        CollectionConverters.asJava(alias.child().children()).forEach(this::look);
      } else if (!(isProjected && expression instanceof Attribute)) { // which hands a column on
        look(expression);
      }
    }
    return isBelow || isHere;
  }

  private void look(Expression expression) {
    Expression struct = expression;
    if (expression instanceof GetStructField field) {
      struct = field.child();
    } else if (expression instanceof IsNotNull known) {
      struct = known.child();
    }
    if (struct instanceof Attribute || isFunction.test(struct)) {
      use(struct, expression);
    } else {
      struct = expression;
    }
    CollectionConverters.asJava(struct.children()).forEach(this::look);
  }

  /** By an expression that is the struct itself, takes a field of it, or looks whether it is null. */
  private void use(Expression struct, Expression by) {
    BitSet fields = used.computeIfAbsent(key(struct), one -> new BitSet());
    if (by instanceof GetStructField field) {
      fields.set(field.ordinal());
    } else if (by == struct && struct.dataType() instanceof StructType all) {
      fields.set(0, all.length());
    }
  }

  private static Object key(Expression struct) {
    return struct instanceof Attribute column ? column.exprId() : struct.canonicalized();
  }
}
