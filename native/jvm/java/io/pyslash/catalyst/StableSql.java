package io.pyslash.catalyst;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionWithRandomSeed;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * The SQL of an expression, the same in each micro-batch and at each start. Spark gives `rand()` and the like another seed in
 * each batch, and what an expression has twice, as BETWEEN and nullif() have, a name with another number at each start.
 */
public final class StableSql extends AbstractPartialFunction<Expression, Expression> {
  private static final StableSql WITHOUT_SEEDS = new StableSql();
  private static final Pattern NUMBERED = Pattern.compile("\\b_common_expr_\\d+\\b");

  private StableSql() {}

  public static String of(Expression expression) {
    return expression.transform(WITHOUT_SEEDS).sql();
  }

  /** With what the names stand for in their places. */
  public static String of(Expression expression, Map<Long, Expression> names) {
    return numbered(of(inlined(expression, names)));
  }

  /** The text with other numbers: in the order of their names. */
  public static String numbered(String text) {
    Map<String, String> numbers = new HashMap<>();
    return NUMBERED
        .matcher(text)
        .replaceAll(name -> numbers.computeIfAbsent(name.group(), found -> "_common_expr_" + numbers.size()));
  }

  /** What names of Spark's own making stand for in a plan, by the names' ids: over columns as they are called beside them. */
  public static Map<Long, Expression> names(SparkPlan plan) {
    Map<Long, Expression> names = new HashMap<>();
    if (plan instanceof ProjectExec project) {
      List<NamedExpression> items = CollectionConverters.asJava(project.projectList());
      Map<Long, Expression> renamed = renamed(items);
      for (NamedExpression item : items) {
        if (item instanceof Alias alias && NUMBERED.matcher(alias.name()).matches()) {
          names.put(alias.exprId().id(), inlined(alias.child(), renamed));
        }
      }
    }
    CollectionConverters.asJava(plan.children()).forEach(child -> names.putAll(names(child)));
    return names;
  }

  /** The names under which a projection gives columns that it does not give as they are. */
  private static Map<Long, Expression> renamed(List<NamedExpression> items) {
    Map<Long, Expression> renamed = new HashMap<>();
    for (NamedExpression item : items) {
      if (item instanceof Alias alias && alias.child() instanceof Attribute column) {
        renamed.putIfAbsent(column.exprId().id(), alias.toAttribute());
      }
    }
    items.forEach(item -> renamed.remove(item.exprId().id()));
    return renamed;
  }

  /** The expression with what names stand for in their places. */
  static Expression inlined(Expression expression, Map<Long, Expression> names) {
    return WindowedInput.replaced(
        expression,
        part -> {
          Expression named = part instanceof Attribute attribute ? names.get(attribute.exprId().id()) : null;
          return named == null ? null : inlined(named, names);
        });
  }

  @Override
  public boolean isDefinedAt(Expression expression) {
    return expression instanceof ExpressionWithRandomSeed;
  }

  @Override
  public Expression apply(Expression expression) {
    return ((ExpressionWithRandomSeed) expression).withNewSeed(0);
  }
}
