package io.pyslash.plugin;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.classic.SparkSession;

/**
 * A Python process beside the driver, which runs `pyslash.side_car`. It comes in by a py4j gateway of its own on
 * the loopback address, whose secret it reads from its standard input, and ends when that input ends: with this JVM,
 * however that ends.
 */
final class SideCar implements AutoCloseable {
  private static final String MODULE = "pyslash.side_car";
  private static final int START_SECONDS = 60;
  private static final int END_SECONDS = 5;
  private static final int SECRET_BYTES = 32;
  private static final int LAST_LINES = 12;

  private final CompletableFuture<Answering> answering = new CompletableFuture<>();
  private final Deque<String> lastLines = new ArrayDeque<>();
  private final PythonGateway gateway;
  private final Interpreter python;
  private final Process process;

  private SideCar(SparkContext spark, SparkSession session) throws IOException {
    python = Interpreter.of(spark.conf());
    byte[] random = new byte[SECRET_BYTES];
    new SecureRandom().nextBytes(random);
    String secret = HexFormat.of().formatHex(random);
    gateway = new PythonGateway(new Door(spark, session, answering), secret);
    try {
      // Without the working directory on its path: the job's modules are not its.
      process = new ProcessBuilder(python.command(), "-P", "-m", MODULE).redirectErrorStream(true).start();
    } catch (IOException missing) {
      gateway.close();
      throw missing;
    }
    Thread reader = new Thread(this::read, "pyslash-side-car");
    reader.setDaemon(true);
    reader.start();
    tell(gateway.port() + " " + secret + "\n");
  }

  /** Starts one and waits until it answers. */
  static SideCar start(SparkContext spark, SparkSession session) throws NoPythonException {
    SideCar started;
    try {
      started = new SideCar(spark, session);
    } catch (IOException missing) {
      Interpreter python = Interpreter.of(spark.conf());
      throw new NoPythonException(reason(python, "cannot be started: " + missing.getMessage()), missing);
    }
    try {
      started.answering.get(START_SECONDS, TimeUnit.SECONDS);
      return started;
    } catch (ExecutionException told) {
      started.close();
      throw new NoPythonException(reason(started.python, told.getCause().getMessage()), told.getCause());
    } catch (TimeoutException late) {
      started.close();
      throw new NoPythonException(
          reason(started.python, "has not answered within " + START_SECONDS + " s" + started.told()), late);
    } catch (InterruptedException stopped) {
      started.close();
      Thread.currentThread().interrupt();
      throw new NoPythonException(reason(started.python, "was not waited for"), stopped);
    }
  }

  boolean isAlive() {
    return process.isAlive();
  }

  Answering answering() {
    return answering.join();
  }

  @Override
  public void close() {
    try {
      process.getOutputStream().close();
      if (!process.waitFor(END_SECONDS, TimeUnit.SECONDS)) {
        process.destroyForcibly();
      }
    } catch (IOException ended) {
      process.destroyForcibly();
    } catch (InterruptedException stopped) {
      process.destroyForcibly();
      Thread.currentThread().interrupt();
    }
    gateway.close();
  }

  /** One line; that the process has ended by then is seen elsewhere. */
  private void tell(String line) {
    try {
      OutputStream input = process.getOutputStream();
      input.write(line.getBytes(StandardCharsets.US_ASCII));
      input.flush();
    } catch (IOException ended) {
      return;
    }
  }

  /** Shows what the process prints, until it ends. What it held of this JVM's is let go of then. */
  private void read() {
    try (BufferedReader output = process.inputReader(StandardCharsets.UTF_8)) {
      for (String line = output.readLine(); line != null; line = output.readLine()) {
        System.err.println(line);
        synchronized (lastLines) {
          lastLines.add(line);
          if (lastLines.size() > LAST_LINES) {
            lastLines.remove();
          }
        }
      }
      int status = process.waitFor();
      answering.completeExceptionally(new NoPythonException("has ended with status " + status + told(), null));
    } catch (IOException | InterruptedException closed) {
      answering.completeExceptionally(new NoPythonException("has ended", closed));
    } finally {
      gateway.close();
    }
  }

  private String told() {
    synchronized (lastLines) {
      return lastLines.isEmpty() ? "" : ":\n" + String.join("\n", lastLines);
    }
  }

  private static String reason(Interpreter python, String what) {
    return "the Python beside the driver, "
        + python.command()
        + " ("
        + python.origin()
        + "), "
        + what
        + (python.isOfJob()
            ? "\nInstall pyslash in the job's environment"
            : "\nName a Python that has pyslash and PySpark by spark.pyspark.driver.python");
  }
}
