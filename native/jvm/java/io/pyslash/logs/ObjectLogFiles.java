package io.pyslash.logs;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.lang.ref.Cleaner;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.security.UserGroupInformation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Creates files of an object store by one request each: S3's, by a Hadoop that can make it conditional (3.5). Spark writes a
 * temporary file and renames it, which is some thirty requests, one behind the other: a rename is a copy there, and each step
 * looks whether a folder or a file is in its way.
 *
 * <p>An object is there whole when its stream is closed, or not at all. And two drivers cannot both give a file its name,
 * which a look and a copy do not keep them from.
 */
public final class ObjectLogFiles {
  private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
  private static final String NO_LOOK = "fs.s3a.create.performance"; // for what is in its way
  private static final String WRITER = "slash-writer"; // in an object's metadata: which write it is of
  private static final String SETTINGS = "fs.s3a.";
  private static final int MOST_STORES = 16;

  /** By bucket, user and settings, as Spark's manager has them: what others of this JVM close stays open here. */
  private static final Map<List<Object>, ObjectLogFiles> STORES = new LinkedHashMap<>(MOST_STORES, 0.75f, true);

  private static final Cleaner UNUSED = Cleaner.create();
  private static final Logger LOGGER = LoggerFactory.getLogger(ObjectLogFiles.class);

  private final FileSystem files;
  private Boolean isExclusive; // null: it has not been tried

  private ObjectLogFiles(FileSystem files) {
    this.files = files;
  }

  /** Null unless the path is on such a store. */
  public static ObjectLogFiles of(Path path, Configuration conf) {
    if (LocalLogFiles.areSparks(conf)) {
      return null;
    }
    try {
      FileSystem shared = path.getFileSystem(conf);
      boolean can =
          shared.hasPathCapability(path, CONDITIONAL)
              && shared.hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM);
      return can ? ofStore(shared.makeQualified(path), conf) : null;
    } catch (IOException | RuntimeException error) {
      return null; // Spark meets the same obstacle, and says so
    }
  }

  private static ObjectLogFiles ofStore(Path path, Configuration conf) throws IOException {
    List<Object> key =
        List.of(path.toUri().getAuthority(), UserGroupInformation.getCurrentUser(), conf.getPropsWithPrefix(SETTINGS));
    synchronized (STORES) {
      ObjectLogFiles known = STORES.get(key);
      if (known == null) {
        FileSystem files = FileSystem.newInstance(path.toUri(), conf);
        known = new ObjectLogFiles(files);
        UNUSED.register(known, () -> close(files));
        STORES.put(key, known);
        if (STORES.size() > MOST_STORES) { // credentials that were renewed; running queries may still write by them
          STORES.remove(STORES.keySet().iterator().next());
        }
      }
      return known;
    }
  }

  private static void close(FileSystem files) {
    try {
      files.close();
    } catch (IOException error) {
      LOGGER.debug("{} was not closed in peace", files.getUri(), error);
    }
  }

  /** Whether this store refuses to give a name twice: that is tried once, beside the file that is to be created. */
  public synchronized boolean isExclusive(Path file) {
    if (isExclusive == null) {
      Path probe = new Path(file.getParent(), "." + file.getName() + "." + UUID.randomUUID() + ".probe");
      try {
        isExclusive = isGivenOnce(probe);
        files.delete(probe, false);
      } catch (IOException error) {
        // Spark's own way says what is wrong, and the next file is tried anew
      }
    }
    return Boolean.TRUE.equals(isExclusive);
  }

  private boolean isGivenOnce(Path probe) throws IOException {
    try {
      create(probe, false).close();
    } catch (InterruptedIOException stopped) {
      throw stopped;
    } catch (IOException refused) {
      create(probe, true).close(); // for its condition alone?
      return false;
    }
    try {
      create(probe, false).close();
      return false;
    } catch (FileAlreadyExistsException taken) {
      return true;
    }
  }

  /**
   * A file that is there once it is closed, and never if it is aborted.
   *
   * @param overwrite whether another file may have the name so far; else closing it is a FileAlreadyExistsException
   */
  public ObjectFile create(Path path, boolean overwrite) {
    return Unchecked.call(() -> {
      String writer = UUID.randomUUID().toString();
      FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path).overwrite(overwrite);
      builder.opt(NO_LOOK, true).opt("fs.s3a.create.header." + WRITER, writer);
      if (!overwrite) {
        builder.must(CONDITIONAL, true);
      }
      return new ObjectFile(builder.build(), path, writer);
    });
  }

  /** One that is being written. */
  public final class ObjectFile {
    public final FSDataOutputStream stream;
    private final Path path;
    private final String writer;

    private ObjectFile(FSDataOutputStream stream, Path path, String writer) {
      this.stream = stream;
      this.path = path;
      this.writer = writer;
    }

    public void close() throws IOException {
      try {
        stream.close();
      } catch (IOException error) {
        // Hadoop repeats a request whose answer was lost, and may meet what it has written itself.
        if (!isTaken(error)) {
          throw error;
        }
        if (!isOurs()) {
          IOException taken = new FileAlreadyExistsException(path + " already exists.");
          taken.initCause(error);
          throw taken;
        }
      }
    }

    public void abort() {
      stream.abort();
    }

    private boolean isOurs() throws IOException {
      byte[] found = files.getXAttrs(path).get("header." + WRITER);
      return found != null && writer.equals(new String(found, StandardCharsets.UTF_8));
    }
  }

  /** By S3A's error of a condition that does not hold, or S3's of two requests at the same moment. */
  private static boolean isTaken(IOException error) {
    return error.getClass().getName().endsWith(".RemoteFileChangedException")
        || String.valueOf(error.getMessage()).contains("ConditionalRequestConflict");
  }

  @Override
  public String toString() {
    return "files of an object store by one request each";
  }
}
