package org.apache.spark.sql.execution.streaming;

import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

public interface CheckpointFileManager {
  static CheckpointFileManager create(Path path, Configuration conf) {
    return null;
  }

  CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible);

  FSDataInputStream open(Path path);

  FileStatus[] list(Path path, PathFilter filter);

  default FileStatus[] list(Path path) {
    return null;
  }

  void mkdirs(Path path);

  boolean exists(Path path);

  void delete(Path path);

  boolean isLocal();

  Path createCheckpointDirectory();

  interface RenameHelperMethods {
    FSDataOutputStream createTempFile(Path path);

    void renameTempFile(Path from, Path to, boolean overwriteIfPossible);
  }

  abstract class CancellableFSDataOutputStream extends FSDataOutputStream {
    public CancellableFSDataOutputStream(OutputStream stream) {
      super(stream, null);
    }

    public abstract void cancel();
  }

  class RenameBasedFSDataOutputStream extends CancellableFSDataOutputStream {
    public RenameBasedFSDataOutputStream(CheckpointFileManager files, Path path, boolean overwrite) {
      super(null);
    }

    @Override
    public native void cancel();
  }
}
