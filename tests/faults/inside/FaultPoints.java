package io.pyslash.tests;

import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.ProtectionDomain;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * A JVM agent that calls {@link #reached} at the named points of pyslash's tasks and of Spark's sink of files, of which the product knows nothing:
 * {@code -javaagent:FILE=PYTHON:ROOT:ARMED}. A point strikes while the folder ARMED has a file of its name, which
 * {@code python -m tests.faults.strike}, run in ROOT, reads and obeys.
 */
public final class FaultPoints implements ClassFileTransformer {
  private static final int API = Opcodes.ASM9;

  private enum Where {
    BEGIN,
    END
  }

  private record Point(String name, Where where) {}

  // By class without its package, method and descriptor; what is renamed fails tests, whose faults then strike nobody.
  private static final Map<String, Point> POINTS =
      Map.of(
          "UpdateTask.update(Lorg/apache/spark/TaskContext;Lscala/collection/Iterator;)[B",
              new Point("block published", Where.END),
          "Landing.<init>(Lio/pyslash/merge/MergeSpec$ReadOptions;JLjava/lang/String;)V", new Point("landing made", Where.END),
          "Landing.bring(Ljava/util/Map;Ljava/lang/String;Lio/pyslash/merge/MergeCounts$Bytes;)V",
              new Point("peer landed", Where.END),
          "GatheredBlocks.bring(Z)[J", new Point("blocks taken", Where.END),
          "MergeReader.next()Z", new Point("blocks folded", Where.BEGIN),
          "JoinReader.readPairs()Z", new Point("blocks folded", Where.BEGIN),
          "ManifestFileCommitProtocol.commitJob(Lorg/apache/hadoop/mapreduce/JobContext;Lscala/collection/immutable/Seq;)V",
              new Point("before the sink's commit", Where.BEGIN));
  private static final Set<String> TYPES =
      POINTS.keySet().stream().map(method -> method.substring(0, method.indexOf('.'))).collect(Collectors.toSet());


  private static String python;
  private static String root;
  private static Path armed;

  public static void premain(String options, Instrumentation instrumentation) {
    String[] given = options.split(":", 3);
    python = given[0];
    root = given[1];
    armed = Path.of(given[2]);
    instrumentation.addTransformer(new FaultPoints());
  }

  /** Waits for whatever befalls this task or its processes; throws if the task is to fail. */
  public static void reached(String point) {
    Path order = armed.resolve(point);
    if (!Files.exists(order)) {
      return;
    }
    int status;
    try {
      ProcessBuilder strike = new ProcessBuilder(python, "-m", "tests.faults.strike", order.toString());
      strike.environment().put("PYTHONPATH", root);
      Process process = strike.redirectErrorStream(true).redirectOutput(armed.resolve("log").toFile()).start();
      try {
        status = process.waitFor();
      } catch (InterruptedException killed) {
        process.destroyForcibly();
        Thread.currentThread().interrupt();
        return;
      }
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
    if (status != 0) {
      throw new IllegalStateException("the fault of this test: " + point);
    }
  }

  @Override
  public byte[] transform(
      ClassLoader loader, String type, Class<?> redefined, ProtectionDomain domain, byte[] original) {
    String simple = type.substring(type.lastIndexOf('/') + 1);
    boolean isOurs = type.startsWith("io/pyslash/") || type.startsWith("org/apache/spark/sql/");
    if (!isOurs || !TYPES.contains(simple)) {
      return null;
    }
    ClassReader reader = new ClassReader(original);
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    reader.accept(
        new ClassVisitor(API, writer) {
          @Override
          public MethodVisitor visitMethod(int access, String name, String types, String generic, String[] thrown) {
            MethodVisitor method = super.visitMethod(access, name, types, generic, thrown);
            Point point = POINTS.get(simple + "." + name + types);
            return point == null ? method : new Calls(method, point);
          }
        },
        0);
    return writer.toByteArray();
  }

  private static final class Calls extends MethodVisitor {
    private final Point point;

    Calls(MethodVisitor method, Point point) {
      super(API, method);
      this.point = point;
    }

    @Override
    public void visitCode() {
      super.visitCode();
      if (point.where == Where.BEGIN) {
        call();
      }
    }

    @Override
    public void visitInsn(int code) {
      if (point.where == Where.END && code >= Opcodes.IRETURN && code <= Opcodes.RETURN) {
        call();
      }
      super.visitInsn(code);
    }

    private void call() {
      super.visitLdcInsn(point.name);
      super.visitMethodInsn(
          Opcodes.INVOKESTATIC, "io/pyslash/tests/FaultPoints", "reached", "(Ljava/lang/String;)V", false);
    }
  }
}
