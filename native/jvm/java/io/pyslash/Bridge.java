package io.pyslash;

import io.pyslash.agent.Executors;
import io.pyslash.backlog.BacklogRules;
import io.pyslash.backlog.BacklogRules.Order;
import io.pyslash.backlog.BacklogSource;
import io.pyslash.backlog.Estimates;
import io.pyslash.catalyst.LocalRows;
import io.pyslash.catalyst.Origin;
import io.pyslash.catalyst.OverlappingWindows;
import io.pyslash.catalyst.PlannedQuery;
import io.pyslash.catalyst.StreamingAggregate;
import io.pyslash.catalyst.StreamingDeduplicate;
import io.pyslash.core.Json;
import io.pyslash.ingest.FileScan;
import io.pyslash.ingest.NativeInput;
import io.pyslash.ingest.Reads;
import io.pyslash.ingest.RecordOutlook;
import io.pyslash.ingest.ScanOutlook;
import io.pyslash.ingest.StaticTable;
import io.pyslash.ingest.TaskInputs;
import io.pyslash.ingest.UpdateResult;
import io.pyslash.ingest.UpdateRows;
import io.pyslash.ingest.UpdateSpec;
import io.pyslash.ingest.UpdateTask;
import io.pyslash.join.StreamingJoin;
import io.pyslash.kafka.KafkaLag;
import io.pyslash.merge.ArrowRows;
import io.pyslash.merge.CloseHomes;
import io.pyslash.merge.MergeCounts;
import io.pyslash.merge.MergeSpec;
import io.pyslash.merge.MergedRows;
import io.pyslash.merge.RowsDataset;
import io.pyslash.migrate.ProcessorExport;
import io.pyslash.migrate.StateExport;
import io.pyslash.migrate.StateStores;
import io.pyslash.plugin.DriverSide;
import io.pyslash.shim.BegunQuery;
import io.pyslash.shim.DriverAnswers;
import io.pyslash.shim.InputWatermark;
import io.pyslash.shim.RunningStream;
import io.pyslash.shim.SparkShim;
import io.pyslash.shim.StatefulNodes;
import io.pyslash.transform.HomeTasks;
import io.pyslash.transform.StreamingTransform;
import io.pyslash.transform.Unpacked;
import io.pyslash.ui.Watch;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rdd.UnionRDD;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SQLExecutionRDD;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/** The driver's door to the row bridge; called from Python through py4j, hence an object, with plain arguments. */
public final class Bridge {
  /** Fails if this release of Spark lacks what pyslash takes of it by name. */
  public Bridge() {
    SparkShim.check();
  }

  /**
   * Runs the update job that a request (JSON, as {@link UpdateSpec} reads it) describes over the rows of a plan, columns =
   * event time and the native plan's columns in order; gives what {@link UpdateResult} describes, in Base64: py4j's Python
   * reads an array byte by byte.
   */
  public String update(SparkPlan rows, String request) {
    UpdateSpec spec = UpdateSpec.parse(request);
    NativeInput read = new NativeInput(rows, spec.reads());
    UpdateRows input = new UpdateRows(read.plan(), spec.keepsTimeless());
    TaskInputs inputs = TaskInputs.of(input.rows);
    UpdateTask task = new UpdateTask(spec.order(), rows.schema(), input.withoutWatermark, inputs.lateMetric());
    return Base64.getEncoder().encodeToString(UpdateResult.of(task.run(input.rows), read, inputs));
  }

  /** The same rows, read natively where that is exact; the plan is not executed. */
  public NativeInput natively(SparkPlan rows) {
    return new NativeInput(rows, Reads.ALL);
  }

  /** The rows of a query that has a checkpoint, in a session of the settings (in JSON) that Spark's log keeps of it. */
  public Dataset<Row> begun(Dataset<Row> rows, String settings) {
    return BegunQuery.of(rows, settings);
  }

