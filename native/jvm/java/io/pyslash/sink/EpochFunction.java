package io.pyslash.sink;

import org.apache.spark.SparkException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction;

/**
 * Python's function of epochs, in the form of its `foreachBatch` functions. What it raises comes through py4j as one text
 * with a traceback; Python says here first what it is instead.
 *
 * <p>One thread at a time: the query's, which waits while Python runs.
 */
public final class EpochFunction {
  private final PythonForeachBatchFunction python;
  private volatile Throwable failure;

  public EpochFunction(PythonForeachBatchFunction python) {
    this.python = python;
  }

  /** The micro-batch fails with what the JVM has thrown, as without pyslash. */
  public void fail(Throwable thrown) {
    failure = thrown;
  }

  /** The micro-batch fails with these words; the cause may be null. */
  public void fail(String words, Throwable cause) {
    failure = new SparkException(words, cause);
  }

  /** The micro-batch fails because its query was stopped. */
  public void stopped() {
    failure = new InterruptedException("the query was stopped");
  }

  /** Runs a micro-batch; throws why it has failed, or py4j's exception if Python has not said so. */
  void call(Dataset<Row> batch, long batchId) throws Throwable {
    failure = null;
    try {
      python.call(batch, batchId);
    } catch (RuntimeException raised) {
      throw failure != null ? failure : raised;
    }
  }
}
