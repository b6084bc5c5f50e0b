package io.pyslash.sink;

import io.pyslash.shim.RunningStream;
import io.pyslash.shim.SparkNodes;
import io.pyslash.shim.WriterSettings;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.sources.MemoryPlan;
import org.apache.spark.sql.execution.streaming.sources.MemorySink;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;
import scala.Some;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Where a job writes its rows: Spark's own sink, as {@link SinkOpening} has made it. A micro-batch is written as Spark's
 * `MicroBatchExecution` writes it, so that commit, abort and the skipping of a batch id that is already there are Spark's.
 */
public final class JobSink {
  private static final String QUERY_ID = "sql.streaming.queryId"; // Spark sets it on the thread that runs a query
  private static final long NOT_COUNTED = -1;

  private final WriterSettings writer;
  private final Table table;
  private final Map<String, String> options;
  private final OutputMode outputMode;
  private final Option<CatalogTable> catalogTable;
  private final Option<DataSourceV2Relation> relation;
  private final Option<Dataset<Row>> view;

  /** A V1 sink, which may stand for a table of the session's catalog, or a V2 table that no catalog names. */
  JobSink(WriterSettings writer, Table table, Map<String, String> options, Option<CatalogTable> catalogTable) {
    this(writer, table, options, catalogTable, Option.empty());
  }

  /** A V2 table of a catalog. */
  JobSink(WriterSettings writer, Table table, CatalogPlugin catalog, Identifier identifier) {
    this(
        writer,
        table,
        writer.options().originalMap(),
        Option.empty(),
        new Some<>(DataSourceV2Relation.create(table, new Some<>(catalog), new Some<>(identifier))));
  }

  private JobSink(
      WriterSettings writer,
      Table table,
      Map<String, String> options,
      Option<CatalogTable> catalogTable,
      Option<DataSourceV2Relation> relation) {
    this.writer = writer;
    this.table = table;
    this.options = options;
    this.outputMode = writer.outputMode();
    this.catalogTable = catalogTable;
    this.relation = relation;
    this.view = table instanceof MemorySink memory ? new Some<>(contents(memory)) : Option.empty();
  }

  /** Writes the rows of one micro-batch, inside that one's `foreachBatch`; how many, or -1 if the sink does not count. */
  public long write(long batchId, Dataset<Row> rows) {
    return table instanceof Sink sink ? addBatch(sink, batchId, rows) : writeEpoch(batchId, rows);
  }

  /** The query has started: the rows of a memory sink can be read under its name. */
  public void started(String queryName) {
    view.foreach(
        rows -> {
          rows.createOrReplaceTempView(queryName);
          return null;
        });
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
    catalogTable.foreach(
        written -> {
          writer.session().catalog().refreshTable(written.identifier().quotedString());
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
        SinkProgress.tell(RunningStream.of(writer.session()), done);
      }
      return done.commitProgress().get().numOutputRows();
    }
    return NOT_COUNTED;
  }

  private LogicalPlan writeOf(long batchId, Dataset<Row> rows) {
    String queryId = rows.sparkSession().sparkContext().getLocalProperty(QUERY_ID);
    return SparkNodes.write(relation, table, rows.queryExecution().analyzed(), queryId, options, outputMode, batchId);
  }

  private Dataset<Row> contents(MemorySink memory) {
    List<Attribute> columns = new ArrayList<>();
    for (Attribute column : CollectionConverters.asJava(DataTypeUtils.toAttributes(writer.rows().schema()))) {
      columns.add(column);
    }
    MemoryPlan plan = new MemoryPlan(memory, CollectionConverters.asScala(columns).toSeq());
    return Dataset.ofRows(writer.session(), plan);
  }
}
