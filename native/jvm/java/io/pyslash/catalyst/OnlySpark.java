package io.pyslash.catalyst;

/** The reason why only Spark can do this. */
public final class OnlySpark extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public OnlySpark(String reason) {
    super(reason, null, false, false);
  }
}
