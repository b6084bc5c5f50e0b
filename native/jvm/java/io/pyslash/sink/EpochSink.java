package io.pyslash.sink;

import io.pyslash.shim.SparkShim;
import org.apache.spark.SparkException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.streaming.Sink;
import py4j.Py4JException;

/**
 * The sink of a query that pyslash runs, in the place of the job's. Spark hands it each micro-batch planned and not
 * executed, and shows the job's sink in the query's progress.
 */
public final class EpochSink implements Sink {
  private final EpochFunction epochs;
  private final Table jobs;

  public EpochSink(EpochFunction epochs, Table jobs) {
    this.epochs = epochs;
    this.jobs = jobs;
  }

  @Override
  public void addBatch(long batchId, Dataset<Row> batch) {
    try {
      epochs.call(batch, batchId);
    } catch (Py4JException unsaid) { // whatever Python raises it says first
      throw SparkShim.thrown(
          new SparkException(
              "the Python process of pyslash has ended while it ran a micro-batch. Start the query again: it continues"
                  + " from its checkpoint",
              unsaid));
    } catch (Throwable failure) { // Scala declares none
      throw SparkShim.thrown(failure);
    }
  }

  @Override
  public String name() {
    return jobs.name();
  }

  @Override
  public String toString() {
    return jobs.toString();
  }
}
