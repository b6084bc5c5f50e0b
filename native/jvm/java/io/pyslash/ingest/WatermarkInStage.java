package io.pyslash.ingest;

import io.pyslash.catalyst.Origin;
import io.pyslash.shim.Watermark;
import java.io.Serializable;
import java.util.List;
import java.util.function.LongUnaryOperator;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.util.AccumulatorV2;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's watermark operator within a stage of generated code: it collects event times where Spark's does, of the values that
 * the stage has at hand. Spark's own has no generated code, and divides a stage into two with a row written between them.
 */
final class WatermarkInStage extends StageNode {
  private static final long serialVersionUID = 1L;

  private final SparkPlan operator;

  private WatermarkInStage(SparkPlan child, SparkPlan operator) {
    super(child);
    this.operator = operator;
  }

  /** The same plan with one stage in the place of two that a watermark divides. */
  static SparkPlan of(SparkPlan plan) {
    if (!(plan instanceof WholeStageCodegenExec stage)) {
      return plan;
    }
    // A node has the session that is its thread's when it is made.
    return plan.session().withActive(() -> withChild(stage, united(stage.child())));
  }

  private static SparkPlan united(SparkPlan node) {
    if (node instanceof InputAdapter boundary) {
      SparkPlan below = below(boundary);
      return below == null ? node : new WatermarkInStage(united(below), boundary.child());
    }
    // A join may take its rows from its children's own code, which is no part of its stage.
    return node.children().size() == 1 ? withChild(node, united(node.children().head())) : node;
  }

  /** What stands below a watermark by which a stage begins, in the stage before; null if none is there. */
  static SparkPlan below(InputAdapter boundary) {
    return Watermark.is(boundary.child())
            && boundary.child().children().head() instanceof WholeStageCodegenExec below
        ? below.child()
        : null;
  }

  private static SparkPlan withChild(SparkPlan node, SparkPlan child) {
    return child == node.children().head()
        ? node
        : node.withNewChildren(CollectionConverters.asScala(List.of(child)).toSeq());
  }

  /** What generated code calls with each event time, by a type of the JDK's, as {@link ColumnSink}; microseconds. */
  private record Times(AccumulatorV2<Object, ?> collected) implements LongUnaryOperator, Serializable {
    private static final long MICROS = 1000; // in a millisecond

    @Override
    public long applyAsLong(long time) {
      collected.add(Math.floorDiv(time, MICROS));
      return time;
    }
  }

  @SuppressWarnings("unchecked") // it is of the JVM's longs
  private Times times() {
    return new Times((AccumulatorV2<Object, ?>) Watermark.times(Origin.of(operator)));
  }

  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> input, ExprCode row) {
    Attribute time = Watermark.time(operator);
    int at = 0;
    while (!child().output().apply(at).exprId().equals(time.exprId())) {
      at++;
    }
    String times = context.addReferenceObj("times", times(), LongUnaryOperator.class.getName());
    String value = evaluateRequiredVariables(child().output(), input, AttributeSet.apply(time));
    ExprCode found = input.apply(at);
    // A time that is null counts as 1970, as Spark's operator reads it out of its row.
    String add = "%s.applyAsLong(%s ? 0L : %s);\n".formatted(times, found.isNull(), found.value());
    return value + "\n" + add + consume(context, input, null);
  }

  /** Where Spark does without generated code after all. */
  @Override
  public RDD<InternalRow> doExecute() {
    return Origin.counting(withChild(operator, child())).execute();
  }

  @Override
  public Seq<Attribute> output() {
    return operator.output();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new WatermarkInStage(children.head(), operator);
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? child() : operator;
  }
}