  /** The physical plan of a streaming query that has not started. */
  public SparkPlan planned(SparkSession session, LogicalPlan analysed, OutputMode mode) {
    return PlannedQuery.of(session, analysed, mode);
  }

  /** The analysed plan with few windows a row; the plan itself where it has few. */
  public LogicalPlan withTruncatedWindows(LogicalPlan analysed) {
    return OverlappingWindows.withTruncatedWindows(analysed);
  }

  /** The names of the streaming sources of an analysed plan: a list, in JSON. */
  public String sources(LogicalPlan analysed) {
    return Json.of(BacklogSource.sources(analysed));
  }

  /** The analysed plan, its Kafka topics or files read in this order ({@link BacklogRules.Order}). */
  public LogicalPlan withOrder(LogicalPlan analysed, String order, long latencyMs, long expireMs, boolean sheds) {
    return BacklogSource.with(analysed, new BacklogRules(Order.valueOf(order), latencyMs, expireMs, sheds));
  }

  /** Why a query of this analysed plan cannot do with samples of its records; null if it can. */
  public String sampleObstacle(SparkSession session, LogicalPlan analysed) {
    return Estimates.obstacle(session.sessionState().sqlParser(), analysed);
  }

  /** The plan of what a query estimates by samples, when a micro-batch would take longer than so long. */
  public LogicalPlan sampled(SparkSession session, LogicalPlan analysed, long latencyMs) {
    BacklogRules rules = new BacklogRules(Order.SAMPLED, latencyMs, Long.MAX_VALUE, false);
    return Estimates.of(session.sessionState().sqlParser(), analysed, rules);
  }

  /** What a micro-batch of such a plan reads, a {@link BacklogSource.Step} in JSON; null if it reads nothing so. */
  public String backlogStep(SparkPlan batch) {
    return BacklogSource.step(batch);
  }

  /** So much of such a micro-batch, what it has taken, was so long under way. */
  public void backlogTook(SparkPlan batch, long size, long ms) {
    BacklogSource.took(batch, size, ms);
  }

  /** The operators of a physical plan that keep state between micro-batches, each behind those below it. */
  public List<SparkPlan> statefulOperators(SparkPlan plan) {
    return StatefulNodes.of(plan);
  }

  /** The classes of these operators without their packages: a list, in JSON. */
  public String names(List<SparkPlan> operators) {
    return Json.of(operators.stream().map(one -> one.getClass().getSimpleName()).toList());
  }

  /** The `StreamExecution` whose thread this is, of a query that the session has started. */
  public Object runningQuery(SparkSession session) {
    return RunningStream.of(session);
  }

  /** How many records of Kafka topics a micro-batch has left for those behind it; -1 if it reads none. */
  public long recordsBehind(SparkPlan batch) {
    return KafkaLag.of(batch);
  }

  /** The watermarks out of which Spark makes that of a query, by its `StreamExecution`. */
  public List<InputWatermark> inputWatermarks(Object stream) {
    return InputWatermark.of(stream);
  }

  /** The physical plan of the micro-batch that a `StreamExecution` is running; copies of its nodes count in them. */
  public SparkPlan runningPlan(Object stream) {
    SparkPlan plan = RunningStream.lastExecution(stream).executedPlan();
    Origin.mark(plan);
    return plan;
  }

  /** Spark's own state stores below {@code target}, of which a version is to be written; {@code staging} is a folder for that. */
  public StateStores stateStores(SparkSession session, String staging, String target, long version) {
    return new StateStores(session, staging, target, version);
  }

  /** Writes rows, their first columns {@code key} and the others {@code value} (JSON of their schemas). Returns their number. */
  public long exportState(StateStores stores, String key, String value, Dataset<Row> rows) {
    StructType keys = (StructType) DataType.fromJson(key);
    return new StateExport(stores, keys, (StructType) DataType.fromJson(value)).write(rows);
  }

  /** What writes the variables of a processor whose keys have this schema (JSON), and its timers. */
  public ProcessorExport processorExport(StateStores stores, String key, String timeMode) {
    return new ProcessorExport(stores, (StructType) DataType.fromJson(key), timeMode);
  }

