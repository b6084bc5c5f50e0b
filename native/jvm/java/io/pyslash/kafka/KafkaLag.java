package io.pyslash.kafka;

import io.pyslash.backlog.BacklogStream;
import io.pyslash.shim.KafkaConnector;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec;
import scala.jdk.javaapi.CollectionConverters;

/** How many records of its topics a micro-batch has left for those behind it. */
public final class KafkaLag {
  private static final String MEAN = "avgOffsetsBehindLatest"; // of a topic's partitions, as the connector tells it

  private KafkaLag() {}

  /** Of all topics together, as of when Spark has last asked for their ends; -1 if the plan reads none. */
  public static long of(SparkPlan batch) {
    List<MicroBatchScanExec> scans =
        CollectionConverters.asJava(batch.collectLeaves()).stream()
            .filter(leaf -> leaf instanceof MicroBatchScanExec scan && reads(scan))
            .map(MicroBatchScanExec.class::cast)
            .toList();
    return scans.isEmpty() ? -1 : scans.stream().mapToLong(KafkaLag::behind).sum();
  }

  private static boolean reads(MicroBatchScanExec scan) {
    return KafkaConnector.reads(BacklogStream.inside(scan.stream())) && scan.stream() instanceof ReportsSourceMetrics;
  }

  private static long behind(MicroBatchScanExec scan) {
    String mean = ((ReportsSourceMetrics) scan.stream()).metrics(Optional.of(scan.end())).get(MEAN);
    return mean == null ? 0 : Math.round(Double.parseDouble(mean) * BacklogStream.partitions(scan.end()));
  }
}
