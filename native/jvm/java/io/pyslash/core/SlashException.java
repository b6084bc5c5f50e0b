package io.pyslash.core;

/**
 * Any failure of pyslash inside the JVM. The message starts with the class of `pyslash.errors` that the driver raises.
 *
 * <p>It never leaves its task: the driver's threads that read results know nothing of an added jar, and where they cannot
 * find an exception's class Spark loses the whole report ("Unknown"). {@link #forDriver} makes the text of it.
 */
public final class SlashException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  public SlashException(String errorClass, String message) {
    super(errorClass + ": " + message);
  }

  /** The same failure in a class that every JVM has; its message starts with the name of this class. */
  public RuntimeException forDriver() {
    RuntimeException known = new IllegalStateException(toString());
    known.setStackTrace(getStackTrace());
    return known;
  }
}
