package io.pyslash.records;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** In the place of a scan of Spark's, whose columns and metrics it has: readers of ours give the rows. */
public abstract class ScanInPlaceExec extends SparkPlan {
  private static final long serialVersionUID = 1L;
  private static final String ROWS = "numOutputRows";

  private final SparkPlan replaced;

  protected ScanInPlaceExec(SparkPlan replaced) {
    this.replaced = replaced;
  }

  /** What Spark's scan counts its rows by. */
  protected final SQLMetric rows() {
    return metrics().apply(ROWS);
  }

  @Override
  public final Map<String, SQLMetric> metrics() {
    return replaced.metrics();
  }

  @Override
  public final Seq<Attribute> output() {
    return replaced.output();
  }

  @Override
  public final Partitioning outputPartitioning() {
    return replaced.outputPartitioning();
  }

  @Override
  public final Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.<SparkPlan>of()).toSeq();
  }

  @Override
  public final SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return this;
  }
}
