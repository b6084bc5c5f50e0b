package io.pyslash.logs;

import java.io.IOException;
import java.net.URI;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Creates files of an object store by one request each: S3's, by a Hadoop that can make it conditional (3.5). Spark
 * writes a temporary file and renames it, which is some thirty requests, one behind the other: a rename is a copy there, and each
 * step looks whether a folder or a file is in its way.
 *
 * <p>An object is there whole when its stream is closed, or not at all. And two drivers cannot both give a file its name,
 * which a look and a copy do not keep them from.
 */
public final class ObjectLogFiles {
  private static final String CONDITIONAL = "fs.option.create.conditional.overwrite";
  private static final String NO_LOOK = "fs.s3a.create.performance"; // for what is in its way
  private static final String LOST = ".RemoteFileChangedException"; // S3A's, of a condition that does not hold

  // By store: whether it heeds the condition. Some that are like S3 ignore it, and would give a name twice.
  private static final Map<URI, Boolean> HEED = new ConcurrentHashMap<>();

  private final FileSystem files;

  private ObjectLogFiles(FileSystem files) {
    this.files = files;
  }

  /** Null unless the path is on such a store. */
  public static ObjectLogFiles of(Path path, Configuration conf) {
    if (LocalLogFiles.areSparks(conf)) {
      return null;
    }
    try {
      FileSystem files = path.getFileSystem(conf);
      boolean can =
          files.hasPathCapability(path, CONDITIONAL)
              && files.hasPathCapability(path, CommonPathCapabilities.ABORTABLE_STREAM);
      return can ? new ObjectLogFiles(files) : null;
    } catch (IOException | RuntimeException error) {
      return null; // Spark meets the same obstacle, and says so
    }
  }

  /** Whether this store refuses to give a name twice: that is tried once, beside the file that is to be created. */
  public boolean isExclusive(Path file) {
    Boolean known = HEED.get(files.getUri());
    return known != null ? known : tries(new Path(file.getParent(), "." + file.getName() + "." + UUID.randomUUID() + ".probe"));
  }

  private boolean tries(Path probe) {
    try {
      create(probe, false).close();
      boolean heeds = false;
      try {
        create(probe, false).close();
      } catch (IOException refused) {
        heeds = isTaken(refused);
      }
      HEED.put(files.getUri(), heeds);
      files.delete(probe, false);
      return heeds;
    } catch (IOException error) {
      return false; // Spark's own way says what is wrong, and the next file is tried anew
    }
  }

  private static boolean isTaken(IOException error) {
    return error.getClass().getName().endsWith(LOST);
  }

  /**
   * A file that is there once the stream is closed, and never if that is aborted.
   *
   * @param overwrite whether another file may have the name so far; else closing it is a FileAlreadyExistsException
   */
  public FSDataOutputStream create(Path path, boolean overwrite) {
    return Unchecked.call(() -> {
      FSDataOutputStreamBuilder<?, ?> builder = files.createFile(path).overwrite(overwrite);
      builder.opt(NO_LOOK, true);
      if (!overwrite) {
        builder.must(CONDITIONAL, true);
      }
      return builder.build();
    });
  }

  /** What Hadoop's other file systems say where a name is taken. */
  public static IOException asHadoops(IOException error, Path path) {
    if (!isTaken(error)) {
      return error;
    }
    IOException taken = new FileAlreadyExistsException(path + " already exists.");
    taken.initCause(error);
    return taken;
  }

  @Override
  public String toString() {
    return "files of an object store by one request each";
  }
}
