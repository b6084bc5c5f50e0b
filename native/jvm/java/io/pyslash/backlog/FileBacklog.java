package io.pyslash.backlog;

import com.fasterxml.jackson.databind.JsonNode;
import io.pyslash.core.Json;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * How far a stream of files has been read: all files of Spark's log up to an {@code entry}, and of the others those are
 * {@code debt} that are no newer. Without debt it is written as Spark writes it, so that plain Spark can go on from there;
 * which files are debt, a list of the folder says.
 *
 * @param entry of Spark's log; -1: none
 * @param debt how many files
 * @param since when the debt began, in milliseconds since 1970
 * @param floor files that were modified before this were too old for Spark when the debt began
 * @param isAhead whether the files that were read last have others before them still to be read: then the watermark waits
 * @param read how many files have been read since there has been debt
 * @param shed how many files of the entry nobody reads: then they are all
 */
record FileBacklog(long entry, long debt, long since, long floor, boolean isAhead, long read, long shed) {
  /** Nothing has been read. */
  static final FileBacklog NONE = at(-1);

  private static final String ENTRY = "logOffset"; // as Spark calls it
  private static final String DEBT = "debt";

  /** All files before those of the next entry have been read. */
  static FileBacklog at(long entry) {
    return new FileBacklog(entry, 0, 0, 0, false, 0, 0);
  }

  /** The same entry, once what was debt is no longer there. */
  FileBacklog withoutDebt() {
    return new FileBacklog(entry, 0, 0, 0, false, 0, shed);
  }

  static FileBacklog parse(String text) {
    JsonNode json = Json.parse(text);
    JsonNode debt = json.path(DEBT).path(0);
    return new FileBacklog(
        json.get(ENTRY).asLong(),
        debt.path("files").asLong(),
        debt.path("since").asLong(),
        debt.path("floor").asLong(),
        json.path("ahead").asBoolean(),
        json.path("read").asLong(),
        json.path("shed").asLong());
  }

  String toJson() {
    Map<String, Object> fields = new LinkedHashMap<>();
    fields.put(ENTRY, entry);
    if (debt > 0 || shed > 0) {
      Map<String, Object> owed = new LinkedHashMap<>();
      owed.put("files", debt);
      owed.put("since", since);
      owed.put("floor", floor);
      fields.put(DEBT, debt > 0 ? List.of(owed) : List.of());
      fields.put("ahead", isAhead);
      fields.put("read", read);
      fields.put("shed", shed);
    }
    return Json.of(fields);
  }
}
