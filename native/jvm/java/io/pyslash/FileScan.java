package io.pyslash;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructField;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a micro-batch reads, told to those who would read it without Spark: Parquet files, columns, and filters that mean
 * the same everywhere. Anything else under the aggregation is a reason to leave the reading to Spark.
 */
final class FileScan {
  private static final String WATERMARK = "EventTimeWatermarkExec"; // its package differs between Spark's releases
  private static final String FIELD_ID = "parquet.field.id";

  /** The reason why only Spark can read this. */
  static final class OnlySpark extends RuntimeException {
    private static final long serialVersionUID = 1L;

    OnlySpark(String reason) {
      super(reason, null, false, false);
    }
  }

  private final ScanPath path = new ScanPath();

  /**
   * JSON: `columns` (name and Spark type, in the order of the plan's output), `filters` below
   * the watermark and `late_filters` above it, and `partitions` of files
   * (path, start, length in bytes), of which row groups may be skipped by their statistics if `skips` is true, as
   * Spark would; or `reason` alone.
   */
  static String describe(SparkPlan plan) {
    Map<String, Object> found;
    try {
      found = new FileScan().describeScan(plan);
    } catch (OnlySpark reason) {
      found = Map.of("reason", reason.getMessage());
    }
    try {
      return new ObjectMapper().writeValueAsString(found);
    } catch (JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  private Map<String, Object> describeScan(SparkPlan plan) {
    FileSourceScanExec scan = findScan(plan);
    if (scan.relation().fileFormat().getClass() != ParquetFileFormat.class) {
      throw new OnlySpark("the files are not plain Parquet");
    }
    Map<Long, String> names = path.names(columnNames(scan));
    return Map.of(
        "columns", ScanPath.columns(plan.output(), names),
        "filters", path.filters(names),
        "late_filters", path.lateFilters(names),
        "partitions", partitions(scan),
        "skips", scan.conf().parquetFilterPushDown());
  }

  private FileSourceScanExec findScan(SparkPlan plan) {
    SparkPlan node = plan;
    while (!(node instanceof FileSourceScanExec)) {
      if (node instanceof ProjectExec project) {
        path.project(project.projectList());
      } else if (node instanceof FilterExec filter) {
        path.filter(filter.condition());
      } else if (node.getClass().getSimpleName().equals(WATERMARK)) {
        path.watermark();
      } else if (!(node instanceof WholeStageCodegenExec
          || node instanceof InputAdapter
          || node instanceof ColumnarToRowExec)) {
        throw path.obstacle(node.nodeName());
      }
      node = node.children().head();
    }
    path.end();
    return (FileSourceScanExec) node;
  }

  /** The files' columns that the scan gives, by the ids of its attributes. */
  private static Map<Long, String> columnNames(FileSourceScanExec scan) {
    Map<String, StructField> required = new HashMap<>();
    for (StructField field : scan.requiredSchema().fields()) {
      if (field.metadata().contains(FIELD_ID)) {
        throw new OnlySpark("columns are found by field id");
      }
      required.put(field.name(), field);
    }
    Map<Long, String> names = new HashMap<>();
    for (Attribute attribute : CollectionConverters.asJava(scan.output())) {
      if (required.containsKey(attribute.name())) {
        names.put(attribute.exprId().id(), attribute.name());
      }
    }
    return names;
  }

  private static List<Object> partitions(FileSourceScanExec scan) {
    if (!(scan.inputRDDs().head() instanceof FileScanRDD files)) {
      throw new OnlySpark("its files are not read by FileScanRDD");
    }
    List<Object> partitions = new ArrayList<>();
    for (FilePartition partition : CollectionConverters.asJava(files.filePartitions())) {
      List<Object> splits = new ArrayList<>();
      for (PartitionedFile file : partition.files()) {
        splits.add(List.of(file.toPath().toString(), file.start(), file.length()));
      }
      partitions.add(splits);
    }
    return partitions;
  }
}
