package io.pyslash.join;

import io.pyslash.merge.MergeCounts;
import io.pyslash.merge.MergeSpec;
import io.pyslash.merge.MergedRows;
import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * The rows that a join gives in a micro-batch, in the place of Spark's operator: a partition is a range of hash prefixes.
 * Nothing is consumed, so they may be read more than once.
 */
final class JoinedRows extends SparkPlan {
  private static final long serialVersionUID = 1L;

  private final Seq<Attribute> output;
  private final JoinRules rules;
  private final MergeSpec order;
  private final int tasks;
  private final boolean keeps;
  private final String[] places;
  private final MergeCounts counts;

  /**
   * {@code keeps}: tasks leave what they have read in memory for the next micro-batch. {@code places}, the same ones in the
   * same order each time, are where tasks would rather run.
   */
  JoinedRows(
      Seq<Attribute> output,
      JoinRules rules,
      MergeSpec order,
      int tasks,
      boolean keeps,
      String[] places,
      MergeCounts counts) {
    this.output = output;
    this.rules = rules;
    this.order = order;
    this.tasks = tasks;
    this.keeps = keeps;
    this.places = places;
    this.counts = counts;
  }

  private record Range(int index, MergedRows.Prefixes prefixes) implements Partition {
    private static final long serialVersionUID = 1L;
  }

  private static final class Rows extends RDD<InternalRow> {
    private static final long serialVersionUID = 1L;

    private final JoinRules rules;
    private final MergeSpec order;
    private final boolean keeps;
    private final MergeCounts counts;
    private final Partition[] ranges;

    Rows(SparkContext context, JoinedRows plan) {
      super(
          context,
          CollectionConverters.asScala(List.<Dependency<?>>of()).toSeq(),
          ClassTag$.MODULE$.apply(InternalRow.class));
      rules = plan.rules;
      order = plan.order;
      keeps = plan.keeps;
      counts = plan.counts;
      ranges = new Partition[plan.tasks];
      for (int i = 0; i < ranges.length; i++) {
        ranges[i] = new Range(i, MergedRows.Prefixes.of(i, plan.tasks, plan.places));
      }
    }

    @Override
    public Partition[] getPartitions() {
      return ranges;
    }

    @Override
    public Seq<String> getPreferredLocations(Partition split) {
      return CollectionConverters.asScala(List.of(((Range) split).prefixes().preferredLocations())).toSeq();
    }

    @Override
    public Iterator<InternalRow> compute(Partition split, TaskContext context) {
      JoinReader reader = new JoinReader(rules, order, keeps, ((Range) split).prefixes(), counts);
      context.addTaskCompletionListener((TaskCompletionListener) done -> reader.close());
      return reader;
    }
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return new Rows(session().sparkContext(), this);
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.<SparkPlan>of()).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return this;
  }

  @Override
  public int productArity() {
    return 0;
  }

  @Override
  public Object productElement(int index) {
    throw new IndexOutOfBoundsException(index);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof JoinedRows;
  }

  @Override
  public boolean equals(Object other) {
    return this == other;
  }

  @Override
  public int hashCode() {
    return System.identityHashCode(this);
  }
}
