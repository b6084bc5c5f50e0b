package io.pyslash.tests;

import java.io.IOException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system without permissions and links: it forks a {@code chmod} for every file that it makes and a
 * {@code readlink} for every one that it renames, 45 processes in each micro-batch.
 */
public final class QuietFileSystem extends LocalFileSystem {
  public QuietFileSystem() {
    super(new Raw());
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) {}

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      return getFileStatus(path);
    }
  }
}
