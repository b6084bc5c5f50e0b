package io.pyslash.logs;

import java.io.IOException;

/** Throws the exceptions of files through methods that Scala has declared without any. */
final class Unchecked {
  interface Body {
    void run() throws IOException;
  }

  interface Value<T> {
    T call() throws IOException;
  }

  private Unchecked() {}

  static void run(Body body) {
    try {
      body.run();
    } catch (IOException error) {
      throw as(error);
    }
  }

  static <T> T call(Value<T> value) {
    try {
      return value.call();
    } catch (IOException error) {
      throw as(error);
    }
  }

  @SuppressWarnings("unchecked")
  private static <E extends Throwable> RuntimeException as(Throwable error) throws E {
    throw (E) error;
  }
}
