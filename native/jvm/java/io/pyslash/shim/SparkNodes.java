package io.pyslash.shim;

import java.lang.reflect.Constructor;
import java.util.Arrays;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.exchange.ENSURE_REQUIREMENTS$;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.streaming.sources.WriteToMicroBatchDataSource;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/** Nodes of Spark's plans whose constructors take other parameters in other releases. */
public final class SparkNodes {
  private static final Constructor<?> LOGICAL_RDD = Member.constructor(LogicalRDD.class);
  private static final Constructor<?> WRITE = Member.constructor(WriteToMicroBatchDataSource.class);
  private static final Constructor<?> SHUFFLE = Member.constructor(ShuffleExchangeExec.class);

  private SparkNodes() {}

  /** Rows that an RDD gives; they are no stream. */
  public static LogicalRDD rows(SparkSession session, StructType schema, RDD<InternalRow> rows) {
    return make(
        LOGICAL_RDD,
        DataTypeUtils.toAttributes(schema),
        rows,
        new UnknownPartitioning(0),
        CollectionConverters.asScala(java.util.List.<SortOrder>of()).toSeq(),
        false,
        Option.empty(),
        session,
        Option.empty(), // statistics
        Option.empty(), // constraints
        false); // since 4.3: the rows are not those of a checkpoint
  }

  /** The rows of a physical plan, shuffled as an operator above them requires. */
  public static ShuffleExchangeExec shuffled(SparkPlan rows, Partitioning partitioning) {
    return make(SHUFFLE, partitioning, rows, ENSURE_REQUIREMENTS$.MODULE$, Option.empty(), false);
  }

  /** The write of a micro-batch, to a table that a catalog may have given a relation. */
  public static LogicalPlan write(
      Option<DataSourceV2Relation> relation,
      Table table,
      LogicalPlan rows,
      String queryId,
      Map<String, String> options,
      OutputMode mode,
      long batchId) {
    Option<Object> batch = new Some<>(batchId);
    if (WRITE.getParameterCount() == 7) { // before 4.3
      return Member.make(WRITE, relation, table, rows, queryId, options, mode, batch);
    }
    DataSourceV2Relation target =
        relation.isDefined() ? relation.get() : DataSourceV2Relation.create(table, Option.empty(), Option.empty());
    return Member.make(WRITE, target, rows, queryId, options, mode, batch);
  }

  /** Without the last arguments, where a release has no parameters for them. */
  private static <T> T make(Constructor<?> constructor, Object... newest) {
    return Member.make(constructor, Arrays.copyOf(newest, Math.min(newest.length, constructor.getParameterCount())));
  }
}
