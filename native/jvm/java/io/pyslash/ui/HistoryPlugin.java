package io.pyslash.ui;

import java.util.List;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.status.AppHistoryServerPlugin;
import org.apache.spark.status.ElementTrackingStore;
import org.apache.spark.ui.SparkUI;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Has a History Server with this jar on its class path read our events, and show the tab for applications with any. */
public final class HistoryPlugin implements AppHistoryServerPlugin {
  @Override
  public Seq<SparkListener> createListeners(SparkConf conf, ElementTrackingStore store) {
    return CollectionConverters.asScala(List.<SparkListener>of(new SlashListener(conf, store))).toSeq();
  }

  @Override
  public void setupUI(SparkUI ui) {
    if (!SlashStore.runs(ui.store().store()).isEmpty()) {
      new SlashTab(ui).attach();
    }
  }
}
