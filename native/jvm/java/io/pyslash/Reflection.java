package io.pyslash;

/** Calls of Spark's methods whose classes have other names, or other packages, in other releases. */
final class Reflection {
  private Reflection() {}

  /** What a public method without parameters gives. */
  static Object call(Object object, String method) {
    try {
      return object.getClass().getMethod(method).invoke(object);
    } catch (ReflectiveOperationException unknown) {
      throw new IllegalStateException(unknown);
    }
  }
}
