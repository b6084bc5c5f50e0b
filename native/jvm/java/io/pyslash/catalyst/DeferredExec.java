package io.pyslash.catalyst;

import io.pyslash.shim.StatefulNodes;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.Dependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/**
 * Spark's plan of a micro-batch, executed when somebody wants its rows: `foreachBatch` asks every plan for its RDD, which
 * generates the code of all its stages, and pyslash executes parts of this plan instead.
 */
public final class DeferredExec extends SparkPlan {
  private static final long serialVersionUID = 1L;
  private static final Set<SparkSessionExtensions> extended =
      Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

  /** Session conf of a query whose micro-batches are planned like this. */
  public static final String SWITCH = "spark.slash.internal.deferred";

  private final SparkPlan child;
  private final Seq<SparkPlan> children;

  private DeferredExec(SparkPlan child) {
    this.child = child;
    children = CollectionConverters.asScala(List.of(child)).toSeq();
  }

  /** From now on, stateful plans are deferred in sessions that are copied from this one while the switch is on. */
  public static void extend(SparkSession session) {
    if (extended.add(session.extensions())) {
      session
          .extensions()
          .injectColumnar(
              any ->
                  new ColumnarRule() {
                    @Override
                    public Rule<SparkPlan> postColumnarTransitions() {
                      return new Deferring();
                    }
                  });
    }
  }

  /** The plan that Spark has made. */
  public static SparkPlan planned(SparkPlan plan) {
    return plan instanceof DeferredExec deferred ? deferred.child : plan;
  }

  private static final class Deferring extends Rule<SparkPlan> {
    @Override
    public SparkPlan apply(SparkPlan plan) {
      boolean isOurs = conf().contains(SWITCH) && !StatefulNodes.of(plan).isEmpty();
      return isOurs ? new DeferredExec(plan) : plan;
    }
  }

  private static final class Rows extends RDD<InternalRow> {
    private static final long serialVersionUID = 1L;
    private final transient SparkPlan plan;

    Rows(SparkContext context, SparkPlan plan) {
      super(
          context,
          CollectionConverters.asScala(List.<Dependency<?>>of()).toSeq(),
          ClassTag$.MODULE$.apply(InternalRow.class));
      this.plan = plan;
    }

    @Override
    public Seq<Dependency<?>> getDependencies() {
      Dependency<?> all = new OneToOneDependency<>(plan.execute());
      return CollectionConverters.asScala(List.<Dependency<?>>of(all)).toSeq();
    }

    @Override
    public Partition[] getPartitions() {
      return firstParent(elementClassTag()).partitions();
    }

    @Override
    public Iterator<InternalRow> compute(Partition split, TaskContext context) {
      return this.<InternalRow>firstParent(elementClassTag()).iterator(split, context);
    }
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return new Rows(session().sparkContext(), child);
  }

  @Override
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return child.outputOrdering();
  }

  @Override
  public Seq<SparkPlan> children() {
    return children;
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new DeferredExec(children.head());
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof DeferredExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof DeferredExec deferred && deferred.child.equals(child);
  }

  @Override
  public int hashCode() {
    return child.hashCode();
  }
}
