package io.pyslash.sink;

import io.pyslash.shim.QueryStart;
import io.pyslash.shim.RunningStream;
import io.pyslash.shim.SparkNodes;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;
import scala.collection.immutable.Map;

/**
 * Where a job writes its rows: Spark's own sink, of a query that Spark is about to start; Spark looks after its table and
 * its view. A micro-batch is written as Spark's `MicroBatchExecution` writes it, so that commit, abort and the skipping of a
 * batch id that is already there are Spark's.
 */
public final class JobSink {
  private static final String QUERY_ID = "sql.streaming.queryId"; // Spark sets it on the thread that runs a query
  private static final long NOT_COUNTED = -1;

  private final SparkSession session;
  private final OutputMode outputMode;
  private final Table table;
  private final Map<String, String> options;
  private final Option<DataSourceV2Relation> relation;

  public JobSink(QueryStart start) {
    session = start.session();
    outputMode = start.outputMode();
    table = start.sink();
    options = start.options();
    relation = start.relation();
  }

  /** Whether it is the job's own function, which writes where it likes. */
  public boolean isFunction() {
    return table instanceof ForeachBatchSink;
  }

  /** Writes the rows of one micro-batch, inside that one's `addBatch`; how many, or -1 if the sink does not count. */
  public long write(long batchId, Dataset<Row> rows) {
    if (table instanceof ForeachBatchSink<?> function) {
      function.addBatch(batchId, rows); // the jobs that it runs are executions of their own
      return NOT_COUNTED;
    }
    return table instanceof Sink sink ? addBatch(sink, batchId, rows) : writeEpoch(batchId, executed(rows));
  }

  @Override
  public String toString() {
    return table.toString();
  }

  private long addBatch(Sink sink, long batchId, Dataset<Row> rows) {
    // An execution of its own: the batch's has another plan, and the metrics of these rows belong to this one.
    SQLExecution.withNewExecutionId(
        rows.queryExecution(),
        Option.empty(),
        () -> {
          sink.addBatch(batchId, rows);
          return null;
        });
    return NOT_COUNTED;
  }

  private long writeEpoch(long batchId, Dataset<Row> rows) {
    QueryExecution execution = SinkWrite.of(rows.sparkSession(), writeOf(batchId, rows));
    SparkPlan plan = execution.executedPlan();
    SQLExecution.withNewExecutionId(execution, Option.empty(), plan::executeCollect); // a write has no rows
    if (plan instanceof WriteToDataSourceV2Exec done && done.commitProgress().isDefined()) {
      if (rows.sparkSession().sparkContext().getLocalProperty(QUERY_ID) != null) { // else no query asks
        SinkProgress.tell(RunningStream.of(session), done);
      }
      return done.commitProgress().get().numOutputRows();
    }
    return NOT_COUNTED;
  }

  private LogicalPlan writeOf(long batchId, Dataset<Row> rows) {
    String queryId = rows.sparkSession().sparkContext().getLocalProperty(QUERY_ID);
    return SparkNodes.write(relation, table, rows.queryExecution().analyzed(), queryId, options, outputMode, batchId);
  }

  /** The rows of a micro-batch that Spark has planned as a stream, which planned once more it would not understand. */
  private static Dataset<Row> executed(Dataset<Row> rows) {
    if (!rows.isStreaming()) {
      return rows;
    }
    RDD<InternalRow> executed = rows.queryExecution().toRdd();
    return Dataset.ofRows(rows.sparkSession(), SparkNodes.rows(rows.sparkSession(), rows.schema(), executed));
  }
}
