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
  private final Map<Long, BitSet> ofColumns = new HashMap<>(); // by their ids
  private final Map<Expression, BitSet> ofFunctions = new HashMap<>(); // as they are canonically
  private boolean isKnown = true;

  UsedFields(SparkPlan plan, Predicate<Expression> isFunction) {
    this.isFunction = isFunction;
    CollectionConverters.asJava(plan.output()).forEach(column -> look(column, false));
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

  /** A scan has filters that it does not compute. */
  private boolean hasFunction(SparkPlan node) {
    return !node.children().isEmpty()
        && CollectionConverters.asJava(node.expressions()).stream().anyMatch(one -> one.exists(isFunction::test));
  }

  private void look(Expression expression, boolean atFunctions) {
    Expression struct = expression;
    BitSet part = all(expression);
    if (expression instanceof GetStructField field) {
      struct = field.child();
      part.clear();
      part.set(field.ordinal());
    } else if (expression instanceof IsNotNull known) {
      struct = known.child();
      part.clear();
    }
    if (atFunctions && isFunction.test(struct)) {
      ofFunction(struct).or(part);
      lookBelow(struct, true);
    } else if (!atFunctions && struct instanceof Attribute column) {
      ofColumn(column).or(part);
    } else {
      lookBelow(expression, atFunctions);
    }
  }

  private void lookBelow(Expression expression, boolean atFunctions) {
    CollectionConverters.asJava(expression.children()).forEach(child -> look(child, atFunctions));
  }

  private BitSet ofColumn(Attribute column) {
    return ofColumns.computeIfAbsent(column.exprId().id(), id -> new BitSet());
  }

  private BitSet ofFunction(Expression function) {
    return ofFunctions.computeIfAbsent(function.canonicalized(), one -> new BitSet());
  }

  private static BitSet all(Expression struct) {
    BitSet fields = new BitSet();
    if (struct.dataType() instanceof StructType columns) {
      fields.set(0, columns.length());
    }
    return fields;
  }
}