  /** The aggregation whose state this operator of the plan saves, in this output mode (in lower case). */
  public StreamingAggregate aggregate(SparkPlan plan, SparkPlan save, String mode, boolean byKeys) {
    return new StreamingAggregate(plan, save, mode, byKeys);
  }

  /** The deduplication that this operator of the plan does. */
  public StreamingDeduplicate deduplicate(SparkPlan plan, SparkPlan operator) {
    return new StreamingDeduplicate(plan, operator);
  }

  /** The join of two streams that this operator of the plan does. */
  public StreamingJoin join(SparkPlan plan, SparkPlan operator) {
    return new StreamingJoin(plan, operator);
  }

  /** The transformation by a user's processor in Python that this operator of the plan does. */
  public StreamingTransform transform(SparkPlan plan, SparkPlan operator) {
    return new StreamingTransform(plan, operator);
  }

  /**
   * The rows of a plan whose partitions are homes, in so many tasks: each has a range of homes.
   *
   * @param initial a plan of the same columns, whose rows come first in each home; null: there is none
   */
  public Dataset<Row> byHomes(SparkSession session, SparkPlan plan, SparkPlan initial, int tasks) {
    RDD<InternalRow> homes = executed(session, plan);
    RDD<InternalRow> all = initial != null ? followed(executed(session, initial), homes) : homes;
    HomeTasks places = new HomeTasks(homes.getNumPartitions());
    return RowsDataset.of(session, all.coalesce(tasks, false, Option.apply(places), null), plan.schema());
  }

  /** The partitions of both; Spark's own union may unite partitions. */
  private static RDD<InternalRow> followed(RDD<InternalRow> first, RDD<InternalRow> second) {
    ClassTag<InternalRow> rows = ClassTag$.MODULE$.apply(InternalRow.class);
    return new UnionRDD<>(first.sparkContext(), CollectionConverters.asScala(List.of(first, second)).toSeq(), rows);
  }

  /** The rows, of this schema (JSON), that lie packed in a column of others, each value an Arrow IPC stream. */
  public Dataset<Row> unpacked(SparkSession session, Dataset<Row> packed, int column, String schema) {
    return Unpacked.of(session, packed, column, schema);
  }

  /**
   * A micro-batch's whole plan, its join done by tasks as an order (JSON, as {@link MergeSpec} reads it) describes. Tasks
   * count the bytes that they read and the rows that they give; {@code keeps}: they leave in memory what they have read.
   */
  public SparkPlan joined(StreamingJoin join, String order, int tasks, boolean keeps, MergeCounts counts) {
    MergeSpec parsed = MergeSpec.parse(order);
    return join.over(parsed, tasks, keeps, executors(parsed.home), counts);
  }

  /**
   * The rows of a micro-batch's plan without operators that keep state: by a job when they are asked for, or at hand if they
   * need none. If there are no rows, they have a partition, as Spark's have.
   *
   * @param batch of which they have the schema, as Spark has it: its optimizer may know more of what is never null
   */
  public Dataset<Row> rows(SparkSession session, SparkPlan plan, Dataset<Row> batch) {
    StructType schema = batch.schema();
    List<InternalRow> few = LocalRows.of(plan);
    if (few == null) {
      SQLExecutionRDD rows = executed(session, plan);
      boolean isOfNone = rows.getNumPartitions() == 0; // such as a join of merged rows, of which there are none
      return isOfNone ? RowsDataset.ofNone(session, schema) : RowsDataset.of(session, rows, schema);
    }
    return few.isEmpty() ? RowsDataset.ofNone(session, schema) : RowsDataset.of(session, few, schema);
  }

  /** The rows that a plan gives when it is executed once more: what Spark counts stays as it is. */
  public Dataset<Row> again(SparkSession session, SparkPlan plan) {
    return RowsDataset.of(session, new SQLExecutionRDD(plan.execute(), session.sessionState().conf()), plan.schema());
  }

