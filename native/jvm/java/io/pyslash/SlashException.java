package io.pyslash;

/**
 * Any failure of pyslash inside the JVM. The message starts with the status, so that it survives where Spark passes only
 * the text of an executor's exception on to the driver.
 */
public final class SlashException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** Agent could not be started; every other status is a name of the native core's {@code Status}. */
  public static final String AGENT_START = "agent_start";

  private final String status;

  public SlashException(String status, String message) {
    super(status + ": " + message);
    this.status = status;
  }

  public String status() {
    return status;
  }
}
