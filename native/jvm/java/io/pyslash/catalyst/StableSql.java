package io.pyslash.catalyst;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionWithRandomSeed;
import scala.runtime.AbstractPartialFunction;

/** The SQL of an expression, the same in each micro-batch: Spark gives `rand()` and the like another seed in each. */
public final class StableSql extends AbstractPartialFunction<Expression, Expression> {
  private static final StableSql WITHOUT_SEEDS = new StableSql();

  private StableSql() {}

  public static String of(Expression expression) {
    return expression.transform(WITHOUT_SEEDS).sql();
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
