package io.pyslash.catalyst;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.LocalTableScanExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import scala.jdk.javaapi.CollectionConverters;

/** Rows that the driver has at hand, and what simple operators above make of them: neither needs a job. */
public final class LocalRows {
  /** An operator that is not so simple. */
  private static final class NeedsJob extends RuntimeException {
    private static final long serialVersionUID = 1L;

    NeedsJob() {
      super(null, null, false, false);
    }
  }

  private LocalRows() {}

  /** The physical plan of a Dataset of such rows: Spark's optimizer has nothing to do for it. */
  static SparkPlan plan(Dataset<Row> rows) {
    return rows.sparkSession().sessionState().planner().plan(rows.queryExecution().analyzed()).next();
  }

  /** The rows of a physical plan of projections and filters over rows at hand; null: they need a job. */
  public static List<InternalRow> of(SparkPlan plan) {
    try {
      return evaluated(plan);
    } catch (RuntimeException needsJob) {
      return null; // or fails: whoever runs the job is to see it
    }
  }

  private static List<InternalRow> evaluated(SparkPlan node) {
    if (node instanceof LocalTableScanExec local) {
      return CollectionConverters.asJava(local.rows());
    }
    if (node instanceof WholeStageCodegenExec || node instanceof InputAdapter) {
      return evaluated(node.children().head());
    }
    if (node instanceof ProjectExec project && project.projectList().forall(LocalRows::isSimple)) {
      List<InternalRow> rows = evaluated(project.child());
      return rows.isEmpty() ? rows : projected(project, rows);
    }
    if (node instanceof FilterExec filter && isSimple(filter.condition())) {
      List<InternalRow> rows = evaluated(filter.child());
      return rows.isEmpty() ? rows : filtered(filter, rows);
    }
    throw new NeedsJob();
  }

  private static List<InternalRow> projected(ProjectExec project, List<InternalRow> rows) {
    UnsafeProjection projection = Projections.of(expressions(project), project.child().output(), rows.size());
    List<InternalRow> found = new ArrayList<>(rows.size());
    rows.forEach(row -> found.add(projection.apply(row).copy()));
    return found;
  }

  private static List<InternalRow> filtered(FilterExec filter, List<InternalRow> rows) {
    BasePredicate predicate = Predicate.create(filter.condition(), filter.child().output());
    return rows.stream().filter(predicate::eval).toList();
  }

  @SuppressWarnings("unchecked") // a NamedExpression is an Expression, which Java does not see
  private static scala.collection.immutable.Seq<Expression> expressions(ProjectExec project) {
    return (scala.collection.immutable.Seq<Expression>) (Object) project.projectList();
  }

  /** Whether it depends on the row alone. */
  private static boolean isSimple(Object expression) {
    Expression one = (Expression) expression;
    return one.deterministic() && !one.containsPattern(TreePattern.PLAN_EXPRESSION());
  }
}
