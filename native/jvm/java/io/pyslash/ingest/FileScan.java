package io.pyslash.ingest;

import io.pyslash.catalyst.OnlySpark;
import io.pyslash.core.Json;
import io.pyslash.shim.Watermark;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.FilterExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec;
import org.apache.spark.sql.types.StructField;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What a micro-batch reads, told to those who would read it without Spark: Parquet files, columns, and filters that mean
 * the same everywhere. Anything else under the aggregation is a reason to leave the reading to Spark.
 */
public final class FileScan {
  private static final String FIELD_ID = "parquet.field.id";
  private static final String VERIFY_CHECKSUM = "parquet.page.verify-checksum.enabled";

  private final SparkPlan plan;
  private final ScanPath path = new ScanPath();
  private final List<StaticJoin> joins = new ArrayList<>();
  private FileSourceScanExec scan;

  public FileScan(SparkPlan plan) {
    this.plan = plan;
  }

  /**
   * What to read, if the files have at least so many bytes: a job of its own would take longer than Spark over fewer.
   *
   * <p>JSON: `columns` (name and Spark type, in the order of the plan's output; no name: the moment 0 in every row), `time`
   * (name and type of the event time that has a watermark, or nothing), `filters` below the watermark and
   * `late_filters` above it, `joins` from the top down, and `partitions` of files (path, start, length in bytes), of
   * which row groups may be skipped by their statistics if `skips` is true, as Spark would; or `reason` alone. A column
   * `1.2` is the third of the second join's table.
   */
  public String describe(long leastBytes) {
    Map<String, Object> found;
    try {
      found = describeScan(leastBytes);
    } catch (OnlySpark reason) {
      found = Map.of("reason", reason.getMessage());
    }
    return Json.of(found);
  }

  /** The static table of a join, with the columns that the description has. */
  public StaticTable table(SparkSession session, int join) {
    return new StaticTable(session, joins.get(join).logical());
  }

  /** Rows that others have read belong to the scan. */
  public void count(long rows) {
    scan.metrics().apply("numOutputRows").add(rows);
  }

  private Map<String, Object> describeScan(long leastBytes) {
    findScan();
    if (scan.relation().location().sizeInBytes() < leastBytes) {
      throw new OnlySpark("its files are small (spark.slash.ingest.filesMinBytes)");
    }
    if (scan.relation().fileFormat().getClass() != ParquetFileFormat.class) {
      throw new OnlySpark("the files are not plain Parquet");
    }
    if (ignoresCorruptFiles()) {
      throw new OnlySpark("corrupt files are ignored (ignoreCorruptFiles): which ones are, depends on the reader");
    }
    if (verifiesChecksums()) {
      throw new OnlySpark("pages are checked against their checksums (" + VERIFY_CHECKSUM + ")");
    }
    Map<Long, String> ofFiles = columnNames(scan);
    Map<Long, String> names = path.names(ofFiles);
    return Map.of(
        "columns", ScanPath.columns(plan.output(), path.namesOfAll(ofFiles)),
        "time", path.time(names),
        "filters", path.filters(names),
        "late_filters", path.lateFilters(names),
        "joins", joins.stream().map(join -> join.describe(new FilterText(names))).toList(),
        "partitions", partitions(scan),
        "skips", scan.conf().parquetFilterPushDown(),
        "converts_int96", scan.conf().isParquetINT96TimestampConversion());
  }

  private boolean ignoresCorruptFiles() {
    String option = option("ignoreCorruptFiles");
    return option == null ? scan.conf().ignoreCorruptFiles() : Boolean.parseBoolean(option.strip());
  }

  /** Hadoop's configuration as the reader sees it: under the session's settings, and those under the options. */
  private boolean verifiesChecksums() {
    String option = option(VERIFY_CHECKSUM);
    String ofCluster = scan.sparkContext().hadoopConfiguration().get(VERIFY_CHECKSUM);
    return Boolean.parseBoolean(option == null ? scan.conf().getConfString(VERIFY_CHECKSUM, ofCluster) : option);
  }

  private String option(String name) {
    return CollectionConverters.asJava(scan.relation().options()).entrySet().stream()
        .filter(option -> option.getKey().equalsIgnoreCase(name))
        .map(Map.Entry::getValue)
        .findFirst()
        .orElse(null);
  }

  private void findScan() {
    SparkPlan node = plan;
    while (!(node instanceof FileSourceScanExec found)) {
      if (node instanceof ProjectExec project) {
        path.project(project.projectList());
      } else if (node instanceof FilterExec filter) {
        path.filter(filter.condition());
      } else if (Watermark.is(node)) {
        path.watermark(node);
      } else if (node instanceof BroadcastHashJoinExec broadcast) {
        StaticJoin join = new StaticJoin(broadcast, path);
        joins.add(join);
        node = join.stream();
        continue;
      } else if (node instanceof AdaptiveSparkPlanExec adaptive) {
        node = adaptive.executedPlan();
        continue;
      } else if (node instanceof QueryStageExec stage) {
        node = stage.plan();
        continue;
      } else if (!(node instanceof WholeStageCodegenExec
          || node instanceof InputAdapter
          || node instanceof ColumnarToRowExec)) {
        throw path.obstacle(node.nodeName());
      }
      node = node.children().head();
    }
    path.end();
    scan = found;
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
    for (Expression filter : CollectionConverters.asJava(scan.partitionFilters())) {
      if (filter.containsPattern(TreePattern.PLAN_EXPRESSION())) {
        throw new OnlySpark("which files it reads follows from another table");
      }
    }
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
