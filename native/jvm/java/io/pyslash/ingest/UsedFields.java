package io.pyslash.ingest;

import io.pyslash.shim.Watermark;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
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
  // Operators that use what their expressions name, and hand on columns under the same ids. Below others all is used.
  private static final Set<Class<?>> KNOWN =
      Set.of(
          ProjectExec.class, FilterExec.class, WholeStageCodegenExec.class, InputAdapter.class, CollectMetricsExec.class,
          BroadcastHashJoinExec.class);

  private final Predicate<Expression> isFunction;
  private final Map<Long, BitSet> ofColumns = new HashMap<>(); // by their ids
  private final Map<Expression, BitSet> ofFunctions = new HashMap<>(); // as they are canonically
  private boolean isKnown = true;

  UsedFields(SparkPlan plan, Predicate<Expression> isFunction) {
    this.isFunction = isFunction;
    CollectionConverters.asJava(plan.output()).forEach(this::useAll);
    look(plan, false);
    look(plan, true);
  }

  /** Tells by a field's place in the struct. */
  IntPredicate of(Expression function) {
    BitSet used = ofFunctions.get(function.canonicalized());
    return isKnown && used != null ? used::get : place -> true;
  }

  /** First at columns, then, knowing those, at functions. */
  private void look(SparkPlan node, boolean atFunctions) {
    isKnown &= KNOWN.contains(node.getClass()) || Watermark.is(node) || !hasFunctionBelow(node);
    for (Expression expression : CollectionConverters.asJava(node.expressions())) {
      boolean isProjected = node instanceof ProjectExec;
      if (atFunctions) {
        if (isProjected && expression instanceof Alias alias && isFunction.test(alias.child())) {
          ofFunction(alias.child()).or(ofColumns.getOrDefault(alias.exprId().id(), new BitSet()));
          lookBelow(alias.child(), true);
        } else {
          look(expression, true);
        }
      } else if (!(isProjected && expression instanceof Attribute)) { // which hands a column on
        look(expression, false);
      }
    }
    CollectionConverters.asJava(node.children()).forEach(child -> look(child, atFunctions));
  }

  private boolean hasFunctionBelow(SparkPlan node) {
    return CollectionConverters.asJava(node.children()).stream().anyMatch(child -> hasFunction(child) || hasFunctionBelow(child));
  }

  private boolean hasFunction(SparkPlan node) {
    return CollectionConverters.asJava(node.expressions()).stream().anyMatch(one -> one.exists(isFunction::test));
  }

  private void look(Expression expression, boolean atFunctions) {
    Expression struct = expression instanceof GetStructField field ? field.child() : null;
    if (struct instanceof Attribute column && !atFunctions) {
      ofColumn(column).set(((GetStructField) expression).ordinal());
    } else if (struct != null && atFunctions && isFunction.test(struct)) {
      ofFunction(struct).set(((GetStructField) expression).ordinal());
      lookBelow(struct, true);
    } else {
      if (expression instanceof Attribute column && !atFunctions) {
        useAll(column);
      } else if (atFunctions && isFunction.test(expression)) {
        all(ofFunction(expression), expression);
      }
      lookBelow(expression, atFunctions);
    }
  }

  private void lookBelow(Expression expression, boolean atFunctions) {
    CollectionConverters.asJava(expression.children()).forEach(child -> look(child, atFunctions));
  }

  private void useAll(Attribute column) {
    all(ofColumn(column), column);
  }

  private BitSet ofColumn(Attribute column) {
    return ofColumns.computeIfAbsent(column.exprId().id(), id -> new BitSet());
  }

  private BitSet ofFunction(Expression function) {
    return ofFunctions.computeIfAbsent(function.canonicalized(), one -> new BitSet());
  }

  private static void all(BitSet used, Expression struct) {
    if (struct.dataType() instanceof StructType columns) {
      used.set(0, columns.length());
    }
  }
}
