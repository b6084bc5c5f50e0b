package io.pyslash.backlog;

import io.pyslash.backlog.BacklogRules.Order;
import io.pyslash.shim.FileSource;
import io.pyslash.shim.FileSource.File;
import io.pyslash.shim.RunningStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxBytes;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Some;

/**
 * Spark's source of files as a query reads it that is behind: the newest files first, and those that were skipped are debt,
 * which micro-batches of their own pay, the oldest first. It decides which files an entry of Spark's log has, and a
 * micro-batch has the files of an entry; Spark's source does all else.
 */
public final class BacklogFiles implements Source, SupportsTriggerAvailableNow, BacklogSource.Reader {
  private static final long OPEN_COST = 4 << 20; // bytes that could be read meanwhile, as Spark's own default has it

  /** Below a checkpoint: there once an entry of Spark's log may have newer files than those that were left for later. */
  private static final String SKIPPED = "slash/files-skipped";

  private final DataSource data;
  private final BacklogRules rules;
  private final Pace pace;
  private FileSource files;
  private List<File> atHand; // with Trigger.AvailableNow: all that will be read
  private boolean paysNext;
  private long chosen = FileBacklog.NONE.entry();
  private long chosenBytes;
  private BacklogSource.Step step; // of the micro-batch whose rows Spark has taken last

  BacklogFiles(DataSource data, BacklogRules rules) {
    this.data = data;
    this.rules = rules;
    this.pace = Pace.ofBytes(rules.latencyMs());
  }

  /** Spark's own source, made where the query runs: there alone its checkpoint is known. */
  private FileSource files() {
    if (files == null) {
      files = FileSource.of(data, checkpoint() + "/sources/0");
    }
    return files;
  }

  private SparkSession session() {
    return (SparkSession) data.sparkSession();
  }

  private String checkpoint() {
    return RunningStream.checkpoint(RunningStream.of(session()));
  }

  @Override
  public StructType schema() {
    return data.sourceInfo().schema();
  }

  @Override
  public Option<Offset> getOffset() {
    return files().source().getOffset();
  }

  @Override
  public ReadLimit getDefaultReadLimit() {
    return ((SupportsAdmissionControl) files().source()).getDefaultReadLimit();
  }

  @Override
  public void prepareForTriggerAvailableNow() {
    atHand = files().list();
  }

