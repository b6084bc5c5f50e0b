package io.pyslash.ui;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryProgressEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import org.apache.spark.status.ElementTrackingStore;

/** Keeps what the tab shows in Spark's own store, of a bounded number of runs and epochs: live, and from an event log. */
public final class SlashListener extends SparkListener {
  /** As Spark's own streaming page. */
  private static final String RETAINED_QUERIES = "spark.sql.streaming.ui.retainedQueries";

  private final ElementTrackingStore store;
  private final int mostEnded;
  private final Map<String, RunData> runs = new HashMap<>();
  private final Deque<String> ended = new ArrayDeque<>();

  /** A short query may have ended before the event of its start comes. Failures by run, of the last that are not known. */
  private final Map<String, String> unknown =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, String> eldest) {
          return size() > mostEnded;
        }
      };

  SlashListener(SparkConf conf, ElementTrackingStore store) {
    this.store = store;
    this.mostEnded = conf.getInt(RETAINED_QUERIES, 100);
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SlashEvent ours) {
      if (ours.run().isEmpty()) {
        return; // of no query: an event log may hold anything
      }
      switch (ours.kind) {
        case SlashEvent.QUERY, SlashEvent.LEFT -> told(ours);
        case SlashEvent.EPOCH -> finished(ours);
        default -> {} // of a later release
      }
    } else if (event instanceof QueryProgressEvent spark) {
      timed(spark.progress());
    } else if (event instanceof QueryTerminatedEvent end) {
      String failure = end.exception().isDefined() ? end.exception().get() : "";
      String run = end.runId().toString();
      if (runs.containsKey(run)) {
        ended(run, failure);
      } else {
        unknown.put(run, failure);
      }
    }
  }

  /** An epoch may be told of before the start of its run is. */
  private RunData changed(String run) {
    RunData known = runs.get(run);
    RunData changed = known == null ? new RunData() : known.copy();
    changed.run = run;
    runs.put(run, changed);
    return changed;
  }

  private void told(SlashEvent event) {
    RunData run = changed(event.run());
    ObjectNode figures = run.figures.deepCopy();
    figures.setAll((ObjectNode) event.figures);
    run.figures = figures;
    store.write(run);
    String failure = unknown.remove(run.run);
    if (failure != null) {
      ended(run.run, failure);
    }
  }

  private void finished(SlashEvent event) {
    EpochData epoch = new EpochData();
    epoch.epoch = Figures.whole(event.figures.path("epoch"));
    epoch.key = EpochData.key(event.run(), epoch.epoch);
    epoch.millis = Figures.whole(event.figures.path("millis"));
    epoch.wallMillis = Figures.number(event.figures.path("wall_ms"));
    epoch.operators = event.figures.path("operators");
    store.write(epoch);
    RunData run = changed(event.run());
    run.epochs++;
    run.rows += epoch.rows();
    run.lateRows += Math.round(epoch.sum("late_rows"));
    run.recoveries += Math.round(epoch.most("recoveries"));
    run.lastEpoch = epoch.epoch;
    run.lastMillis = epoch.millis;
    store.write(run);
    long retained = Figures.whole(event.figures.path("retained"));
    if (retained > 0) {
      forget(EpochData.key(run.run, epoch.epoch - retained));
    }
  }

  private void timed(StreamingQueryProgress progress) {
    String run = progress.runId().toString();
    if (!runs.containsKey(run) || !progress.durationMs().containsKey("triggerExecution")) {
      return;
    }
    EpochData known = epoch(EpochData.key(run, progress.batchId()));
    if (known != null) {
      EpochData timed = new EpochData();
      timed.epoch = known.epoch;
      timed.key = known.key;
      timed.millis = known.millis;
      timed.wallMillis = known.wallMillis;
      timed.triggerMillis = progress.durationMs().get("triggerExecution");
      timed.operators = known.operators;
      store.write(timed);
    }
  }

  private void ended(String name, String failure) {
    RunData run = changed(name);
    run.hasEnded = true;
    run.failure = failure;
    store.write(run);
    ended.add(name);
    while (ended.size() > mostEnded) {
      String oldest = ended.remove();
      runs.remove(oldest);
      for (EpochData epoch : SlashStore.epochs(store, oldest)) {
        store.delete(EpochData.class, epoch.key);
      }
      store.delete(RunData.class, oldest);
    }
  }

  private void forget(String key) {
    if (epoch(key) != null) {
      store.delete(EpochData.class, key);
    }
  }

  private EpochData epoch(String key) {
    return SlashStore.epoch(store, key);
  }
}
