package io.pyslash.plugin;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.pyslash.shim.QueryStart;
import io.pyslash.shim.StatefulNodes;
import io.pyslash.ui.Watch;
import java.util.Locale;
import org.apache.spark.sql.classic.StreamingQuery;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A query that runs on plain Spark since there is no Python to ask. What Python would tell users of it is told here. */
final class UnaskedQuery {
  private static final Logger LOGGER = LoggerFactory.getLogger("pyslash");
  private static final String WATCH = "spark.slash.watch";
  private static final String HELP = "a Python that has pyslash (docs/operations.md, The plugin)";

  private UnaskedQuery() {}

  /** Tells Spark's log, its UI and its metrics why. */
  static void tell(QueryStart start, StreamingQuery query, String why) {
    LOGGER.warn("query {} stays on plain Spark: {}", query.name() != null ? query.name() : query.id().toString(), why);
    try {
      Watch watch = watch(start);
      if (watch != null) {
        watch.post("query", figures(start, query, why).toString());
      }
    } catch (RuntimeException | JsonProcessingException failure) { // the query has started all the same
      LOGGER.warn("the Spark UI shows nothing of this query", failure);
    }
  }

  private static Watch watch(QueryStart start) {
    String isOn = start.session().sessionState().conf().getConfString(WATCH, "true");
    return isOn.equalsIgnoreCase("false") ? null : Watch.of(start.session().sparkContext());
  }

  /** As pyslash/driver/watch.py has them. */
  private static ObjectNode figures(QueryStart start, StreamingQuery query, String why) {
    return JsonNodeFactory.instance
        .objectNode()
        .put("run", query.runId().toString())
        .put("id", query.id().toString())
        .put("name", query.name() == null ? "" : query.name())
        .put("mode", start.outputMode().toString().toLowerCase(Locale.ROOT))
        .put("sink", start.sinkName())
        .put("millis", System.currentTimeMillis())
        .put("reason", why)
        .put("operator", "query")
        .put("help", HELP)
        .put("fallback", StatefulNodes.areIn(start.rows().queryExecution().analyzed()));
  }
}
