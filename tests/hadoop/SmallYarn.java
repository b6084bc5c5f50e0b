import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/**
 * YARN in one process: a resource manager and a node manager, whose containers are processes of this machine.
 *
 * <p>Its argument: the folder for yarn-site.xml, which has their addresses. It says READY, and ends with its standard input.
 */
public final class SmallYarn {
  public static void main(String[] arguments) throws Exception {
    YarnConfiguration conf = new YarnConfiguration();
    conf.setInt(YarnConfiguration.NM_PMEM_MB, 16 * 1024); // whatever this machine has: it is what may be granted
    conf.setInt(YarnConfiguration.RM_SCHEDULER_MINIMUM_ALLOCATION_MB, 128);
    conf.setBoolean(YarnConfiguration.NM_VMEM_CHECK_ENABLED, false);
    conf.setBoolean(YarnConfiguration.NM_DISK_HEALTH_CHECK_ENABLE, false);
    conf.setInt(YarnConfiguration.DEBUG_NM_DELETE_DELAY_SEC, 600); // logs of containers stay
    conf.set("yarn.scheduler.capacity.root.queues", "default");
    conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
    conf.set("yarn.scheduler.capacity.maximum-am-resource-percent", "0.5");
    // A machine may have little room on its disk, and still enough.
    conf.set("yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "100");
    try (MiniYARNCluster cluster = new MiniYARNCluster("cluster", 1, 1, 1)) {
      cluster.init(conf);
      cluster.start();
      if (!cluster.waitForNodeManagersToConnect(120_000)) {
        throw new IllegalStateException("the node manager does not connect");
      }
      try (OutputStream file = new FileOutputStream(arguments[0] + "/yarn-site.xml")) {
        cluster.getConfig().writeXml(file);
      }
      System.out.println("READY");
      while (System.in.read() != -1) {}
    }
    System.exit(0);
  }
}
