package io.pyslash.migrate;

import java.io.IOException;
import java.io.Serializable;
import java.util.UUID;
import java.util.function.ToLongFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Option;

/**
 * Spark's own state stores of a query that has stopped, written by Spark's provider: of each partition one version.
 *
 * <p>RocksDB's provider begins with any version. Spark's default one does not: it writes each partition as the first
 * version of a store below {@code staging}, and the snapshot of it then gets the name of the wanted version.
 */
public final class StateStores implements Serializable {
  static final String STORE = StateStore.DEFAULT_COL_FAMILY_NAME();
  private static final long serialVersionUID = 1;
  private static final long OPERATOR = 0;

  private final String staging;
  private final String target;
  private final long version;
  final transient SQLConf settings; // the driver's
  private final StateStoreConf conf;
  private final SerializableConfiguration hadoop;

  /** @param target the folder of the query's state: its checkpoint's {@code state} */
  public StateStores(SparkSession session, String staging, String target, long version) {
    this.staging = staging;
    this.target = target;
    this.version = version;
    var classic = (org.apache.spark.sql.classic.SparkSession) session;
    settings = classic.sessionState().conf();
    conf = new StateStoreConf(settings, scala.collection.immutable.Map$.MODULE$.empty());
    Configuration files = classic.sessionState().newHadoopConf();
    files.set("sql.streaming.runId", UUID.randomUUID().toString());
    hadoop = new SerializableConfiguration(files);
  }

  /**
   * Writes the store of a partition. Returns what {@code content} does, which puts the state into it.
   *
   * @param families whether it has column families beside the default one, in which a key may have many values
   */
  long write(int partition, StructType key, StructType value, boolean families, ToLongFunction<StateStore> content)
      throws IOException {
    boolean begins = conf.providerClass().equals(RocksDBStateStoreProvider.class.getName());
    StateStoreId id = new StateStoreId(begins ? target : staging, OPERATOR, partition, STORE);
    StateStoreProvider provider = StateStoreProvider.createAndInit(new StateStoreProviderId(id, UUID.randomUUID()), key,
        value, new NoPrefixKeyStateEncoderSpec(key), families, conf, hadoop.value(), families, Option.empty());
    long written;
    try {
      StateStore store = provider.getStore(begins ? version - 1 : 0, Option.empty(), true, begins);
      try {
        written = content.applyAsLong(store);
        store.commit();
      } catch (Throwable failed) { // Scala's checked ones included; a provider waits for a store that is neither
        abort(store, failed);
        throw failed;
      }
    } finally {
      provider.close();
    }
    if (!begins) {
      publish("/" + OPERATOR + "/" + partition + "/");
    }
    return written;
  }

  /** Deletes what is left of the folder in which Spark's default provider writes. */
  public void clean() throws IOException {
    Path folder = new Path(staging);
    folder.getFileSystem(hadoop.value()).delete(folder, true);
  }

  private static void abort(StateStore store, Throwable cause) {
    try {
      store.abort();
    } catch (RuntimeException another) {
      cause.addSuppressed(another);
    }
  }

  private void publish(String folder) throws IOException {
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