  private static SQLExecutionRDD executed(SparkSession session, SparkPlan plan) {
    return new SQLExecutionRDD(Origin.counting(plan).execute(), session.sessionState().conf());
  }

  /** The files that a micro-batch reads. */
  public FileScan scan(SparkPlan rows) {
    return new FileScan(rows);
  }

  /** A static table by its optimized plan. */
  public StaticTable staticTable(SparkSession session, LogicalPlan plan) {
    return new StaticTable(session, plan);
  }

  /** Why only Spark can read this input of a query that has not started; null: nothing is known against it. */
  public String scanObstacle(SparkPlan input) {
    return ScanOutlook.obstacle(input);
  }

  /** How records of a query that has not started will be read, as {@link RecordOutlook} describes it. */
  public String recordOutlook(SparkSession session, LogicalPlan analysed) {
    return RecordOutlook.of(session, analysed);
  }

  /** Counts of what merge tasks do, all zero. */
  public MergeCounts mergeCounts(SparkContext spark) {
    return new MergeCounts(spark);
  }

  /**
   * The merged rows that an order (JSON, as {@link MergeSpec} reads it) describes, as a Dataset of this schema (JSON).
   * Tasks count the bytes that they read and the rows that they give; {@code keeps}: they leave in memory what they have
   * read, if the order says what to keep.
   */
  public Dataset<Row> merge(
      SparkSession session, String order, String schema, int tasks, boolean keeps, MergeCounts counts) {
    StructType columns = (StructType) DataType.fromJson(schema);
    MergeSpec parsed = MergeSpec.parse(order);
    String[] places = !keeps ? new String[0] : executors(parsed.home); // to ask who is there costs a message
    MergedRows rows = new MergedRows(parsed, columns, tasks, keeps, places, counts);
    return Dataset.ofRows(session, DataSourceV2Relation.create(rows, Option.empty(), Option.empty()));
  }

  /** Whether {@link #merged} takes rows in this JVM, and not only that there are none. */
  public boolean takesMerged() {
    return ArrowRows.arePossible();
  }

  /** Merged rows (an Arrow IPC stream; empty: none) that the driver has at hand, as a Dataset of this schema (JSON). */
  public Dataset<Row> merged(SparkSession session, byte[] rows, String schema) {
    StructType columns = (StructType) DataType.fromJson(schema);
    return RowsDataset.of(session, ArrowRows.read(rows, columns), columns);
  }

  /** What tells Spark's listener bus of queries; null if nobody would see it. */
  public Watch watch(SparkContext spark) {
    return Watch.of(spark);
  }

  /** What asks Python about queries that start in this application. */
  public DriverSide driver(SparkContext spark) {
    return DriverSide.of(spark);
  }

  /**
   * The executors beside the driver, as tasks name them that would rather run there. Queries with fewer homes than there
   * are executors begin with different ones.
   */
  private static String[] executors(MergeSpec.Home home) {
    String[] places =
        Arrays.stream(Executors.processes())
            .filter(id -> !id.isDriver())
            .map(id -> "executor_" + id.host() + "_" + id.executorId())
            .sorted()
            .toArray(String[]::new);
    Collections.rotate(Arrays.asList(places), Arrays.hashCode(home.query()));
    return places;
  }

  /** What answers tasks that have to read all blocks: with those of a version, by its number. */
  public DriverAnswers answers(Function<String, String> blocks) {
    return new DriverAnswers(blocks);
  }

  /**
   * Has executors forget the groups that they keep of a query, by a task a core. Where the driver is the executor too,
   * its tasks have classes, and native code, of their own.
   */
  public void closeHomes(SparkContext spark, byte[] query) {
    JavaSparkContext context = JavaSparkContext.fromSparkContext(spark);
    int tasks = context.defaultParallelism();
    context.parallelize(Collections.nCopies(tasks, 0), tasks).foreach(new CloseHomes(query));
  }
}
