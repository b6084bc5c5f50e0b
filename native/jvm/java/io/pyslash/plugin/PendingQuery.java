package io.pyslash.plugin;

import io.pyslash.shim.QueryStart;
import io.pyslash.shim.SparkShim;
import io.pyslash.sink.EpochFunction;
import io.pyslash.sink.EpochSink;
import io.pyslash.sink.JobSink;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.StreamingQuery;
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction;
import org.apache.spark.sql.streaming.Trigger;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A query that is about to start, as Python sees it. Python calls {@link #onSpark} or {@link #onSlash} once, or says
 * why it does neither. py4j makes text of whatever Python raises, so what Spark has thrown is kept here.
 */
public final class PendingQuery {
  private final QueryStart start;
  private StreamingQuery query;
  private Throwable failure;

  PendingQuery(QueryStart start) {
    this.start = start;
  }

  public SparkSession session() {
    return start.session();
  }

  public Dataset<Row> rows() {
    return start.rows();
  }

  public String name() {
    return start.name();
  }

  public String checkpoint() {
    return start.checkpoint();
  }

  /** As the job spells them. */
  public Map<String, String> options() {
    return CollectionConverters.asJava(start.options());
  }

  public String outputMode() {
    return start.outputMode().toString();
  }

  public Trigger trigger() {
    return start.trigger();
  }

  /** What the sink calls itself. */
  public String sinkName() {
    return start.sinkName();
  }

  public JobSink sink() {
    return new JobSink(start);
  }

  /** Starts the query as Spark would have. */
  public StreamingQuery onSpark() {
    return started(start);
  }

  /** Python's function of epochs, as Spark calls it. */
  public EpochFunction epochs(PythonForeachBatchFunction python) {
    return new EpochFunction(python);
  }

  /** Starts the query with these rows, its micro-batches run by this function. */
  public StreamingQuery onSlash(Dataset<Row> rows, EpochFunction epochs) {
    return started(start.with(rows, new EpochSink(epochs, start.sink())));
  }

  /** The query does not start, because of its settings. */
  public void refuseSettings(String words) {
    failure = new IllegalArgumentException(words);
  }

  /** The query does not start. What Spark has thrown says more. */
  public void refuse(String words) {
    failure = failure == null ? new UnsupportedOperationException(words) : failure;
  }

  private StreamingQuery started(QueryStart start) {
    try {
      query = start.start();
      return query;
    } catch (Throwable sparks) {
      failure = sparks;
      throw SparkShim.thrown(sparks);
    }
  }

  /** The query that Python has started. */
  StreamingQuery decidedBy(Consumer<PendingQuery> python) {
    try {
      python.accept(this);
    } catch (RuntimeException raised) { // by py4j; the reason is here
      if (failure != null) {
        throw SparkShim.thrown(failure);
      }
      if (query == null) {
        throw new IllegalStateException(
            "the Python process of pyslash has failed while the query started; start it again", raised);
      }
    }
    return query;
  }
}
