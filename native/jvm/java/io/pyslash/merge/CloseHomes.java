package io.pyslash.merge;

import io.pyslash.core.Native;
import org.apache.spark.api.java.function.VoidFunction;

/** A task that has its executor forget the groups that it keeps of a query. */
public final class CloseHomes implements VoidFunction<Integer> {
  private static final long serialVersionUID = 1L;

  private final byte[] query;

  public CloseHomes(byte[] query) {
    this.query = query;
  }

  @Override
  public void call(Integer task) {
    Native.closeHomes(query);
  }
}
