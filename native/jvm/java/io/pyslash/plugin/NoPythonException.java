package io.pyslash.plugin;

/** There is no Python that could run epochs; the message says why, and what to do. */
final class NoPythonException extends Exception {
  private static final long serialVersionUID = 1L;

  NoPythonException(String message, Throwable cause) {
    super(message, cause);
  }
}
