package io.pyslash.shim;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.StreamingQuery;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.Trigger;
import scala.Option;
import scala.Some;
import scala.Tuple2;
import scala.collection.immutable.Map;

/** The arguments of Spark's `StreamingQueryManager.startQuery`, which differ between releases, before it is called. */
public final class QueryStart {
  // Counted from the end: since 4.2 there is one more at the front.
  private static final int CHECKPOINT = 11;
  private static final int ROWS = 10;
  private static final int OPTIONS = 9;
  private static final int SINK = 8;
  private static final int OUTPUT_MODE = 7;
  private static final int TRIGGER = 4;
  private static final int CATALOG = 2;

  private final QueryManager manager;
  private final Object[] arguments;

  QueryStart(QueryManager manager, Object... arguments) {
    this.manager = manager;
    this.arguments = arguments;
  }

  /** The query's name; null if it has none. */
  public String name() {
    return stringOf((Option<?>) arguments[0]);
  }

  /** Its checkpoint location as the job has given it; null if it leaves that to Spark. */
  public String checkpoint() {
    return stringOf(this.<Option<?>>argument(CHECKPOINT));
  }

  public Dataset<Row> rows() {
    return argument(ROWS);
  }

  public SparkSession session() {
    return rows().sparkSession();
  }

  public Map<String, String> options() {
    return argument(OPTIONS);
  }

  public Table sink() {
    return argument(SINK);
  }

  public String sinkName() {
    Table sink = sink();
    return sink instanceof Sink ? sink.toString() : sink.name(); // V1 sinks have no other name
  }

  public OutputMode outputMode() {
    return argument(OUTPUT_MODE);
  }

  public Trigger trigger() {
    return argument(TRIGGER);
  }

  /** The sink as a table of a catalog, if it is one. */
  public Option<DataSourceV2Relation> relation() {
    Option<Tuple2<TableCatalog, Identifier>> catalog = argument(CATALOG);
    if (catalog.isEmpty()) {
      return Option.empty();
    }
    Tuple2<TableCatalog, Identifier> named = catalog.get();
    return new Some<>(DataSourceV2Relation.create(sink(), new Some<>(named._1()), new Some<>(named._2())));
  }

  /** The same start of other rows into another sink. */
  public QueryStart with(Dataset<Row> rows, Table sink) {
    Object[] changed = arguments.clone();
    changed[changed.length - ROWS] = rows;
    changed[changed.length - SINK] = sink;
    return new QueryStart(manager, changed);
  }

  /** Starts the query on Spark. Throws what Spark throws. */
  public StreamingQuery start() {
    return manager.start(arguments);
  }

  @SuppressWarnings("unchecked") // Spark declares them
  private <T> T argument(int fromEnd) {
    return (T) arguments[arguments.length - fromEnd];
  }

  private static String stringOf(Option<?> option) {
    Object value = option.isEmpty() ? null : option.get(); // of PySpark's option(name, None) it is there, and null
    return value == null ? null : value.toString();
  }
}