  @Override
  public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
      org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
    FileBacklog at = start == null ? FileBacklog.NONE : FileBacklog.parse(start.json());
    FileBacklog next = next(at, limit);
    return next.entry() == FileBacklog.NONE.entry() ? null : new JsonOffset(next.toJson());
  }

  private FileBacklog next(FileBacklog at, ReadLimit limit) {
    long now = System.currentTimeMillis();
    if (files().entry() > at.entry()) {
      return unlogged(at, now);
    }
    long floor = at.debt() > 0 ? at.floor() : files.newest() - files.maxAgeMs();
    List<File> unread = unread(floor);
    if (unread.isEmpty()) { // what was debt may be no longer there
      return at.debt() > 0 ? at.withoutDebt() : at;
    }
    List<File> debt = at.debt() > 0 ? notNew(unread) : List.of();
    List<File> arrived = unread.subList(debt.size(), unread.size());
    long since = debt.isEmpty() ? now : at.since();
    List<File> old = debt.stream().filter(file -> now - waitsFrom(file, since) > rules.expireMs()).toList();
    if (!old.isEmpty()) {
      rules.letGo(old.size(), "files", now - waitsFrom(old.get(0), since));
      return new FileBacklog(added(old), debt.size() - old.size(), since, floor, false, at.read(), old.size());
    }
    boolean isInOrder = rules.order() != Order.FRESH_FIRST;
    boolean pays = !debt.isEmpty() && (paysNext || isInOrder || arrived.isEmpty());
    paysNext = !pays;
    if (isInOrder && !pays) {
      return FileBacklog.at(added(first(arrived, limit, Long.MAX_VALUE)));
    }
    List<File> taken = pays ? first(debt, limit, pace.most()) : last(arrived, limit, pace.most());
    long owed = (pays ? debt : unread).size() - taken.size();
    long read = (debt.isEmpty() ? 0 : at.read()) + taken.size();
    if (debt.isEmpty() && owed > 0) {
      noteThatSomeAreSkipped();
    }
    return new FileBacklog(added(taken), owed, since, floor, !pays && owed > 0, read, 0);
  }

  /** Should the query be killed before Spark's offset log tells of debt, this does: other entries without one are Spark's. */
  private void noteThatSomeAreSkipped() {
    Path note = new Path(checkpoint(), SKIPPED);
    try {
      note.getFileSystem(session().sessionState().newHadoopConf()).create(note, true).close();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** Files that were chosen before the query was killed, which Spark's offset log does not say. */
  private FileBacklog unlogged(FileBacklog at, long now) {
    long floor = at.debt() > 0 ? at.floor() : files.newest(at.entry()) - files.maxAgeMs();
    long owed = notNew(unread(floor)).size();
    return new FileBacklog(files.entry(), owed, at.debt() > 0 ? at.since() : now, floor, owed > 0, at.read(), 0);
  }

  /** Of unread files those that are no newer than one that has been read. */
  private List<File> notNew(List<File> unread) {
    long newest = files.newest();
    return unread.stream().takeWhile(file -> file.modified() <= newest).toList();
  }

  /** The oldest first. */
  private List<File> unread(long floor) {
    List<File> all = atHand != null ? atHand : files.list();
    return all.stream()
        .filter(file -> file.modified() >= floor && files.isUnread(file))
        .sorted(Comparator.comparingLong(File::modified))
        .toList();
  }

  private static long waitsFrom(File file, long since) {
    return Math.max(file.modified(), since);
  }

  private long added(List<File> taken) {
    files.add(taken);
    chosen = files.entry();
    chosenBytes = taken.stream().mapToLong(BacklogFiles::cost).sum();
    return chosen;
  }

  private static long cost(File file) {
    return file.bytes() + OPEN_COST;
  }

  /** Of these files the first ones, as many as a micro-batch may have: one at least. */
  private static List<File> first(List<File> files, ReadLimit limit, long bytes) {
    long most = limit instanceof ReadMaxFiles given ? given.maxFiles() : Long.MAX_VALUE;
    long mostBytes = limit instanceof ReadMaxBytes given ? given.maxBytes() : Long.MAX_VALUE;
    int count = 0;
    long size = 0;
    long costs = 0;
    for (File file : files) {
      size += file.bytes();
      costs += cost(file);
      if (count > 0 && (count >= most || size > mostBytes || costs > bytes)) {
        break;
      }
      count++;
    }
    return files.subList(0, count);
  }

  private static List<File> last(List<File> files, ReadLimit limit, long bytes) {
    List<File> turned = new ArrayList<>(files);
    Collections.reverse(turned);
    List<File> taken = new ArrayList<>(first(turned, limit, bytes));
    Collections.reverse(taken);
    return taken;
  }

  @Override
  public Dataset<Row> getBatch(Option<Offset> start, Offset end) {
    FileBacklog from = start.isEmpty() ? FileBacklog.NONE : FileBacklog.parse(start.get().json());
    FileBacklog to = FileBacklog.parse(end.json());
    boolean isNew = to.entry() > from.entry();
    long bytes = isNew && to.shed() == 0 && to.entry() == chosen ? chosenBytes : 0;
    long shed = isNew ? to.shed() : 0; // else it has been told
    step = new BacklogSource.Step(bytes, 1, to.isAhead(), to.debt(), to.read(), shed);
    long read = to.shed() > 0 ? to.entry() : from.entry(); // what was let go is in the log, and nobody lists it again
    Option<Offset> after = read == FileBacklog.NONE.entry() ? Option.empty() : new Some<>(FileSource.offset(read));
    return files().source().getBatch(after, FileSource.offset(to.entry()));
  }

  @Override
  public BacklogSource.Step step(SparkPlan scan) {
    return step;
  }

  @Override
  public void took(long bytes, long ms) {
    pace.took(bytes, ms);
  }

  /** Files that nobody has read are not cleaned up. */
  @Override
  public void commit(Offset end) {
    FileBacklog at = FileBacklog.parse(end.json());
    if (at.shed() == 0) {
      files().source().commit(FileSource.offset(at.entry()));
    }
  }

  @Override
  public void stop() {
    if (files != null) {
      files.source().stop();
    }
  }

  /** As Spark's progress calls it. */
  @Override
  public String toString() {
    return files != null ? files.source().toString() : data.sourceInfo().name();
  }
}
