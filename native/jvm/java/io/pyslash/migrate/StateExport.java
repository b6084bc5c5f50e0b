package io.pyslash.migrate;

import io.pyslash.catalyst.Projections;
import java.io.IOException;
import java.io.Serializable;
import java.util.Iterator;
import java.util.List;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;

/**
 * Writes rows into Spark's own state store, as the one version of it that there is.
 *
 * <p>The rows are partitioned as the store is. Spark's provider writes each partition as the first version of a store
 * below {@code staging}; the snapshot of it then gets the name of the wanted version.
 */
public final class StateExport implements Serializable {
  private static final long serialVersionUID = 1;
  private static final String STORE = "default";
  private static final long OPERATOR = 0;

  private final String staging;
  private final String target;
  private final long version;
  private final StructType key;
  private final StructType value;
  private final StateStoreConf conf;
  private final SerializableConfiguration hadoop;

  /**
   * @param target the folder of the query's state: its checkpoint's {@code state}
   * @param key the first columns of the rows; {@code value}: those behind them
   */
  public StateExport(
      SparkSession session, String staging, String target, long version, StructType key, StructType value) {
    this.staging = staging;
    this.target = target;
    this.version = version;
    this.key = key;
    this.value = value;
    var classic = (org.apache.spark.sql.classic.SparkSession) session;
    conf = new StateStoreConf(classic.sessionState().conf(), scala.collection.immutable.Map$.MODULE$.empty());
    Configuration settings = classic.sessionState().newHadoopConf();
    settings.set("sql.streaming.runId", UUID.randomUUID().toString());
    hadoop = new SerializableConfiguration(settings);
  }

  /** Rows that were written; every partition is, if only without rows. */
  public long write(Dataset<Row> rows) {
    var classic = (org.apache.spark.sql.classic.Dataset<Row>) rows;
    long sum = 0;
    for (long written :
        classic.queryExecution().toRdd().toJavaRDD().mapPartitionsWithIndex(this::written, true).collect()) {
      sum += written;
    }
    return sum;
  }

  private Iterator<Long> written(int partition, Iterator<InternalRow> rows) throws IOException {
    StateStoreId id = new StateStoreId(staging, OPERATOR, partition, STORE);
    StateStoreProvider provider = StateStoreProvider.createAndInit(new StateStoreProviderId(id, UUID.randomUUID()), key,
        value, new NoPrefixKeyStateEncoderSpec(key), false, conf, hadoop.value(), false, Option.empty());
    long count = 0;
    try {
      StateStore store = provider.getStore(0, Option.empty(), true, false);
      try {
        UnsafeProjection keys = UnsafeProjection.create(Projections.columns(key, 0));
        UnsafeProjection values = UnsafeProjection.create(Projections.columns(value, key.length()));
        while (rows.hasNext()) {
          InternalRow row = rows.next();
          store.put(keys.apply(row), values.apply(row), STORE);
          count++;
        }
        store.commit();
      } catch (RuntimeException failed) {
        store.abort();
        throw failed;
      }
    } finally {
      provider.close();
    }
    publish(partition);
    return List.of(count).iterator();
  }

  private void publish(int partition) throws IOException {
    String folder = "/" + OPERATOR + "/" + partition + "/";
    Path from = new Path(staging + folder);
    FileSystem files = from.getFileSystem(hadoop.value());
    Path to = new Path(target + folder);
    files.mkdirs(to);
    boolean found = false;
    for (var file : files.listStatus(from)) {
      String name = file.getPath().getName();
      if (name.startsWith("1.snapshot")) {
        found = true;
        Path named = new Path(to, version + name.substring(1));
        files.delete(named, false);
        if (!files.rename(file.getPath(), named)) {
          throw new IOException(file.getPath() + " cannot be renamed to " + named);
        }
      }
    }
    if (!found) {
      throw new IOException("this state store provider has written no snapshot of " + from);
    }
  }
}
