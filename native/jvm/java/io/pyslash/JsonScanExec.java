package io.pyslash;

import io.pyslash.FileScan.OnlySpark;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.json.JsonFileFormat;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * Spark's scan of JSON files, its files read by {@link JsonFiles}: Spark's own choice of files and splits, partition and
 * metadata columns, and metrics.
 */
final class JsonScanExec extends SparkPlan {
  private static final long serialVersionUID = 1L;

  // Of options, in lower case: what chooses files, or matters only where a schema is inferred.
  private static final Set<String> HARMLESS =
      Set.of(
          "path", "paths", "basepath", "pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter",
          "maxfilespertrigger", "maxbytespertrigger", "maxfileage", "maxcachedfiles", "latestfirst", "filenameonly",
          "cleansource", "sourcearchivedir", "ignoremissingfiles", "samplingratio", "primitivesasstring",
          "prefersdecimal", "dropfieldifallnull", "infertimestamp", "__globpaths__");
  private static final String IGNORES_CORRUPT = "ignorecorruptfiles";
  private static final String MULTILINE = "multiline";
  private static final String ROWS = "numOutputRows";

  private final FileSourceScanExec spark;
  private final FileSourceScanExec scan; // the same with another format, and metrics that nobody looks at
  private final LongAccumulator leftToSpark;

  static boolean isJson(FileSourceScanExec scan) {
    return scan.relation().fileFormat().getClass() == JsonFileFormat.class;
  }

  /** @throws OnlySpark it depends on what is not known to be read alike */
  JsonScanExec(FileSourceScanExec spark, LongAccumulator leftToSpark) {
    this.spark = spark;
    this.leftToSpark = leftToSpark;
    List<Expression> filters = new ArrayList<>(CollectionConverters.asJava(spark.partitionFilters()));
    filters.addAll(CollectionConverters.asJava(spark.dataFilters()));
    if (filters.stream().anyMatch(SubqueryExpression::hasSubquery)) {
      throw new OnlySpark("what is read of JSON files follows from another table");
    }
    scan = natively(spark, new JsonFiles(schema(spark), leftToSpark));
  }

  private static byte[] schema(FileSourceScanExec scan) {
    SQLConf conf = scan.conf();
    Map<String, String> options = new java.util.HashMap<>();
    boolean ignoresCorrupt = conf.ignoreCorruptFiles();
    for (Map.Entry<String, String> option : CollectionConverters.asJava(scan.relation().options()).entrySet()) {
      String name = option.getKey().toLowerCase(Locale.ROOT);
      if (name.equals(IGNORES_CORRUPT)) {
        ignoresCorrupt = Boolean.parseBoolean(option.getValue().strip());
      } else if (!name.equals(MULTILINE) || !option.getValue().strip().equalsIgnoreCase("false")) {
        options.put(option.getKey(), option.getValue());
      }
    }
    if (ignoresCorrupt) {
      throw new OnlySpark("corrupt files are ignored (ignoreCorruptFiles): how much of one is read depends on the reader");
    }
    StructType columns = scan.requiredSchema();
    if (columns.isEmpty()) {
      throw new OnlySpark("no column of the JSON files is read");
    }
    return new JsonSchema("the JSON source", columns, options, HARMLESS, conf.sessionLocalTimeZone(), conf).text();
  }

  private static FileSourceScanExec natively(FileSourceScanExec spark, JsonFiles format) {
    HadoopFsRelation relation = spark.relation();
    HadoopFsRelation read =
        new HadoopFsRelation(
            relation.location(),
            relation.partitionSchema(),
            relation.dataSchema(),
            relation.bucketSpec(),
            format,
            relation.options(),
            relation.sparkSession());
    Object[] fields = new Object[spark.productArity()];
    for (int i = 0; i < fields.length; i++) {
      Object field = spark.productElement(i);
      fields[i] = field == relation ? read : field;
    }
    return (FileSourceScanExec) spark.makeCopy(fields);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    RDD<InternalRow> read = scan.inputRDDs().head();
    tellFiles();
    return read.mapPartitionsInternal(
        new OfPartition(spark.schema(), metrics().apply(ROWS)), true, ClassTag$.MODULE$.apply(InternalRow.class));
  }

  /** What the driver has found out about the files belongs to Spark's scan. */
  private void tellFiles() {
    List<SQLMetric> told = new ArrayList<>();
    for (Tuple2<String, SQLMetric> found : CollectionConverters.asJava(scan.metrics().toSeq())) {
      if (found._2().value() > 0) {
        SQLMetric metric = metrics().apply(found._1());
        metric.set(found._2().value());
        told.add(metric);
      }
    }
    SparkContext context = session().sparkContext();
    SQLMetrics.postDriverMetricUpdates(
        context, context.getLocalProperty("spark.sql.execution.id"), CollectionConverters.asScala(told).toSeq());
  }

  /** Rows of a task, as UnsafeRows: those with metadata columns are none yet. */
  private static final class OfPartition extends AbstractFunction1<Iterator<InternalRow>, Iterator<InternalRow>>
      implements Serializable {
    private static final long serialVersionUID = 1L;
    private final StructType schema;
    private final SQLMetric count;

    OfPartition(StructType schema, SQLMetric count) {
      this.schema = schema;
      this.count = count;
    }

    @Override
    public Iterator<InternalRow> apply(Iterator<InternalRow> rows) {
      UnsafeProjection unsafe = UnsafeProjection.create(schema);
      return new AbstractIterator<>() {
        @Override
        public boolean hasNext() {
          return rows.hasNext();
        }

        @Override
        public InternalRow next() {
          InternalRow row = rows.next();
          count.add(1);
          return row instanceof UnsafeRow ? row : unsafe.apply(row);
        }
      };
    }
  }

  @Override
  public scala.collection.immutable.Map<String, SQLMetric> metrics() {
    return spark.metrics();
  }

  @Override
  public Seq<Attribute> output() {
    return spark.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return spark.outputPartitioning();
  }

  @Override
  public Seq<SparkPlan> children() {
    return CollectionConverters.asScala(List.<SparkPlan>of()).toSeq();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return this;
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int index) {
    return index == 0 ? spark : leftToSpark;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof JsonScanExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof JsonScanExec exec && exec.spark.equals(spark);
  }

  @Override
  public int hashCode() {
    return spark.hashCode();
  }
}
