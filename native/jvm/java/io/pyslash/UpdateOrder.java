package io.pyslash;

import java.io.Serializable;

/**
 * What the driver tells every task of an update job. Travels inside the serialized task, never in an argument list or an
 * environment: it holds the application's secret.
 */
final class UpdateOrder implements Serializable {
  private static final long serialVersionUID = 1L;

  final byte[] planText;
  final long watermarkMicros;
  final byte[] query;
  final long epoch;
  final byte[] secret;
  final long arenaBytes;
  /** Null: the executor's PYSPARK_PYTHON, or python3. */
  final String python;
  /** Entries before the executor's own PYTHONPATH, as one string with colons; null: none. */
  final String pythonPath;
  /** Null: the agent's default. */
  final String runtimeDirectory;
  final int startTimeoutSeconds;

  UpdateOrder(
      byte[] planText,
      long watermarkMicros,
      byte[] query,
      long epoch,
      byte[] secret,
      long arenaBytes,
      String python,
      String pythonPath,
      String runtimeDirectory,
      int startTimeoutSeconds) {
    this.planText = planText;
    this.watermarkMicros = watermarkMicros;
    this.query = query;
    this.epoch = epoch;
    this.secret = secret;
    this.arenaBytes = arenaBytes;
    this.python = python;
    this.pythonPath = pythonPath;
    this.runtimeDirectory = runtimeDirectory;
    this.startTimeoutSeconds = startTimeoutSeconds;
  }
}
