package io.pyslash.join;

import io.pyslash.core.InputRows;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.Dependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** The rows of both sides of a join in the columns that native code keeps them in: pyslash/plan.h has their meaning. */
final class JoinInput extends SparkPlan {
  private static final long serialVersionUID = 1L;

  static final StructType SCHEMA =
      new StructType()
          .add("time", DataTypes.TimestampType)
          .add("side", DataTypes.ByteType, false)
          .add("expires", DataTypes.LongType, false)
          .add("epoch", DataTypes.LongType, false)
          .add("evicted", DataTypes.LongType, false)
          .add("key", DataTypes.BinaryType, false)
          .add("row", DataTypes.BinaryType, false);

  private final List<SparkPlan> sides; // left, right
  private final List<JoinRowWriter.Rules> rules; // likewise
  private final SQLMetric late;
  private final Seq<Attribute> output;

  /** {@code late} counts late rows. */
  JoinInput(List<SparkPlan> sides, List<JoinRowWriter.Rules> rules, SQLMetric late) {
    this(sides, rules, late, CollectionConverters.asScala(columns()).toSeq());
  }

  private static List<Attribute> columns() {
    return List.copyOf(CollectionConverters.asJava(DataTypeUtils.toAttributes(SCHEMA)));
  }

  private JoinInput(List<SparkPlan> sides, List<JoinRowWriter.Rules> rules, SQLMetric late, Seq<Attribute> output) {
    this.sides = List.copyOf(sides);
    this.rules = List.copyOf(rules);
    this.late = late;
    this.output = output;
  }

  /** The rows of one side. */
  private static final class Rows extends RDD<InternalRow> implements InputRows {
    private static final long serialVersionUID = 1L;
    private final JoinRowWriter.Rules rules;
    private final SQLMetric late;

    Rows(SparkContext context, RDD<InternalRow> rows, JoinRowWriter.Rules rules, SQLMetric late) {
      super(
          context,
          CollectionConverters.asScala(List.<Dependency<?>>of(new OneToOneDependency<>(rows))).toSeq(),
          ClassTag$.MODULE$.apply(InternalRow.class));
      this.rules = rules;
      this.late = late;
    }

    @Override
    public int input() {
      return rules.isRight() ? 1 : 0;
    }

    @Override
    public long lateMetric() {
      return late.id();
    }

    @Override
    public Partition[] getPartitions() {
      return firstParent(elementClassTag()).partitions();
    }

    @Override
    public Iterator<InternalRow> compute(Partition split, TaskContext context) {
      return new JoinRowWriter(rules, late, this.<InternalRow>firstParent(elementClassTag()).iterator(split, context));
    }
  }

  @Override
  public RDD<InternalRow> doExecute() {
    SparkContext context = session().sparkContext();
    List<RDD<InternalRow>> rows = new ArrayList<>();
    for (int i = 0; i < sides.size(); i++) {
      rows.add(new Rows(context, sides.get(i).execute(), rules.get(i), late));
    }
    return context.union(
        CollectionConverters.asScala(rows).toSeq(), ClassTag$.MODULE$.<InternalRow>apply(InternalRow.class));
  }

  @Override
  public Seq<Attribute> output() {
    return output;
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(sides).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new JoinInput(CollectionConverters.asJava(children), rules, late, output);
  }

  @Override
  public int productArity() {
    return sides.size();
  }

  @Override
  public Object productElement(int index) {
    return sides.get(index);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof JoinInput;
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
