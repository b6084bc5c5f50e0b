package io.pyslash.ui;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.function.Function;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.status.ElementTrackingStore;
import org.apache.spark.ui.SparkUI;

/** Tells an application's listener bus what queries do; called from Python, once an epoch. */
public final class Watch {
  private static Watch current;

  private final ObjectMapper json = new ObjectMapper();
  private final SparkContext spark;
  private SlashTab tab; // null: the application has no UI

  private Watch(SparkContext spark) {
    this.spark = spark;
    SlashMetrics metrics = new SlashMetrics();
    SparkEnv.get().metricsSystem().registerSource(metrics);
    spark.listenerBus().addToStatusQueue(metrics);
    if (spark.ui().isDefined()) {
      SparkUI ui = spark.ui().get();
      spark.listenerBus().addToStatusQueue(
          new SlashListener(spark.conf(), (ElementTrackingStore) ui.store().store()));
      tab = new SlashTab(ui);
      tab.attach();
    }
  }

  /** The application's; null if nobody would see anything: it has no UI, no event log, and no metrics are configured. */
  public static synchronized Watch of(SparkContext spark) {
    if (current == null || current.spark != spark) {
      current = isSeen(spark) ? new Watch(spark) : null;
    }
    return current;
  }

  private static boolean isSeen(SparkContext spark) {
    SparkConf conf = spark.conf();
    return spark.ui().isDefined()
        || spark.eventLogger().isDefined()
        || conf.getAllWithPrefix("spark.metrics.conf").length > 0
        || SparkContext.class.getClassLoader().getResource("metrics.properties") != null;
  }

  /** Has the tab ask this function of the state of queries that run ({@link StatePage}). */
  public void answerBy(Function<String, String> answers) {
    if (tab != null) {
      tab.answerBy(answers);
    }
  }

  /** Posts an event; `figures` is a JSON object. */
  public void post(String kind, String figures) throws JsonProcessingException {
    spark.listenerBus().post(new SlashEvent(kind, json.readTree(figures)));
  }
}
