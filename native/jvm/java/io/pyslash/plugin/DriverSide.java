package io.pyslash.plugin;

import io.pyslash.core.SlashException;
import io.pyslash.shim.LogFiles;
import io.pyslash.shim.QueryStart;
import io.pyslash.shim.SparkShim;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.StreamingQuery;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * The driver's side, one for an application: the plugin, or what `pyslash.enable` makes without it. It asks Python of each
 * query that starts: the job's own, if that has enabled pyslash, or else a process of its own beside this one.
 */
public final class DriverSide implements DriverPlugin {
  private static final Logger LOGGER = LoggerFactory.getLogger("pyslash");
  private static final String EXTENSIONS = "spark.sql.extensions";
  private static final String CONNECT_RELATIONS = "spark.connect.extensions.relation.classes";
  private static final String CLIENT_QUESTIONS = "io.pyslash.connect.ClientQuestions";
  private static final String MODE = "spark.slash.mode";
  private static volatile DriverSide current;

  private final ThreadLocal<AtomicReference<PendingQuery>> looking = new ThreadLocal<>();
  private SparkContext spark;
  private Consumer<PendingQuery> jobsPython;
  private boolean isDisabled;
  private SideCar sideCar;

  /** That of the running application; null if it has none. */
  public static DriverSide current() {
    return current;
  }

  /** That of this application, which need not have named the plugin. */
  public static synchronized DriverSide of(SparkContext context) {
    if (current == null || current.spark != context) {
      DriverSide made = new DriverSide();
      made.spark = context;
      made.isDisabled = true; // until somebody answers
      current = made;
    }
    return current;
  }

  @Override
  public Map<String, String> init(SparkContext context, PluginContext plugin) {
    spark = context;
    try {
      SparkShim.check();
    } catch (SlashException unknownSpark) {
      if (spelled(context.conf().get(MODE, "auto")).equals("require")) {
        throw unknownSpark;
      }
      LOGGER.warn("all queries stay on plain Spark: {}", unknownSpark.getMessage());
      return Map.of();
    }
    LogFiles.install(context);
    add(context.conf(), EXTENSIONS, Extensions.class.getName());
    add(context.conf(), CONNECT_RELATIONS, CLIENT_QUESTIONS); // by name: an application need not have Spark Connect
    current = this;
    return Map.of();
  }

  private static void add(SparkConf conf, String key, String ours) {
    String others = conf.get(key, "");
    conf.set(key, others.isEmpty() ? ours : others + "," + ours);
  }

  @Override
  public void shutdown() {
    if (current == this) {
      current = null;
    }
    synchronized (this) {
      if (sideCar != null) {
        sideCar.close();
      }
    }
  }

  /** The job's own Python is asked from now on, of queries in this session and in all that are made from now on. */
  public void answer(SparkSession session, Consumer<PendingQuery> python) {
    synchronized (this) {
      jobsPython = python;
      isDisabled = false;
    }
    Extensions.extend(session);
    for (Option<SparkSession> other : List.of(SparkSession.getDefaultSession(), SparkSession.getActiveSession())) {
      if (other.isDefined() && other.get().sparkContext() == spark) {
        Extensions.extend(other.get());
      }
    }
  }

  /** The query that this writer would start, without its sink. That is not opened or made, and nothing starts. */
  public PendingQuery pending(SparkSession session, DataStreamWriter<?> writer) throws TimeoutException {
    Extensions.extend(session);
    AtomicReference<PendingQuery> found = new AtomicReference<>();
    looking.set(found);
    try {
      writer.format("noop").start();
    } finally {
      looking.remove();
    }
    return found.get();
  }

  /** Nobody is asked: queries that start from now on are Spark's. */
  public synchronized void disable() {
    jobsPython = null;
    isDisabled = true;
  }

  /** The figures of a run of a query, as JSON; null if the process beside the driver does not know it. */
  public String figures(String run) {
    SideCar asked;
    synchronized (this) {
      asked = sideCar;
    }
    return asked != null && asked.isAlive() ? asked.answering().figures().apply(run) : null;
  }

  /**
   * What the Python beside the driver answers to a client: a text or a dataset. {@code rows}: what is asked about, or null.
   * Throws {@code IllegalArgumentException} with the reason if there is no answer.
   */
  public static Object ask(SparkSession session, String kind, Map<String, String> words, Dataset<Row> rows) {
    DriverSide driver = current;
    Question question = new Question(session, kind, words, rows);
    try {
      if (driver == null) {
        throw new NoPythonException("the application has no pyslash", null);
      }
      driver.sideCar(session).questions().accept(question);
    } catch (NoPythonException reason) {
      question.refuse("UnsupportedQueryError: pyslash cannot answer: " + reason.getMessage());
    } catch (RuntimeException ended) { // by py4j
      question.refuse("UnsupportedQueryError: the Python process of pyslash has failed while it was asked; ask again");
    }
    return question.answered();
  }

  /** Starts a query as Python decides; null if it is only looked at. */
  StreamingQuery start(QueryStart start) {
    AtomicReference<PendingQuery> lookedAt = looking.get();
    if (lookedAt != null) {
      lookedAt.set(new PendingQuery(start));
      return null;
    }
    String mode = spelled(start.session().sessionState().conf().getConfString(MODE, "auto"));
    if (isDisabled()) {
      return start.start();
    }
    if (mode.equals("off")) {
      CheckpointState.refuse(start, MODE + "=off");
      return start.start();
    }
    Consumer<PendingQuery> python;
    try {
      python = python(start);
    } catch (NoPythonException reason) {
      if (mode.equals("require")) {
        throw new UnsupportedOperationException(
            "UnsupportedQueryError: " + MODE + "=require, but pyslash cannot run this query: " + reason.getMessage(),
            reason);
      }
      CheckpointState.refuse(start, reason.getMessage());
      StreamingQuery query = start.start();
      UnaskedQuery.tell(start, query, reason.getMessage());
      return query;
    }
    return new PendingQuery(start).decidedBy(python);
  }

  /** As Python reads it. */
  private static String spelled(String mode) {
    return mode.toLowerCase(Locale.ROOT);
  }

  private synchronized boolean isDisabled() {
    return isDisabled;
  }

  private synchronized Consumer<PendingQuery> python(QueryStart start) throws NoPythonException {
    if (jobsPython != null) {
      return jobsPython;
    }
    return sideCar(start.session()).starts();
  }

  private synchronized Answering sideCar(SparkSession session) throws NoPythonException {
    if (sideCar == null || !sideCar.isAlive()) {
      sideCar = SideCar.start(spark, session);
    }
    return sideCar.answering();
  }
}
