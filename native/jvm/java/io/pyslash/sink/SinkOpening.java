package io.pyslash.sink;

import io.pyslash.shim.SparkNodes;
import io.pyslash.shim.WriterSettings;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;
import org.apache.spark.sql.classic.DataStreamWriter;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.errors.QueryCompilationErrors;
import org.apache.spark.sql.execution.command.DDLUtils;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Utils;
import org.apache.spark.sql.execution.datasources.v2.FileDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.streaming.sources.ForeachWriterTable;
import org.apache.spark.sql.execution.streaming.sources.MemorySink;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.Some;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Makes the sink that a job's `start()` would make, by the same calls in the same order, and so refuses what Spark refuses
 * with Spark's own error.
 */
public final class SinkOpening {
  private final WriterSettings writer;
  private final String source;
  private final SQLConf conf;

  public SinkOpening(WriterSettings writer) {
    this.writer = writer;
    source = writer.source();
    conf = writer.state().conf();
  }

  /** The sink of `start(path)`, or of `start()` if the path is null. */
  public JobSink start(String path) {
    if (path != null && !conf.legacyPathOptionBehavior() && writer.options().contains("path")) {
      throw WriterSettings.thrown(QueryCompilationErrors.setPathOptionAndCallWithPathParameterError("start"));
    }
    return open(path, Option.empty());
  }

  /** The sink for rows of a table in the session's catalog, which lie at a path. */
  JobSink table(CatalogTable table, String path) {
    return open(path, new Some<>(table));
  }

  private JobSink open(String path, Option<CatalogTable> table) {
    if (source.toLowerCase(Locale.ROOT).equals(DDLUtils.HIVE_PROVIDER())) {
      throw WriterSettings.thrown(QueryCompilationErrors.cannotOperateOnHiveDataSourceFilesError("write"));
    }
    if (source.equals(DataStreamWriter.SOURCE_NAME_MEMORY())) {
      return new JobSink(writer, memory(), writer.options().originalMap(), table);
    }
    if (source.equals(DataStreamWriter.SOURCE_NAME_FOREACH())) {
      return new JobSink(writer, foreach(), writer.options().originalMap(), table);
    }
    CaseInsensitiveMap<String> options = path == null ? writer.options() : writer.options().updated("path", path);
    return new JobSink(writer, provided(options), options.originalMap(), table);
  }

  private Table memory() {
    writer.checkNotPartitioned(source);
    if (writer.options().get("queryName").isEmpty()) {
      throw WriterSettings.thrown(QueryCompilationErrors.queryNameNotSpecifiedForMemorySinkError());
    }
    return new MemorySink();
  }

  private Table foreach() {
    writer.checkNotPartitioned(source);
    return ForeachWriterTable.apply(writer.foreachWriter(), writer.foreachEncoder());
  }

  /** Of a data source: its V2 table if that takes streams, else its V1 sink. */
  private Table provided(CaseInsensitiveMap<String> options) {
    Class<?> type = DataSource.lookupDataSource(source, conf);
    boolean v2 =
        TableProvider.class.isAssignableFrom(type)
            && !FileDataSourceV2.class.isAssignableFrom(type) // Spark streams into files by V1 alone
            && !disabled(type);
    if (v2 && tableOf(provider(type), options) instanceof SupportsWrite table && takesStreams(table)) {
      return table;
    }
    return writer.makeV1Sink(options);
  }

  private boolean disabled(Class<?> type) {
    return Arrays.stream(conf.disabledV2StreamingWriters().split(","))
        .anyMatch(name -> name.trim().equals(type.getCanonicalName()));
  }

  private TableProvider provider(Class<?> type) {
    TableProvider provider = SparkNodes.provider(type);
    if (provider instanceof PythonDataSourceV2 python) {
      python.setShortName(source);
    }
    return provider;
  }

  private Table tableOf(TableProvider provider, CaseInsensitiveMap<String> options) {
    Map<String, String> all = new HashMap<>();
    CollectionConverters.asJava(DataSourceV2Utils.extractSessionConfigs(provider, conf))
        .forEach(
            (name, value) -> {
              if (!options.contains(name)) {
                all.put(name, value);
              }
            });
    all.putAll(CollectionConverters.asJava(options.originalMap()));
    Option<StructType> schema =
        provider.supportsExternalMetadata() ? new Some<>(writer.rows().schema()) : Option.empty();
    return DataSourceV2Utils.getTableFromProvider(provider, new CaseInsensitiveStringMap(all), schema);
  }

  static boolean takesStreams(Table table) {
    return table.capabilities().contains(TableCapability.STREAMING_WRITE);
  }
}
