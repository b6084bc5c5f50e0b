package io.pyslash.ui;

import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.util.kvstore.KVStore;
import org.apache.spark.util.kvstore.KVStoreIterator;
import org.apache.spark.util.kvstore.KVStoreView;

/** Reading what {@link SlashListener} has written. */
final class SlashStore {
  private SlashStore() {}

  static List<RunData> runs(KVStore store) {
    try {
      return read(store.view(RunData.class));
    } catch (Exception unreadable) {
      throw new IllegalStateException(unreadable);
    }
  }

  /** The epochs of a run that are kept, oldest first. */
  static List<EpochData> epochs(KVStore store, String run) {
    try {
      return read(store.view(EpochData.class).first(run + "/").last(run + "0")); // '0' is what follows '/'
    } catch (Exception unreadable) {
      throw new IllegalStateException(unreadable);
    }
  }

  static RunData run(KVStore store, String run) {
    return read(store, RunData.class, run);
  }

  static EpochData epoch(KVStore store, String key) {
    return read(store, EpochData.class, key);
  }

  private static <T> List<T> read(KVStoreView<T> view) throws Exception {
    List<T> found = new ArrayList<>();
    try (KVStoreIterator<T> rows = view.closeableIterator()) {
      rows.forEachRemaining(found::add);
    }
    return found;
  }

  private static <T> T read(KVStore store, Class<T> type, String key) {
    try {
      return store.read(type, key);
    } catch (NoSuchElementException none) {
      return null;
    } catch (Exception unreadable) {
      throw new IllegalStateException(unreadable);
    }
  }
}
