package io.pyslash.ingest;

/**
 * What comes past Spark's readers.
 *
 * @param json whether native code reads the JSON that it is certain to read as Spark does
 * @param csv the same of CSV files
 * @param avro the same of `from_avro`
 * @param kafka whether records of topics come past Spark's reader
 */
public record Reads(boolean json, boolean csv, boolean avro, boolean kafka) {
  public static final Reads ALL = new Reads(true, true, true, true);

  boolean some() {
    return json || csv || avro || kafka;
  }
}
