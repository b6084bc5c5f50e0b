package io.pyslash.agent;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.pyslash.core.SlashException;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskKilledException;

/** The agent of this executor: found or started by the first task, looked after by every other one. */
public final class AgentProcess {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int EXTRA_SECONDS = 10;
  private static final int MOST_SAID = 500;
  private static final String OTHER_PYTHON = ". Let PYSPARK_PYTHON, or spark.pyspark.python for spark-submit, name a "
                                             + "Python 3.11 or later that has pyslash, as it is on "
      + "the executors' hosts";
  private static final Map<String, Agent> AGENTS = new HashMap<>();

  private AgentProcess() {}

  /** An agent that lives; a dead one's successor has another incarnation, and nothing of what the dead one held. */
  public static synchronized Agent ensure(AgentOrder order) {
    String key = nameOf(order.secret());
    Agent known = AGENTS.get(key);
    if (known != null) {
      if (known.isAlive()) {
        return known;
      }
      AGENTS.remove(key);
      known.close();
    }
    Agent started = start(order);
    AGENTS.put(key, started);
    return started;
  }

  private static Agent start(AgentOrder order) {
    String python = python(order);
    String output;
    int status;
    Process process = null;
    try {
      // -P: an executor's working directory holds files of the job, which must not shadow modules.
      ProcessBuilder command = new ProcessBuilder(python, "-P", "-m", "pyslash.agent", "ensure");
      command.redirectErrorStream(true);
      extendPythonPath(command.environment(), order.pythonPath());
      process = command.start();
      try (OutputStream request = process.getOutputStream()) {
        request.write(JSON.writeValueAsBytes(request(order)));
      } catch (IOException ended) {
        // It did not read its request; what it has said, or its status, tells why.
      }
      if (!process.waitFor(order.startTimeoutSeconds() + EXTRA_SECONDS, TimeUnit.SECONDS)) {
        throw failed(python, "did not end within " + (order.startTimeoutSeconds() + EXTRA_SECONDS) + " s");
      }
      status = process.exitValue();
      output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
    } catch (IOException error) {
      throw failed(python, error.getMessage() + OTHER_PYTHON);
    } catch (InterruptedException killed) {
      throw new TaskKilledException("killed while the agent was started");
    } finally {
      if (process != null) {
        process.destroyForcibly();
      }
    }
    String answer = output.substring(output.lastIndexOf('\n') + 1);
    if (status != 0) {
      throw failed(python, reason(status, answer, output));
    }
    try {
      return Agent.open(answer);
    } catch (IOException | IllegalArgumentException error) {
      throw failed(python, "printed no descriptor: " + output);
    }
  }

  private static ObjectNode request(AgentOrder order) {
    String host = SparkEnv.get().blockManager().blockManagerId().host();
    ObjectNode request = JSON.createObjectNode();
    request.put("secret", HexFormat.of().formatHex(order.secret()));
    request.put("arena_bytes", order.arenaBytes());
    request.put("jvm_pid", ProcessHandle.current().pid());
    request.put("host", host.startsWith("[") ? host.substring(1, host.length() - 1) : host);
    request.put("runtime_dir", order.runtimeDirectory());
    request.put("deadline_seconds", order.startTimeoutSeconds());
    // In local mode the driver is the one executor, and no other host has anything to ask of its agent.
    request.put("tcp", !"driver".equals(SparkEnv.get().executorId()));
    return request;
  }

  private static String python(AgentOrder order) {
    if (order.python() != null && !order.python().isEmpty()) {
      return order.python();
    }
    String configured = System.getenv("PYSPARK_PYTHON");
    return configured != null && !configured.isEmpty() ? configured : "python3";
  }

  private static void extendPythonPath(Map<String, String> environment, String entries) {
    if (entries != null && !entries.isEmpty()) {
      String own = environment.get("PYTHONPATH");
      environment.put("PYTHONPATH", own == null || own.isEmpty() ? entries : entries + File.pathSeparator + own);
    }
  }

  /** The agent's own words if it could still speak, else why Python could not run it, and what to set then. */
  private static String reason(int status, String answer, String output) {
    try {
      JsonNode error = JSON.readTree(answer);
      if (error.has("message")) {
        return error.get("message").textValue();
      }
    } catch (IOException notJson) {
      // The interpreter itself failed, for instance for want of the module.
    }
    return cause(status, output) + OTHER_PYTHON;
  }

  /** The exception of the last traceback; of a Python that has not come as far, what it said. */
  private static String cause(int status, String output) {
    if (output.isEmpty()) {
      return "it ended with status " + status + " and said nothing";
    }
    int traceback = output.lastIndexOf("Traceback (most recent call last):");
    if (traceback < 0) {
      return output.substring(Math.max(0, output.length() - MOST_SAID));
    }
    // Frames are indented; an exception's own message may go over several lines.
    return output.substring(traceback)
        .lines()
        .skip(1)
        .dropWhile(line -> line.startsWith(" "))
        .collect(Collectors.joining(" "));
  }

  /** On one line, as the driver reads messages of tasks. */
  private static SlashException failed(String python, String reason) {
    return new SlashException("AgentStartError",
        "`" + python + " -P -m pyslash.agent ensure`: " + reason.replaceAll("\\s*\\R\\s*", " "));
  }

  /** Tells applications of one JVM apart without keeping a second copy of their secret. */
  private static String nameOf(byte[] secret) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(secret));
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error);
    }
  }
}
