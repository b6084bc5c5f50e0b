package io.pyslash.core;

/**
 * Any failure of pyslash inside the JVM. The message starts with the status.
 *
 * <p>It never leaves its task: the driver's threads that read results know nothing of an added jar, and where they cannot
 * find an exception's class Spark loses the whole report ("Unknown"). {@link #forDriver} makes the text of it.
 */
public final class SlashException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * Agent could not be started; every other status is a name of the native core's {@code Status}, or, of what an agent
   * says, of a class of `pyslash.errors`.
   */
  public static final String AGENT_START = "agent_start";

  private final String status;

  public SlashException(String status, String message) {
    super(status + ": " + message);
    this.status = status;
  }

  public String status() {
    return status;
  }

  /** The same failure in a class that every JVM has; its message starts with the name of this class. */
  public RuntimeException forDriver() {
    RuntimeException known = new IllegalStateException(toString());
    known.setStackTrace(getStackTrace());
    return known;
  }
}
