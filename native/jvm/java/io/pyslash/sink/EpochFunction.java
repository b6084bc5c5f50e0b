package io.pyslash.sink;

import org.apache.spark.SparkException;
import org.apache.spark.SparkThrowable;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction;

/**
 * The `foreachBatch` function of a query that is taken over. What Python raises comes through py4j as one text with a
 * traceback, which Spark presents as an error of the job's own function; Python says here first what it is instead.
 *
 * <p>One thread at a time: the query's, which waits while Python runs.
 */
public final class EpochFunction implements VoidFunction2<Dataset<Row>, Long> {
  private static final long serialVersionUID = 1L;
  private final transient PythonForeachBatchFunction python;
  private transient volatile Throwable failure;

  public EpochFunction(PythonForeachBatchFunction python) {
    this.python = python;
  }

  /** The micro-batch fails with what the JVM has thrown: Spark shows it as it would without pyslash. */
  public void fail(Throwable thrown) {
    // Of anything else than its own exceptions Spark says that the job's function has failed.
    failure = thrown instanceof SparkThrowable ? thrown : new SparkException(textOf(thrown), thrown);
  }

  /** The micro-batch fails with these words; the cause may be null. */
  public void fail(String words, Throwable cause) {
    failure = new SparkException(words, cause);
  }

  /** The micro-batch fails because its query was stopped. */
  public void stopped() {
    failure = new InterruptedException("the query was stopped");
  }

  @Override
  public void call(Dataset<Row> batch, Long batchId) throws Exception {
    failure = null;
    try {
      python.call(batch, batchId);
    } catch (RuntimeException raised) {
      Throwable told = failure;
      if (told instanceof Error error) {
        throw error;
      }
      throw told instanceof Exception exception ? exception : raised;
    }
  }

  private static String textOf(Throwable thrown) {
    return thrown.getMessage() != null ? thrown.getMessage() : thrown.toString();
  }
}
