package io.pyslash;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

/**
 * Loads the native library out of the jar. A library file belongs to one class loader, and Spark makes a new loader for
 * each session that adds the jar: so each loader unpacks a file of its own, which is deleted as soon as it is mapped.
 */
final class NativeLibrary {
  private static final String RESOURCE = "libpyslash_jni.so";

  private NativeLibrary() {}

  static void load() {
    Path file = null;
    try (InputStream packed = NativeLibrary.class.getResourceAsStream(RESOURCE)) {
      if (packed == null) {
        throw new SlashException("internal", RESOURCE + " is not in the jar of io.pyslash");
      }
      // Files made by createTempFile are readable and writable by their owner alone.
      file = Files.createTempFile("pyslash-", ".so");
      Files.copy(packed, file, StandardCopyOption.REPLACE_EXISTING);
      System.load(file.toString());
    } catch (IOException | UnsatisfiedLinkError error) {
      throw new SlashException(
          "internal",
          "cannot load " + RESOURCE + " from " + System.getProperty("java.io.tmpdir") + " (java.io.tmpdir): " + error);
    } finally {
      if (file != null) {
        file.toFile().delete();
      }
    }
  }
}
