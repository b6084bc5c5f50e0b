package io.pyslash.logs;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.local.LocalFs;
import org.apache.hadoop.fs.local.RawLocalFs;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.TaskContext;

/**
 * Creates and renames files of a local disk so that they are as Hadoop's {@link LocalFs} leaves them, or {@link
 * RawLocalFs} if that is chosen: the same names, bytes, permissions, and the same checksum files or none. Hadoop's Java code forks a {@code chmod} for each file and folder that it
 * makes and a {@code readlink} for each end of a rename; this makes the system calls.
 *
 * <p>Unlike Hadoop, it gives a name that must be free in one step, and what the driver writes is on the disk when it
 * has its name. Tasks write their files as Hadoop does, without waiting for the disk: there may be hundreds in a batch,
 * and all of them can be computed again from the driver's.
 */
public final class LocalLogFiles {
  /** What CheckpointFileManager.create looks up. */
  static final String MANAGER = "spark.sql.streaming.checkpointFileManagerClass";

  private static final String MODE = "spark.slash.mode";
  private static final String LOGS = "spark.slash.logs";

  private final boolean hasSums;
  private final Set<PosixFilePermission> ofFiles;
  private final Set<PosixFilePermission> ofFolders;

  private LocalLogFiles(boolean hasSums, FsPermission umask) {
    this.hasSums = hasSums;
    ofFiles = permissions(FsPermission.getFileDefault().applyUMask(umask));
    ofFolders = permissions(FsPermission.getDirDefault().applyUMask(umask));
  }

  /** Null unless the path is on a local disk that Hadoop reaches by a class that it comes with. */
  public static LocalLogFiles of(Path path, Configuration conf) {
    if (areSparks(conf)) {
      return null;
    }
    try {
      FileContext files = path.toUri().getScheme() == null
          ? FileContext.getFileContext(conf)
          : FileContext.getFileContext(path.toUri(), conf);
      Class<?> kind = files.getDefaultFileSystem().getClass();
      boolean isLocal = kind == LocalFs.class || kind == RawLocalFs.class;
      return isLocal && hasPermissions(path) ? new LocalLogFiles(kind == LocalFs.class, files.getUMask()) : null;
    } catch (IOException | RuntimeException error) {
      return null; // Spark meets the same obstacle, and says so
    }
  }

  /** Whether the files are left to Spark. */
  static boolean areSparks(Configuration conf) {
    return conf.get(MODE, "auto").equalsIgnoreCase("off") || conf.get(LOGS, "auto").equalsIgnoreCase("spark");
  }

  /** The configuration that makes Spark choose for itself. */
  public static Configuration withoutManager(Configuration conf) {
    Configuration plain = new Configuration(conf);
    plain.unset(MANAGER);
    return plain;
  }

  /** A file that is there whole, with its checksums, once the stream is closed. The file must not exist. */
  public FSDataOutputStream create(Path path) {
    return Unchecked.call(() -> {
      boolean isDurable = TaskContext.get() == null;
      try {
        java.nio.file.Path sums = hasSums ? local(sums(path)) : null;
        return new FSDataOutputStream(new SummedFile(local(path), sums, ofFiles, isDurable), null);
      } catch (NoSuchFileException error) {
        throw asHadoops(error, "Missing parent:" + path.getParent());
      }
    });
  }

  /**
   * Gives a file its name, and its checksums theirs.
   *
   * @param overwrite whether another file may have the name so far; else that is a FileAlreadyExistsException
   */
  public void rename(Path from, Path to, boolean overwrite) {
    Unchecked.run(() -> {
      try {
        if (overwrite) {
          forgetSums(to);
          Files.move(local(from), local(to), StandardCopyOption.ATOMIC_MOVE);
        } else {
          name(from, to);
        }
        if (hasSums) {
          Files.move(local(sums(from)), local(sums(to)), StandardCopyOption.ATOMIC_MOVE);
        }
      } catch (NoSuchFileException error) {
        throw asHadoops(error, "File " + error.getFile() + " does not exist");
      }
      if (TaskContext.get() == null) {
        sync(local(to).getParent());
      }
    });
  }

  /** Makes a folder and those above it. One that is there already, or cannot be made, is no error here. */
  public void makeFolders(Path path) {
    makeFolder(local(path));
  }

  @Override
  public String toString() {
    return "local files without forks";
  }

  private void makeFolder(java.nio.file.Path folder) {
    if (folder == null || Files.exists(folder)) {
      return;
    }
    makeFolder(folder.getParent());
    try {
      Files.createDirectory(folder);
      Files.setPosixFilePermissions(folder, ofFolders);
    } catch (IOException error) {
      return; // the caller has Hadoop try, too
    }
  }

  /** By a hard link, which no file with the name survives: between a look and a rename, another query may come. */
  private static void name(Path from, Path to) throws IOException {
    if (Files.exists(local(to), LinkOption.NOFOLLOW_LINKS)) {
      throw taken(to);
    }
    forgetSums(to);
    try {
      Files.createLink(local(to), local(from));
    } catch (java.nio.file.FileAlreadyExistsException error) {
      throw taken(to);
    } catch (NoSuchFileException error) {
      throw error;
    } catch (IOException | UnsupportedOperationException error) {
      // No hard links here (vfat, some network file systems): a look and a rename, as Hadoop has it.
      Files.move(local(from), local(to), StandardCopyOption.ATOMIC_MOVE);
      return;
    }
    Files.delete(local(from));
  }

  /** Of a file that has gone, or goes now: Hadoop would hold them against the new one if no others came. */
  private static void forgetSums(Path path) throws IOException {
    Files.deleteIfExists(local(sums(path)));
  }

  private static FileAlreadyExistsException taken(Path path) {
    return new FileAlreadyExistsException("Rename destination " + path + " already exists.");
  }

  private static FileNotFoundException asHadoops(NoSuchFileException error, String message) {
    FileNotFoundException hadoops = new FileNotFoundException(message);
    hadoops.initCause(error);
    return hadoops;
  }

  private static void sync(java.nio.file.Path folder) throws IOException {
    try (FileChannel names = FileChannel.open(folder)) {
      names.force(true);
    }
  }

  private static boolean hasPermissions(Path path) {
    java.nio.file.Path above = local(path);
    while (above != null && !Files.exists(above)) {
      above = above.getParent();
    }
    return above != null && Files.getFileAttributeView(above, PosixFileAttributeView.class) != null;
  }

  /** Where ChecksumFs looks for them. */
  private static Path sums(Path path) {
    return new Path(path.getParent(), "." + path.getName() + ".crc");
  }

  private static java.nio.file.Path local(Path path) {
    return java.nio.file.Path.of(path.toUri().getPath());
  }

  private static Set<PosixFilePermission> permissions(FsPermission mode) {
    Set<PosixFilePermission> all = EnumSet.noneOf(PosixFilePermission.class);
    PosixFilePermission[] bits = PosixFilePermission.values(); // from the owner's r, bit 8, to the others' x, bit 0
    for (int i = 0; i < bits.length; ++i) {
      if ((mode.toShort() & 1 << 8 - i) != 0) {
        all.add(bits[i]);
      }
    }
    return all;
  }
}
