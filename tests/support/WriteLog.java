package io.pyslash.tests;

import java.io.OutputStream;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Writes one log file as Spark does, {@code CLASS FOLDER NAME CONTENT}, in a process that dies of a system call. */
public final class WriteLog {
  private WriteLog() {}

  public static void main(String[] arguments) throws Exception {
    byte[] content = Files.readAllBytes(java.nio.file.Path.of(arguments[3]));
    Path folder = new Path("file:" + arguments[1]);
    Object manager = Class.forName(arguments[0])
        .getConstructor(Path.class, Configuration.class)
        .newInstance(folder, new Configuration());
    try (OutputStream stream = (OutputStream) manager.getClass()
        .getMethod("createAtomic", Path.class, boolean.class)
        .invoke(manager, new Path(folder, arguments[2]), false)) {
      stream.write(content);
    }
  }
}
