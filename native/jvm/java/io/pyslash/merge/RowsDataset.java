package io.pyslash.merge;

import io.pyslash.shim.SparkNodes;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;

/** Rows as a Dataset that Spark's analyzer has nothing to do for: its many rules cost milliseconds over any plan. */
public final class RowsDataset {
  private RowsDataset() {}

  public static Dataset<Row> of(SparkSession session, List<InternalRow> rows, StructType schema) {
    List<Attribute> columns = new ArrayList<>(CollectionConverters.asJava(DataTypeUtils.toAttributes(schema)));
    LocalRelation plan =
        new LocalRelation(
            CollectionConverters.asScala(columns).toSeq(),
            CollectionConverters.asScala(rows).toSeq(),
            false, // it is no stream
            Option.empty());
    plan.setAnalyzed();
    return Dataset.ofRows(session, plan);
  }

  /** No rows, in one partition: a plan of no rows at hand has none. */
  public static Dataset<Row> ofNone(SparkSession session, StructType schema) {
    Seq<InternalRow> none = CollectionConverters.asScala(List.<InternalRow>of()).toSeq();
    return of(session, session.sparkContext().parallelize(none, 1, ClassTag$.MODULE$.apply(InternalRow.class)), schema);
  }

  public static Dataset<Row> of(SparkSession session, RDD<InternalRow> rows, StructType schema) {
    LogicalRDD plan = SparkNodes.rows(session, schema, rows);
    plan.setAnalyzed();
    return Dataset.ofRows(session, plan);
  }
}
