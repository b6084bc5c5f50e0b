package io.pyslash.shim;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.core.Json;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.DeduplicateWithinWatermark;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * A query that has a checkpoint, as Spark goes on with it: by the settings that its first micro-batch was planned by, which
 * Spark's log keeps. What a later release has changed since then is not changed for it.
 */
public final class BegunQuery {
  private static final Class<?> METADATA = Member.streaming("checkpointing.", "OffsetSeqMetadata");
  private static final Constructor<?> MAKE_METADATA = Member.constructor(METADATA);
  private static final Class<?> SETTINGS = Member.type(METADATA.getName() + "$");
  private static final Method SET = Member.method(SETTINGS, "setSessionConf", 2);

  private BegunQuery() {}

  /** The same rows in a session of their own, which has the settings of Spark's log: in JSON, each by its name. */
  public static Dataset<Row> of(Dataset<Row> rows, String logged) {
    Map<String, String> settings = new HashMap<>();
    JsonNode told = Json.parse(logged);
    told.fieldNames().forEachRemaining(name -> settings.put(name, told.required(name).asText()));
    Object metadata = Member.make(MAKE_METADATA, 0L, 0L, Map$.MODULE$.from(CollectionConverters.asScala(settings)));
    SparkSession session = rows.sparkSession().cloneSession();
    Member.call(SET, Member.module(SETTINGS), metadata, session.sessionState().conf());
    LogicalPlan plan = rows.queryExecution().analyzed();
    return Dataset.ofRows(session, Member.isFrom(4, 3) ? plan.transformUp(new KeyOrder(session)) : plan);
  }

  /** The order of a deduplication's keys, which Spark chooses when it analyses a query, and chooses again at its start. */
  private static final class KeyOrder extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
    private static final String IS_STABLE = "spark.sql.dropDuplicates.deterministicKeyOrder.enabled";
    private static final Class<?> RESOLVES = Member.type("org.apache.spark.sql.catalyst.analysis.ResolveDeduplicate$");
    private static final Method KEYS = Member.method(RESOLVES, "recomputeKeysPreservingMetadataBoundary", 5);

    private final SparkSession session;

    KeyOrder(SparkSession session) {
      this.session = session;
    }

    @Override
    public boolean isDefinedAt(LogicalPlan node) {
      return (node instanceof Deduplicate || node instanceof DeduplicateWithinWatermark) && asked(node).isDefined();
    }

    @Override
    public LogicalPlan apply(LogicalPlan node) {
      boolean isStable = Boolean.parseBoolean(session.sessionState().conf().getConfString(IS_STABLE));
      Object keys = Member.call(Member.method(node.getClass(), "keys"), node);
      Object child = node.children().head();
      Object resolver = session.sessionState().analyzer().resolver();
      Object ordered =
          Member.call(KEYS, Member.module(RESOLVES), keys, child, asked(node).get(), isStable, resolver);
      return node.makeCopy(new Object[] {ordered, child, asked(node)});
    }

    /** What the job has named. */
    private static Option<?> asked(LogicalPlan node) {
      return Member.call(Member.method(node.getClass(), "dedupSpec"), node);
    }
  }
}
