package io.pyslash.core;

import scala.Product;

/** The fields of Spark's nodes, in the order of their constructors. */
public final class Fields {
  private Fields() {}

  /**
   * Those of a node for its copy (`makeCopy`), but for some: {@code changes} has each of these, followed by what is to be in
   * its place.
   */
  public static Object[] of(Product node, Object... changes) {
    Object[] fields = new Object[node.productArity()];
    for (int i = 0; i < fields.length; i++) {
      fields[i] = node.productElement(i);
      for (int change = 0; change < changes.length; change += 2) {
        if (node.productElement(i) == changes[change]) {
          fields[i] = changes[change + 1];
        }
      }
    }
    return fields;
  }
}
