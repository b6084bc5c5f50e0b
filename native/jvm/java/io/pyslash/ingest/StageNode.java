package io.pyslash.ingest;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.CodegenSupport;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** A node in a stage of Spark's generated code, which does something with each row of its child. */
abstract class StageNode extends SparkPlan implements CodegenSupport {
  private static final long serialVersionUID = 1L;

  private final SparkPlan child;
  private transient CodegenSupport parent;

  StageNode(SparkPlan child) {
    this.child = child;
  }

  final SparkPlan child() {
    return child;
  }

  @Override
  public final CodegenSupport parent() {
    return parent;
  }

  @Override
  public final void parent_$eq(CodegenSupport parent) {
    this.parent = parent;
  }

  @Override
  public final Seq<RDD<InternalRow>> inputRDDs() {
    return ((CodegenSupport) child).inputRDDs();
  }

  @Override
  public final String doProduce(CodegenContext context) {
    return ((CodegenSupport) child).produce(context, this);
  }

  @Override
  public final Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public final Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public final boolean canEqual(Object other) {
    return getClass().isInstance(other);
  }

  private List<Object> elements() {
    List<Object> elements = new ArrayList<>();
    for (int i = 0; i < productArity(); i++) {
      elements.add(productElement(i));
    }
    return elements;
  }

  @Override
  public final boolean equals(Object other) {
    return canEqual(other) && ((StageNode) other).elements().equals(elements());
  }

  @Override
  public final int hashCode() {
    return elements().hashCode();
  }
}
