package io.pyslash.records;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.io.compress.CodecPool;
import org.apache.hadoop.io.compress.CompressionCodec;
import org.apache.hadoop.io.compress.Decompressor;

/**
 * The bytes of a file, from some place on, through Hadoop's file system and codec, into off-heap memory.
 *
 * <p>Of a plain local file the kernel copies them there; Hadoop's own streams copy them three times more.
 */
abstract class TextBytes implements AutoCloseable {
  // Those whose files without checksums have the very bytes of the disk: Hadoop's, and Hive's, which Spark finds before it.
  private static final Set<String> LOCAL =
      Set.of("org.apache.hadoop.fs.LocalFileSystem", "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem");

  private static final int CHUNK_BYTES = 1 << 16; // stays in a core's own cache until it is copied

  /**
   * As many bytes as the buffer has room for, from its position on; fewer only at the end.
   *
   * @return their number
   */
  abstract int read(ByteBuffer target) throws IOException;

  @Override
  public abstract void close() throws IOException;

  /** Of a file that is not compressed, from {@code start} on. */
  static TextBytes of(Path path, long start, Configuration conf) throws IOException {
    FileSystem files = path.getFileSystem(conf);
    if (files instanceof LocalFileSystem checked && LOCAL.contains(files.getClass().getName())) {
      if (!checked.getRawFileSystem().exists(checked.getChecksumFile(path))) {
        files = checked.getRawFileSystem();
      }
    }
    FSDataInputStream input = files.open(path);
    try {
      FileDescriptor descriptor = files.getClass() == RawLocalFileSystem.class ? input.getFileDescriptor() : null;
      if (descriptor != null) {
        return new Local(input, descriptor, start, statistics(files));
      }
      if (start != 0) {
        input.seek(start);
      }
      return new Streamed(input, null);
    } catch (IOException | RuntimeException failure) {
      input.close();
      throw failure;
    }
  }

  /** Of a compressed file, from its beginning. */
  static TextBytes of(Path path, CompressionCodec codec, Configuration conf) throws IOException {
    FSDataInputStream input = path.getFileSystem(conf).open(path);
    Decompressor decompressor = CodecPool.getDecompressor(codec); // null: the codec needs none
    try {
      return new Streamed(codec.createInputStream(input, decompressor), decompressor);
    } catch (IOException | RuntimeException failure) {
      CodecPool.returnDecompressor(decompressor);
      input.close();
      throw failure;
    }
  }

  /** Spark tells from these how much a task has read. */
  @SuppressWarnings("deprecation") // of Hadoop's two kinds the newer has no way to add to a file system's
  private static FileSystem.Statistics statistics(FileSystem files) {
    return FileSystem.getStatistics(files.getUri().getScheme(), files.getClass());
  }

  private static final class Local extends TextBytes {
    private final FSDataInputStream input; // owns the descriptor
    private final FileChannel channel;
    private final FileSystem.Statistics statistics;
    private long place;

    Local(FSDataInputStream input, FileDescriptor descriptor, long start, FileSystem.Statistics statistics) {
      this.input = input;
      channel = new FileInputStream(descriptor).getChannel();
      place = start;
      this.statistics = statistics;
    }

    @Override
    int read(ByteBuffer target) throws IOException {
      int found = 0;
      while (target.hasRemaining()) {
        int size = channel.read(target, place);
        if (size < 0) {
          break;
        }
        place += size;
        found += size;
      }
      statistics.incrementBytesRead(found);
      return found;
    }

    @Override
    public void close() throws IOException {
      input.close();
    }
  }

  private static final class Streamed extends TextBytes {
    private final InputStream input;
    private final Decompressor decompressor;
    private final byte[] heap = new byte[CHUNK_BYTES];

    Streamed(InputStream input, Decompressor decompressor) {
      this.input = input;
      this.decompressor = decompressor;
    }

    @Override
    int read(ByteBuffer target) throws IOException {
      int found = 0;
      while (target.hasRemaining()) {
        int wanted = Math.min(heap.length, target.remaining());
        int size = input.readNBytes(heap, 0, wanted);
        target.put(heap, 0, size);
        found += size;
        if (size < wanted) {
          break;
        }
      }
      return found;
    }

    @Override
    public void close() throws IOException {
      try {
        input.close();
      } finally {
        CodecPool.returnDecompressor(decompressor);
      }
    }
  }
}
