package io.pyslash.sink;

import io.pyslash.shim.SparkNodes;
import io.pyslash.shim.WriterSettings;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.ColumnDefinition;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.CatalogV2Implicits$;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.V1Table;
import org.apache.spark.sql.connector.catalog.V2TableWithV1Fallback;
import org.apache.spark.sql.connector.expressions.ClusterByTransform;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.sql.execution.datasources.DataSourceUtils;
import org.apache.spark.sql.types.StructField;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Makes the sink that a job's `toTable(name)` would make, and the table itself where there is none, as Spark does. */
public final class TableOpening {
  private final WriterSettings writer;
  private final String name;
  private final ParserInterface parser;
  private final Seq<String> parts;

  public TableOpening(WriterSettings writer, String name) throws ParseException {
    this.writer = writer;
    this.name = name;
    parser = writer.state().sqlParser();
    parts = parser.parseMultipartIdentifier(name);
  }

  public JobSink open() {
    Tuple2<CatalogPlugin, Identifier> found = writer.state().analyzer().CatalogAndIdentifier().unapply(parts).get();
    if (writer.state().catalog().isTempView(parts)) {
      throw WriterSettings.thrown(QueryCompilationErrors.tempViewNotSupportStreamingWriteError(name));
    }
    TableCatalog catalog = CatalogV2Implicits$.MODULE$.CatalogHelper(found._1()).asTableCatalog();
    try {
      if (!catalog.tableExists(found._2())) {
        create();
      }
      return sinkOf(catalog, found._2(), catalog.loadTable(found._2()));
    } catch (Exception e) { // Scala throws checked ones without a word
      throw WriterSettings.thrown(e);
    }
  }

  private JobSink sinkOf(TableCatalog catalog, Identifier identifier, Table table) {
    if (table instanceof SupportsWrite && SinkOpening.takesStreams(table)) {
      return new JobSink(writer, table, catalog, identifier);
    }
    if (table instanceof V2TableWithV1Fallback fallback) {
      return v1(fallback.v1Table());
    }
    if (table instanceof V1Table v1) {
      return v1(v1.v1Table());
    }
    throw WriterSettings.thrown(QueryCompilationErrors.tableNotSupportStreamingWriteError(name, table));
  }

  private JobSink v1(CatalogTable table) {
    if (table.tableType().equals(CatalogTableType.VIEW())) {
      throw WriterSettings.thrown(QueryCompilationErrors.streamingIntoViewNotSupportedError(name));
    }
    String source = writer.source();
    if (!source.equals(table.provider().get())) {
      throw WriterSettings.thrown(
          QueryCompilationErrors.inputSourceDiffersFromDataSourceProviderError(source, name, table));
    }
    return new SinkOpening(writer).table(table, new Path(table.location()).toString());
  }

  private void create() {
    Option<Seq<String>> clustering = writer.clusteringColumns();
    Map<String, String> properties = Map.of();
    Transform[] layout = {};
    if (clustering.isDefined()) {
      String encoded = DataSourceUtils.encodePartitioningColumns(clustering.get());
      properties = Map.of(DataSourceUtils.CLUSTERING_COLUMNS_KEY(), encoded);
      layout = new Transform[] {clusterBy(clustering.get())};
    } else if (writer.partitionColumns().isDefined()) {
      layout = CatalogV2Implicits$.MODULE$.PartitionTypeHelper(writer.partitionColumns().get()).asTransforms();
    }
    List<ColumnDefinition> columns = new ArrayList<>();
    for (StructField field : writer.rows().schema().asNullable().fields()) {
      columns.add(ColumnDefinition.fromV1Column(field, parser));
    }
    UnresolvedIdentifier table = new UnresolvedIdentifier(parts, false);
    // A command runs at once.
    Dataset.ofRows(
        writer.session(),
        new CreateTable(table, seq(columns), seq(Arrays.asList(layout)), specification(properties), false));
  }

  private static Transform clusterBy(Seq<String> names) {
    List<NamedReference> columns = new ArrayList<>();
    for (String column : CollectionConverters.asJava(names)) {
      columns.add(Expressions.column(column));
    }
    return new ClusterByTransform(seq(columns));
  }

  private UnresolvedTableSpec specification(Map<String, String> properties) {
    scala.collection.immutable.Map<String, String> copied =
        scala.collection.immutable.Map.from(CollectionConverters.asScala(properties));
    return SparkNodes.tableSpec(copied, writer.source(), writer.options().get("path"));
  }

  private static <T> Seq<T> seq(List<T> values) {
    return CollectionConverters.asScala(values).toSeq();
  }
}
