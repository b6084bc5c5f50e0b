import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * HDFS in one process: a name node and two data nodes, on loopback.
 *
 * <p>Its argument: the folder for its files, and for core-site.xml, which has its address. It says READY, and ends with its
 * standard input.
 */
public final class SmallHdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set("dfs.replication", "2");
    try (MiniDFSCluster cluster =
        new MiniDFSCluster.Builder(conf, new File(arguments[0], "hdfs")).numDataNodes(2).build()) {
      cluster.waitActive();
      Configuration client = new Configuration(false);
      client.set(FileSystem.FS_DEFAULT_NAME_KEY, cluster.getURI().toString());
      try (OutputStream file = new FileOutputStream(new File(arguments[0], "core-site.xml"))) {
        client.writeXml(file);
      }
      System.out.println("READY");
      while (System.in.read() != -1) {}
    }
    System.exit(0);
  }
}
