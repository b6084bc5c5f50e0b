package io.pyslash.plugin;

import java.security.SecureRandom;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;
import java.util.function.Consumer;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.classic.SparkSession;

/** What the Python process beside the driver finds when it has come in. */
public final class Door {
  private static final byte[] SECRET = new byte[32];

  static {
    new SecureRandom().nextBytes(SECRET);
  }

  private final SparkContext spark;
  private final SparkSession session;
  private final CompletableFuture<Answering> answering;

  Door(SparkContext spark, SparkSession session, CompletableFuture<Answering> answering) {
    this.spark = spark;
    this.session = session;
    this.answering = answering;
  }

  public JavaSparkContext context() {
    return JavaSparkContext.fromSparkContext(spark);
  }

  /** That of all agents, in hexadecimal digits: they live as long as this JVM, whichever process asks them. */
  public String secret() {
    return HexFormat.of().formatHex(SECRET);
  }

  /** One of the application's. */
  public SparkSession session() {
    return session;
  }

  /** Python is asked from now on: to start queries, for the figures of one's epochs, as JSON, by its run, and by clients. */
  public void answer(
      Consumer<PendingQuery> starts, Function<String, String> figures, Consumer<Question> questions) {
    answering.complete(new Answering(starts, figures, questions));
  }

  /** Python is of no use here. */
  public void refuse(String reason) {
    answering.completeExceptionally(new NoPythonException(reason, null));
  }
}
