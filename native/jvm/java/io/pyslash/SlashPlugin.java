package io.pyslash;

import io.pyslash.plugin.DriverSide;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.SparkPlugin;

/**
 * `spark.plugins=io.pyslash.SlashPlugin`: pyslash in every session of an application, in whatever language it is
 * written.
 */
public final class SlashPlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new DriverSide();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return null; // the driver orders what executors do
  }
}
