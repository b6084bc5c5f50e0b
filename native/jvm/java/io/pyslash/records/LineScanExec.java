package io.pyslash.records;

import io.pyslash.catalyst.OnlySpark;
import io.pyslash.core.Fields;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;
import scala.Tuple2;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction1;

/**
 * Spark's scan of text files, a record a line, read by {@link LineFiles}: Spark's own choice of files and splits, partition and
 * metadata columns, and metrics.
 */
public final class LineScanExec extends ScanInPlaceExec {
  private static final long serialVersionUID = 1L;

  private static final String ARCHIVES = "spark.sql.files.archive.reader.enabled"; // from 4.3 on

  private final FileSourceScanExec spark;
  private final LongAccumulator leftToSpark;
  private final LongAccumulator inPages;

  /**
   * `leftToSpark` and `inPages` count records.
   *
   * @throws OnlySpark it depends on what is not known to be read alike
   */
  public LineScanExec(FileSourceScanExec spark, LongAccumulator leftToSpark, LongAccumulator inPages) {
    super(spark);
    this.spark = spark;
    this.leftToSpark = leftToSpark;
    this.inPages = inPages;
    List<Expression> filters = new ArrayList<>(CollectionConverters.asJava(spark.partitionFilters()));
    filters.addAll(CollectionConverters.asJava(spark.dataFilters()));
    if (filters.stream().anyMatch(filter -> filter.containsPattern(TreePattern.PLAN_EXPRESSION()))) {
      throw new OnlySpark("what is read of files follows from another table");
    }
    StructType columns = spark.requiredSchema();
    if (columns.isEmpty()) {
      throw new OnlySpark("no column of the files is read");
    }
    if (Boolean.parseBoolean(spark.conf().getConfString(ARCHIVES, "false"))) {
      throw new OnlySpark("files may be archives (" + ARCHIVES + ")");
    }
    HadoopFsRelation relation = spark.relation();
    Map<String, String> options = CollectionConverters.asJava(relation.options());
    // Files are opened by the session that the source was made in, whose settings may change while the query runs.
    for (SQLConf conf : List.of(spark.conf(), relation.sparkSession().sessionState().conf())) {
      LineRecords.of(
          relation.fileFormat(), new LineRecords.Source(conf, relation.dataSchema(), columns, List.of(), options));
    }
  }

  /** The rows of a plan that are columns of files and nothing else, in pages as they are read; null for other plans. */
  public static RDD<InternalRow> pagesOf(SparkPlan plan) {
    List<Long> columns = ids(plan.output());
    SparkPlan node = plan;
    while (!(node instanceof LineScanExec scan)) {
      if (node instanceof ProjectExec project) {
        Map<Long, Long> sources = new HashMap<>();
        for (NamedExpression column : CollectionConverters.asJava(project.projectList())) {
          Expression source = column instanceof Alias alias ? alias.child() : (Expression) column;
          if (source instanceof Attribute attribute) {
            sources.put(column.exprId().id(), attribute.exprId().id());
          }
        }
        columns = columns.stream().map(sources::get).toList();
      } else if (!(node instanceof WholeStageCodegenExec || node instanceof InputAdapter)) {
        return null;
      }
      node = node.children().head();
    }
    return scan.pages(columns);
  }

  private static List<Long> ids(Seq<Attribute> columns) {
    return CollectionConverters.asJava(columns).stream().map(column -> column.exprId().id()).toList();
  }

  /** Null unless the wanted columns, by their ids, are those of the scan in some order. */
  private RDD<InternalRow> pages(List<Long> wanted) {
    List<Long> given = ids(spark.output());
    boolean isAll = wanted.size() == given.size() && Set.copyOf(given).equals(new HashSet<>(wanted));
    if (!isAll || given.size() != spark.requiredSchema().length() || spark.dataFilters().nonEmpty()) {
      return null;
    }
    List<Attribute> columns = new ArrayList<>();
    StructField[] fields = new StructField[wanted.size()];
    for (int i = 0; i < fields.length; i++) {
      int place = given.indexOf(wanted.get(i));
      columns.add(spark.output().apply(place));
      fields[i] = spark.requiredSchema().fields()[place];
    }
    return read(CollectionConverters.asScala(columns).toSeq(), new StructType(fields), true);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return read(spark.output(), spark.requiredSchema(), false);
  }

  private RDD<InternalRow> read(Seq<Attribute> output, StructType columns, boolean asPages) {
    LineFiles files = new LineFiles(spark.relation().fileFormat(), leftToSpark, asPages);
    FileSourceScanExec scan = natively(output, columns, files);
    RDD<InternalRow> read = scan.inputRDDs().head();
    tellFiles(scan);
    return read.mapPartitionsInternal(
        new OfPartition(asPages ? columns : spark.schema(), rows(), inPages),
        true,
        ClassTag$.MODULE$.apply(InternalRow.class));
  }

  /** Spark's scan with another format, perhaps its columns in another order, and metrics that nobody looks at. */
  private FileSourceScanExec natively(Seq<Attribute> output, StructType columns, LineFiles format) {
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
    Object[] fields = Fields.of(spark, relation, read, spark.output(), output, spark.requiredSchema(), columns);
    return (FileSourceScanExec) spark.makeCopy(fields);
  }

  /** What the driver has found out about the files belongs to Spark's scan. */
  private void tellFiles(FileSourceScanExec scan) {
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

  /** Rows of a task, as UnsafeRows, which those with metadata columns are not yet, or as pages. */
  private static final class OfPartition extends AbstractFunction1<Iterator<InternalRow>, Iterator<InternalRow>>
      implements Serializable {
    private static final long serialVersionUID = 1L;
    private final StructType schema;
    private final SQLMetric count;
    private final LongAccumulator inPages;

    OfPartition(StructType schema, SQLMetric count, LongAccumulator inPages) {
      this.schema = schema;
      this.count = count;
      this.inPages = inPages;
    }

    @Override
    @SuppressWarnings("unchecked")
    public Iterator<InternalRow> apply(Iterator<InternalRow> rows) {
      Iterator<?> found = rows;
      Iterator<Object> counted =
          new AbstractIterator<>() {
            private UnsafeProjection unsafe;

            @Override
            public boolean hasNext() {
              return found.hasNext();
            }

            @Override
            public Object next() {
              Object row = found.next();
              if (row instanceof LinePage page) {
                count.add(page.numRows());
                inPages.add((long) page.numRows());
                return page;
              }
              count.add(1);
              return row instanceof InternalRow one && !(one instanceof UnsafeRow) ? unsafe(one) : row;
            }

            private UnsafeRow unsafe(InternalRow row) {
              if (unsafe == null) {
                unsafe = UnsafeProjection.create(schema);
              }
              return unsafe.apply(row);
            }
          };
      return (Iterator<InternalRow>) (Iterator<?>) counted;
    }
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int index) {
    return List.of(spark, leftToSpark, inPages).get(index);
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof LineScanExec;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof LineScanExec exec && exec.spark.equals(spark);
  }

  @Override
  public int hashCode() {
    return spark.hashCode();
  }
}
