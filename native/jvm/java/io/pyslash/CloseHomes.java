package io.pyslash;

import org.apache.spark.api.java.function.VoidFunction;

/** A task that has its executor forget the groups that it keeps of a query. */
final class CloseHomes implements VoidFunction<Integer> {
  private static final long serialVersionUID = 1L;

  private final byte[] query;

  CloseHomes(byte[] query) {
    this.query = query;
  }

  @Override
  public void call(Integer task) {
    Native.closeHomes(query);
  }
}
