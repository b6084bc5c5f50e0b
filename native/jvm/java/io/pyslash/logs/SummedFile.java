package io.pyslash.logs;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermission;
import java.util.Set;
import java.util.zip.CRC32;

/**
 * A new file, and beside it the checksums that Hadoop's ChecksumFs checks when it reads the file:
 *
 * <pre>"crc" 0 | bytes a checksum covers, 4 bytes | CRC32 of each so many bytes, 4 bytes each, big-endian</pre>
 */
final class SummedFile extends OutputStream {
  private static final int HEADER = 0x63726300;
  private static final int BYTES_PER_SUM = 512; // LocalConfigKeys.BYTES_PER_CHECKSUM_DEFAULT
  private static final int CHUNKS = 128;

  private final FileChannel file;
  private final Path sumsPath;
  private final Set<PosixFilePermission> permissions;
  private final boolean isDurable;
  private final ByteBuffer buffer = ByteBuffer.allocate(BYTES_PER_SUM * CHUNKS);
  private final CRC32 crc = new CRC32();
  private ByteBuffer sums = ByteBuffer.allocate(4 * CHUNKS).putInt(HEADER).putInt(BYTES_PER_SUM);

  /** {@code sumsPath}: null for no checksums. {@code isDurable}: whether to wait at the end until the disk has the file. */
  SummedFile(Path path, Path sumsPath, Set<PosixFilePermission> permissions, boolean isDurable) throws IOException {
    this.file = created(path, permissions);
    this.sumsPath = sumsPath;
    this.permissions = permissions;
    this.isDurable = isDurable;
  }

  @Override
  public void write(int value) throws IOException {
    write(new byte[] {(byte) value}, 0, 1);
  }

  @Override
  public void write(byte[] bytes, int offset, int length) throws IOException {
    int end = offset + length;
    while (offset < end) {
      int count = Math.min(buffer.remaining(), end - offset);
      buffer.put(bytes, offset, count);
      offset += count;
      if (!buffer.hasRemaining()) {
        pass(buffer.position());
      }
    }
  }

  /** Passes whole chunks on: of the last one more may come, and its checksum is of all. */
  @Override
  public void flush() throws IOException {
    pass(buffer.position() / BYTES_PER_SUM * BYTES_PER_SUM);
  }

  @Override
  public void close() throws IOException {
    if (!file.isOpen()) {
      return;
    }
    try (file) {
      pass(buffer.position());
      if (isDurable) {
        file.force(true);
      }
    }
    if (sumsPath != null) {
      // Checksums that a crash has cut short are no checksums to Hadoop: nobody waits for the disk.
      try (FileChannel sumsFile = created(sumsPath, permissions)) {
        writeAll(sumsFile, sums.flip());
      }
    }
  }

  private void pass(int length) throws IOException {
    for (int at = 0; at < length; at += BYTES_PER_SUM) {
      crc.reset();
      crc.update(buffer.array(), at, Math.min(BYTES_PER_SUM, length - at));
      if (!sums.hasRemaining()) {
        sums = ByteBuffer.allocate(sums.capacity() * 2).put(sums.flip());
      }
      sums.putInt((int) crc.getValue());
    }
    buffer.flip();
    writeAll(file, buffer.duplicate().limit(length));
    buffer.position(length).compact();
  }

  private static FileChannel created(Path path, Set<PosixFilePermission> permissions) throws IOException {
    FileChannel created = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
    try {
      // Hadoop's umask is a setting of its own, whatever this process's is.
      Files.setPosixFilePermissions(path, permissions);
      return created;
    } catch (IOException | RuntimeException error) {
      created.close();
      throw error;
    }
  }

  private static void writeAll(FileChannel file, ByteBuffer bytes) throws IOException {
    while (bytes.hasRemaining()) {
      file.write(bytes);
    }
  }
}
