package io.pyslash.ui;

import org.apache.spark.ui.SparkUI;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.util.kvstore.KVStore;

/** The tab "Slash" of Spark's UI: the runs of queries, and a page for each. */
final class SlashTab extends SparkUITab {
  static final String PREFIX = "slash";

  private final SparkUI ui;

  SlashTab(SparkUI ui) {
    super(ui, PREFIX);
    this.ui = ui;
    attachPage(new QueriesPage(this));
    attachPage(new QueryPage(this));
  }

  void attach() {
    ui.attachTab(this);
  }

  KVStore store() {
    return ui.store().store();
  }
}
