package io.pyslash.ingest;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ObjectConsumer;
import org.apache.spark.sql.catalyst.plans.logical.ObjectProducer;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** A table that a stream is joined with, as one micro-batch sees it. */
public final class StaticTable {
  private static final int MOST_FILES = 64; // to ask of each whether it has changed
  // A file that was younger when it was asked may have been written again since, within the same tick of its times.
  private static final long SETTLED_MILLIS = 60_000;

  private static final Seq<Expression> NONE = CollectionConverters.asScala(List.<Expression>of()).toSeq();

  private final SparkSession session;
  private final LogicalPlan plan;
  private final long askedMillis = System.currentTimeMillis();
  private final Optional<List<FileStatus>> files;

  public StaticTable(SparkSession session, LogicalPlan plan) {
    this.session = session;
    this.plan = plan;
    this.files = files();
  }

  /** Its rows. */
  public Dataset<Row> rows() {
    return Dataset.ofRows(session, plan);
  }

  /** Whether its rows are certain to be those of an earlier micro-batch's: the same plan over files that are as old. */
  public boolean isSameAs(StaticTable earlier) {
    return files.isPresent()
        && earlier.files.isPresent()
        && earlier.hasFiles(files.get())
        && plan.sameResult(earlier.plan);
  }

  private boolean hasFiles(List<FileStatus> later) {
    List<FileStatus> known = files.get();
    if (known.size() != later.size()) {
      return false;
    }
    for (int i = 0; i < known.size(); i++) {
      FileStatus one = known.get(i);
      FileStatus other = later.get(i);
      if (!one.getPath().equals(other.getPath())
          || one.getLen() != other.getLen()
          || one.getModificationTime() != other.getModificationTime()
          || one.getModificationTime() > askedMillis - SETTLED_MILLIS) {
        return false;
      }
    }
    return true;
  }

  /** What all its rows come from, asked anew; empty if that is not a few files and constants alone. */
  private Optional<List<FileStatus>> files() {
    if (!plan.deterministic() || plan.subqueriesAll().nonEmpty() || asksUsers(plan)) {
      return Optional.empty();
    }
    List<FileStatus> found = new ArrayList<>();
    Configuration configuration = session.sessionState().newHadoopConf();
    for (LogicalPlan leaf : CollectionConverters.asJava(plan.collectLeaves())) {
      if (leaf instanceof LocalRelation) {
        continue;
      }
      if (!(leaf instanceof LogicalRelation relation && relation.relation() instanceof HadoopFsRelation ofFiles)) {
        return Optional.empty();
      }
      List<Path> paths = paths(ofFiles.location());
      if (paths.size() > MOST_FILES - found.size()) {
        return Optional.empty();
      }
      for (Path file : paths) {
        try {
          found.add(file.getFileSystem(configuration).getFileStatus(file));
        } catch (IOException gone) {
          return Optional.empty(); // Spark is to say what that means
        }
      }
    }
    return Optional.of(found);
  }

  /** Spark's own indexes write paths as parts of a URL. */
  private static List<Path> paths(FileIndex index) {
    FileIndex listed = index instanceof CatalogFileIndex catalog ? catalog.filterPartitions(NONE) : index;
    return listed instanceof PartitioningAwareFileIndex known
        ? CollectionConverters.asJava(known.allFiles()).stream().map(FileStatus::getPath).toList()
        : Arrays.stream(listed.inputFiles()).map(Path::new).toList();
  }

  /** Whether a function of the user's is called, which Spark does in each micro-batch: it may look at anything. */
  private static boolean asksUsers(LogicalPlan plan) {
    return plan.exists(
        node ->
            node instanceof ObjectProducer
                || node instanceof ObjectConsumer
                || CollectionConverters.asJava(node.expressions()).stream()
                    .anyMatch(one -> one.exists(part -> part instanceof UserDefinedExpression)));
  }
}
