package io.pyslash.ui;

import java.util.function.Function;
import org.apache.spark.ui.SparkUI;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.util.kvstore.KVStore;

/** The tab "Slash" of Spark's UI: the runs of queries, and a page for each. */
final class SlashTab extends SparkUITab {
  static final String PREFIX = "slash";

  private final SparkUI ui;
  private volatile Function<String, String> answers;

  SlashTab(SparkUI ui) {
    super(ui, PREFIX);
    this.ui = ui;
    attachPage(new QueriesPage(this));
    attachPage(new QueryPage(this));
    attachPage(new StatePage(this));
  }

  void attach() {
    ui.attachTab(this);
  }

  void answerBy(Function<String, String> ofState) {
    answers = ofState;
  }

  /** Answers questions about the state of queries; null in a History Server, where nobody can. */
  Function<String, String> answers() {
    return answers;
  }

  /** Whether a run has state that can be asked about: it runs now, on pyslash. */
  boolean hasState(RunData run) {
    return answers != null && !run.hasEnded && !run.isOnSpark();
  }

  KVStore store() {
    return ui.store().store();
  }
}
