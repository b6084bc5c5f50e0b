package io.pyslash.agent;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;

/**
 * How a task finds its executor's agent, or starts it. Travels inside the serialized task, never in an argument list or an
 * environment: it holds the application's secret.
 *
 * @param python null: the executor's PYSPARK_PYTHON, or python3
 * @param pythonPath entries before the executor's own PYTHONPATH, as one string with colons; null: none
 * @param runtimeDirectory null: the agent's default
 */
public record AgentOrder(
    byte[] secret, long arenaBytes, String python, String pythonPath, String runtimeDirectory, int startTimeoutSeconds)
    implements Serializable {
  /** From what Python tells, with bytes in Base64; fails if they are not. */
  public static AgentOrder of(JsonNode told) throws IOException {
    return new AgentOrder(
        told.required("secret").binaryValue(),
        told.required("arena_bytes").longValue(),
        told.required("python").textValue(),
        told.required("python_path").textValue(),
        told.required("runtime_dir").textValue(),
        told.required("start_timeout_seconds").intValue());
  }
}
