package io.pyslash.migrate;

import io.pyslash.catalyst.Projections;
import java.io.IOException;
import java.io.Serializable;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.types.StructType;

/** Writes rows of keys and values into Spark's own state stores. The rows are partitioned as the stores are. */
public final class StateExport implements Serializable {
  private static final long serialVersionUID = 1;

  private final StateStores stores;
  private final StructType key;
  private final StructType value;

  /** {@code key}: the first columns of the rows; {@code value}: those behind them. */
  public StateExport(StateStores stores, StructType key, StructType value) {
    this.stores = stores;
    this.key = key;
    this.value = value;
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
    return List.of(stores.write(partition, key, value, false, store -> put(store, rows))).iterator();
  }

  private long put(StateStore store, Iterator<InternalRow> rows) {
    UnsafeProjection keys = UnsafeProjection.create(Projections.columns(key, 0));
    UnsafeProjection values = UnsafeProjection.create(Projections.columns(value, key.length()));
    long count = 0;
    while (rows.hasNext()) {
      InternalRow row = rows.next();
      store.put(keys.apply(row), values.apply(row), StateStores.STORE);
      count++;
    }
    return count;
  }
}
