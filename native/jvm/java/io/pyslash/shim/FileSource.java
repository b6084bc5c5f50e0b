package io.pyslash.shim;

import io.pyslash.core.Fields;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.execution.datasources.DataSource;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's source of files: what it lists, which of its files it has read, and an entry of its log with files that somebody
 * else has chosen. It forgets none of them, however old they become: {@link #maxAgeMs} says from when on Spark would.
 */
public final class FileSource {
  private static final String WHERE = "runtime.";
  private static final Class<?> SOURCE = Member.streaming(WHERE, "FileStreamSource");
  private static final Method LIST = Member.method(SOURCE, "fetchAllFiles", 0);
  private static final Field UNREAD = Member.field(SOURCE, "unreadFiles"); // which it takes before it lists
  private static final Method ENTRY = Member.method(SOURCE, "currentLogOffset");
  private static final Method SEEN = Member.method(SOURCE, "seenFiles");
  private static final Method IS_NEW = Member.method(SEEN.getReturnType(), "isNewFile", SparkPath.class, long.class);
  private static final Field NEWEST = Member.field(SEEN.getReturnType(), "latestTimestamp");
  private static final Class<?> LISTED = Member.type(SOURCE.getName() + "$NewFileEntry");
  private static final Method PATH = Member.method(LISTED, "path");
  private static final Method BYTES = Member.method(LISTED, "size");
  private static final Method MODIFIED = Member.method(LISTED, "timestamp");
  private static final Field LOG = Member.field(SOURCE, "metadataLog");
  private static final Method LOGGED = Member.method(LOG.getType(), "allFiles");
  private static final Class<?> READ = Member.type(SOURCE.getName() + "$FileEntry");
  private static final Method READ_IN = Member.method(READ, "batchId");
  private static final Method READ_OF = Member.method(READ, "timestamp");
  private static final Constructor<?> OFFSET =
      Member.constructor(Member.streaming(WHERE, "FileStreamSourceOffset"));

  private static final String AGE = "maxFileAge";
  private static final String SPARKS_AGE = "7d";
  private static final String ANY_AGE = "36500d";

  private final Source source;
  private final long maxAgeMs;

  private FileSource(Source source, long maxAgeMs) {
    this.source = source;
    this.maxAgeMs = maxAgeMs;
  }

  /** That of a stream of files, with its log in this folder. */
  public static FileSource of(DataSource files, String folder) {
    Map<String, String> options = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    options.putAll(CollectionConverters.asJava(files.options()));
    String age = options.getOrDefault(AGE, SPARKS_AGE);
    options.put(AGE, ANY_AGE);
    Object all = scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(options));
    Object[] fields = Fields.of(files, files.options(), all);
    DataSource ageless = Member.make(Member.constructor(DataSource.class), fields);
    return new FileSource(ageless.createSource(folder), JavaUtils.timeStringAs(age, TimeUnit.MILLISECONDS));
  }

  /** Spark's own. */
  public Source source() {
    return source;
  }

  /** How much older than the newest one that has been read a file may be, for Spark to read it. */
  public long maxAgeMs() {
    return maxAgeMs;
  }

  /**
   * A file that is there.
   *
   * @param listed as Spark knows it
   * @param modified when, in milliseconds since 1970
   */
  public record File(Object listed, long bytes, long modified) {
    private static File of(Object listed) {
      return new File(listed, Member.<Long>call(BYTES, listed), Member.<Long>call(MODIFIED, listed));
    }
  }

  /** All files that are there now. */
  public List<File> list() {
    Seq<?> found = Member.call(LIST, source);
    return CollectionConverters.asJava(found).stream().map(File::of).toList();
  }

  /** Whether a file is in no entry of the log. */
  public boolean isUnread(File file) {
    return Member.call(IS_NEW, seen(), Member.<Object>call(PATH, file.listed), file.modified);
  }

  /** When the newest file of the log was modified; 0 if the log is empty. */
  public long newest() {
    return Member.<Long>get(NEWEST, seen());
  }

  /** The same of the log up to an entry: it is read for that. */
  public long newest(long entry) {
    Object[] logged = Member.call(LOGGED, Member.<Object>get(LOG, source));
    return Stream.of(logged)
        .filter(file -> Member.<Long>call(READ_IN, file) <= entry)
        .mapToLong(file -> Member.<Long>call(READ_OF, file))
        .max()
        .orElse(0);
  }

  private Object seen() {
    return Member.call(SEEN, source);
  }

  /** The last entry of the log; -1: there is none. */
  public long entry() {
    return Member.<Long>call(ENTRY, source);
  }

  /** Makes the next entry of the log, of these files: one at least. */
  public void add(List<File> files) {
    Member.set(UNREAD, source, CollectionConverters.asScala(files.stream().map(File::listed).toList()).toSeq());
    ((SupportsAdmissionControl) source).latestOffset(null, ReadLimit.allAvailable());
  }

  /** An entry of the log, as Spark knows it. */
  public static Offset offset(long entry) {
    return Member.make(OFFSET, entry);
  }
}
