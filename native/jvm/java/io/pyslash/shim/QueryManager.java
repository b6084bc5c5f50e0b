package io.pyslash.shim;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.classic.StreamingQuery;
import org.apache.spark.sql.classic.StreamingQueryManager;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.util.Clock;
import scala.Option;
import scala.Tuple2;
import scala.collection.immutable.Map;
import scala.runtime.AbstractFunction0;

/** A session's manager of streaming queries that hands every query to somebody before it starts. */
public final class QueryManager extends StreamingQueryManager {
  private static final Field BUILDER = Member.field(SessionState.class, "streamingQueryManagerBuilder");
  private static final Field BUILT = Member.field(SessionState.class, "streamingQueryManager");
  private static final MethodHandle SPARKS_START = sparksStart();

  private final Function<QueryStart, StreamingQuery> starter;
  private StreamingQueryManager before; // in whose place this one is, and on whom the job may wait

  private QueryManager(SparkSession session, Function<QueryStart, StreamingQuery> starter) {
    super(session, session.sessionState().conf());
    this.starter = starter;
  }

  @Override
  public void notifyQueryTermination(StreamingQuery query) {
    super.notifyQueryTermination(query);
    if (before != null) {
      before.notifyQueryTermination(query);
    }
  }

  /** From now on the queries of this session are started by {@code starter}. */
  public static void install(SparkSession session, Function<QueryStart, StreamingQuery> starter) {
    SessionState state = session.sessionState();
    StreamingQueryManager built = Member.get(BUILT, state);
    Member.set(
        BUILDER,
        state,
        new AbstractFunction0<StreamingQueryManager>() {
          @Override
          public StreamingQueryManager apply() {
            return new QueryManager(session, starter);
          }
        });
    if (built != null) { // by a job that has added a listener before it had any plan
      Member.set(BUILT, state, inPlaceOf(built, session, starter));
    }
  }

  /** Shares queries and listeners with Spark's own, which the job may hold. */
  private static QueryManager inPlaceOf(
      StreamingQueryManager built, SparkSession session, Function<QueryStart, StreamingQuery> starter) {
    QueryManager manager = new QueryManager(session, starter);
    for (Field field : StreamingQueryManager.class.getDeclaredFields()) {
      if (!Modifier.isStatic(field.getModifiers())) {
        Member.set(Member.opened(field), manager, Member.get(field, built));
      }
    }
    manager.before = built;
    return manager;
  }

  /** As Spark 4.0 and 4.1 declare it. */
  public StreamingQuery startQuery(
      Option<String> name,
      Option<String> checkpoint,
      Dataset<?> rows,
      Map<String, String> options,
      Table sink,
      OutputMode mode,
      boolean temporary,
      boolean recovers,
      Trigger trigger,
      Clock clock,
      Option<Tuple2<TableCatalog, Identifier>> catalog,
      Option<CatalogTable> table)
      throws TimeoutException {
    return starter.apply(
        new QueryStart(
            this, name, checkpoint, rows, options, sink, mode, temporary, recovers, trigger, clock, catalog, table));
  }

  /** As Spark 4.2 and later declare it. */
  public StreamingQuery startQuery(
      Option<String> name,
      Option<String> sinkName,
      Option<String> checkpoint,
      Dataset<?> rows,
      Map<String, String> options,
      Table sink,
      OutputMode mode,
      boolean temporary,
      boolean recovers,
      Trigger trigger,
      Clock clock,
      Option<Tuple2<TableCatalog, Identifier>> catalog,
      Option<CatalogTable> table)
      throws TimeoutException {
    return starter.apply(
        new QueryStart(
            this,
            name,
            sinkName,
            checkpoint,
            rows,
            options,
            sink,
            mode,
            temporary,
            recovers,
            trigger,
            clock,
            catalog,
            table));
  }

  /** Spark's own start, with its own arguments. */
  StreamingQuery start(Object... arguments) {
    try {
      return (StreamingQuery) SPARKS_START.bindTo(this).invokeWithArguments(arguments);
    } catch (Throwable sparks) {
      throw Member.thrown(sparks);
    }
  }

  /** By a handle: the compiler knows the parameters of one release alone. */
  private static MethodHandle sparksStart() {
    Method[] ours = QueryManager.class.getDeclaredMethods();
    Method method =
        Arrays.stream(StreamingQueryManager.class.getMethods())
            .filter(sparks -> Arrays.stream(ours).anyMatch(own -> hasSameSignature(own, sparks)))
            .findFirst()
            .orElseThrow(() -> Member.missing("StreamingQueryManager.startQuery of known parameters", null));
    try {
      return MethodHandles.lookup().unreflectSpecial(method, QueryManager.class);
    } catch (IllegalAccessException hidden) {
      throw Member.missing("callable method " + method, hidden);
    }
  }

  private static boolean hasSameSignature(Method own, Method sparks) {
    return sparks.getName().equals("startQuery")
        && own.getName().equals("startQuery")
        && Arrays.equals(own.getParameterTypes(), sparks.getParameterTypes());
  }
}
