package io.pyslash.plugin;

import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/**
 * What a client asks that has no Python with pyslash in the driver, as Python sees it. Python answers once, or says why
 * it does not.
 */
public final class Question {
  private final SparkSession session;
  private final String kind;
  private final Map<String, String> words;
  private final Dataset<Row> rows;
  private Object answer;
  private RuntimeException refusal;

  /** {@code rows}: what is asked about; null if that is in the words. */
  Question(SparkSession session, String kind, Map<String, String> words, Dataset<Row> rows) {
    this.session = session;
    this.kind = kind;
    this.words = words;
    this.rows = rows;
  }

  public SparkSession session() {
    return session;
  }

  public String kind() {
    return kind;
  }

  public Map<String, String> words() {
    return words;
  }

  public Dataset<Row> rows() {
    return rows;
  }

  /** A text or a dataset. */
  public void answer(Object given) {
    answer = given;
  }

  /** There is no answer. */
  public void refuse(String words) {
    refusal = new IllegalArgumentException(words);
  }

  Object answered() {
    if (refusal != null) {
      throw refusal;
    }
    return answer;
  }
}
