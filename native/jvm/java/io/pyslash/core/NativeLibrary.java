package io.pyslash.core;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Loads the native library out of the jar. A library file belongs to one class loader, and Spark makes a new loader for
 * each session that adds the jar: so each loader unpacks a file of its own, which is deleted as soon as it is mapped.
 */
final class NativeLibrary {
  private static final String RESOURCE = "/io/pyslash/libpyslash_jni.so";

  /** What native/core is compiled to beyond the first x86-64 (x86-64-v3), as Linux names it. */
  private static final Set<String> INSTRUCTIONS = Set.of("avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe");

  private NativeLibrary() {}

  /** Code that the processor does not know would end the executor with SIGILL, and say nothing. */
  private static void checkProcessor() {
    if (!System.getProperty("os.arch").equals("amd64")) {
      return;
    }
    try (Stream<String> lines = Files.lines(Path.of("/proc/cpuinfo"), StandardCharsets.ISO_8859_1)) {
      Optional<String> flags = lines.filter(line -> line.startsWith("flags")).findFirst();
      if (flags.isPresent() && !List.of(flags.get().split("\\s+")).containsAll(INSTRUCTIONS)) {
        throw new SlashException(
            "NativeError",
            "the processor of this executor is older than x86-64-v3, which pyslash is compiled to: it lacks some of "
                + INSTRUCTIONS
                + ". Use other hosts, or build pyslash from its sources without -march=x86-64-v3");
      }
    } catch (IOException unknown) {
      // Nothing is said of the processor, so nothing is known against it.
    }
  }

  static void load() {
    checkProcessor();
    Path file = null;
    try (InputStream packed = NativeLibrary.class.getResourceAsStream(RESOURCE)) {
      if (packed == null) {
        throw new SlashException("NativeError", RESOURCE + " is not in the jar");
      }
      // Files made by createTempFile are readable and writable by their owner alone.
      file = Files.createTempFile("pyslash-", ".so");
      Files.copy(packed, file, StandardCopyOption.REPLACE_EXISTING);
      System.load(file.toString());
    } catch (IOException | UnsatisfiedLinkError error) {
      throw new SlashException(
          "NativeError",
          "cannot load libpyslash_jni.so from " + System.getProperty("java.io.tmpdir") + " (java.io.tmpdir): " + error);
    } finally {
      if (file != null) {
        file.toFile().delete();
      }
    }
  }
}
