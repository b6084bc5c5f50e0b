package io.pyslash.ingest;

import io.pyslash.catalyst.NativeTypes;
import io.pyslash.catalyst.Origin;
import io.pyslash.records.LineScanExec;
import io.pyslash.shim.Watermark;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateArray;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SQLExecutionRDD;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The rows that an update job takes.
 *
 * <p>Spark's watermark operator writes each row's event time into a row of its own, and divides generated code into two
 * stages with a row written between them. Where only columns are chosen above it, the job runs without it, in one stage,
 * and {@link UpdateTask} collects the operator's statistics from the rows that it takes anyway. Where they are columns of
 * files and nothing else, it takes the pages of rows that native code has read. In other plans {@link WatermarkInStage}
 * collects them.
 */
public final class UpdateRows {
  /** An operator stands above the watermark that has to stay there. */
  private static final class MustStay extends RuntimeException {
    private static final long serialVersionUID = 1L;

    MustStay() {
      super(null, null, false, false);
    }
  }

  /** Attributes that are the event time: its own, and what it is renamed to. */
  private final Set<Long> times = new HashSet<>();

  public final RDD<InternalRow> rows;

  private final boolean keepsTimeless; // rows without a time count

  private boolean dropsTimeless; // Spark's filter of rows with a time is left out

  /** Whether the tasks have to collect the statistics of event times. */
  public final boolean withoutWatermark;

  public UpdateRows(SparkPlan plan, boolean keepsTimeless) {
    this.keepsTimeless = keepsTimeless;
    SparkPlan fused = fused(plan);
    withoutWatermark = fused != null;
    SparkPlan chosen = Origin.counting(ColumnsExec.of(withoutWatermark ? fused : WatermarkInStage.of(plan)));
    RDD<InternalRow> pages = withoutWatermark ? LineScanExec.pagesOf(fused) : null;
    rows = new SQLExecutionRDD(pages != null ? pages : chosen.execute(), chosen.conf());
  }

  private SparkPlan fused(SparkPlan plan) {
    if (!(plan instanceof WholeStageCodegenExec above)) {
      return null;
    }
    try {
      SparkPlan stage = withoutWatermark(above.child());
      long first = stage.output().head().exprId().id();
      return times.contains(first) ? new WholeStageCodegenExec(stage, above.codegenStageId()) : null;
    } catch (MustStay operator) {
      return null;
    }
  }

  private SparkPlan withoutWatermark(SparkPlan node) {
    if (node instanceof InputAdapter boundary && WatermarkInStage.below(boundary) != null) {
      times.add(Watermark.time(boundary.child()).exprId().id());
      return WatermarkInStage.below(boundary);
    }
    if (node instanceof ProjectExec project) {
      SparkPlan child = withoutWatermark(project.child());
      List<NamedExpression> columns = new ArrayList<>();
      for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
        if (column instanceof Alias alias && isTime(alias.child())) {
          times.add(alias.exprId().id());
        }
        columns.add(dropsTimeless && column instanceof Alias alias ? ofTimed(alias, child) : column);
      }
      return new ProjectExec(CollectionConverters.asScala(columns).toSeq(), child);
    }
    if (node instanceof FilterExec filter) {
      SparkPlan child = withoutWatermark(filter.child());
      // Rows without a time have moved the watermark when Spark drops them, and the accumulator drops them by itself.
      if (!keepsTimeless && filter.condition() instanceof IsNotNull present && isTime(present.child())) {
        dropsTimeless = true;
        return child;
      }
    }
    throw new MustStay();
  }

  /** The column, of which nothing is computed in rows without a time: Spark drops them before, and it may be an error. */
  private NamedExpression ofTimed(Alias alias, SparkPlan child) {
    Attribute time =
        CollectionConverters.asJava(child.output()).stream().filter(this::isTime).findFirst().orElseThrow(MustStay::new);
    Expression value = ofTimed(alias.child(), new IsNotNull(time));
    return (NamedExpression) alias.withNewChildren(CollectionConverters.asScala(List.of(value)).toSeq());
  }

  private static Expression ofTimed(Expression value, Expression hasTime) {
    if (value.children().isEmpty()) {
      return value;
    }
    if (value.nullable()) {
      return new If(hasTime, value, Literal$.MODULE$.create(null, value.dataType()));
    }
    if (NativeTypes.nameOf(value.dataType()) != null) {
      return new If(hasTime, value, NativeTypes.zero(value.dataType()));
    }
    if (value instanceof CreateNamedStruct || value instanceof CreateArray) {
      List<Expression> parts =
          CollectionConverters.asJava(value.children()).stream().map(part -> ofTimed(part, hasTime)).toList();
      return value.withNewChildren(CollectionConverters.asScala(parts).toSeq());
    }
    throw new MustStay();
  }

  private boolean isTime(Object expression) {
    return expression instanceof Attribute attribute && times.contains(attribute.exprId().id());
  }
}
