package io.pyslash.ingest;

import io.pyslash.catalyst.OnlySpark;
import io.pyslash.catalyst.WindowedInput;
import io.pyslash.shim.Watermark;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** What lies between files and the aggregation over them: told from the top down, a node at a time. */
final class ScanPath {
  private static final String MOMENT = ""; // in the place of a name: all rows are of the moment 0

  /** A join with a static table; rows of the files without one there are kept if it is `outer`. */
  record Join(boolean late, boolean outer, Seq<Attribute> columns) {}

  private final List<Expression> filters = new ArrayList<>();
  private final List<Expression> lateFilters = new ArrayList<>();
  private final List<Seq<NamedExpression>> projections = new ArrayList<>();
  private final List<Join> joins = new ArrayList<>();
  private Attribute watermarked; // the event time whose watermark is above the files, if there is one

  void project(Seq<NamedExpression> projection) {
    projections.add(projection);
  }

  void filter(Expression condition) {
    // A row that is dropped above the watermark has moved it.
    (watermarked != null ? filters : lateFilters).add(condition);
  }

  /** Spark's operator that collects event times. */
  void watermark(SparkPlan operator) {
    if (watermarked != null) {
      throw new OnlySpark("it has several watermarks");
    }
    watermarked = Watermark.time(operator);
  }

  /** The path's rows are joined with a static table of these columns. */
  Join join(JoinType type, boolean tableIsRight, Seq<Attribute> columns) {
    boolean outer = type.equals(tableIsRight ? LeftOuter$.MODULE$ : RightOuter$.MODULE$);
    if (!outer && !type.equals(Inner$.MODULE$)) {
      throw new OnlySpark(
          type instanceof ExistenceJoin // that of `IN (SELECT ...) OR ...`, which has no SQL
              ? "it asks whether a table has a row"
              : "it is a " + type.sql() + " join");
    }
    Join join = new Join(watermarked == null, outer, columns);
    joins.add(join);
    return join;
  }

  OnlySpark obstacle(String node) {
    return new OnlySpark(node + " stands between the files and the aggregation");
  }

  /** The end of the path is reached. */
  void end() {
    if (watermarked == null) {
      filters.addAll(lateFilters);
      lateFilters.clear();
    }
    Collections.reverse(projections); // from the files up
  }

  /** The files' columns, and those of static tables, by the id of every attribute that is one, renamed or not. */
  Map<Long, String> namesOfAll(Map<Long, String> ofFiles) {
    if (ofFiles.containsValue(MOMENT)) {
      throw new OnlySpark("a column of the files has no name");
    }
    Map<Long, String> names = new HashMap<>(ofFiles);
    for (int join = 0; join < joins.size(); join++) {
      int column = 0;
      for (Attribute attribute : CollectionConverters.asJava(joins.get(join).columns())) {
        String name = join + "." + column++;
        if (ofFiles.containsValue(name)) {
          throw new OnlySpark("a column of the files is called " + name);
        }
        names.put(attribute.exprId().id(), name);
      }
    }
    return names(names);
  }

  /** The columns by the id of every attribute that is one of them, renamed or not; those of the lowest known. */
  Map<Long, String> names(Map<Long, String> ofLowest) {
    Map<Long, String> names = new HashMap<>(ofLowest);
    for (Seq<NamedExpression> projection : projections) {
      for (NamedExpression projected : CollectionConverters.asJava(projection)) {
        if (projected instanceof Alias alias && alias.child() instanceof Attribute attribute) {
          String name = names.get(attribute.exprId().id());
          if (name != null) {
            names.put(alias.exprId().id(), name);
          }
        } else if (WindowedInput.isMoment(projected)) {
          names.put(projected.exprId().id(), MOMENT);
        } else if (!(projected instanceof Attribute)) {
          throw new OnlySpark("it computes " + ((Expression) projected).sql());
        }
      }
    }
    return names;
  }

  /** Name and type of the column whose watermark is above the files; nothing if there is none. */
  List<String> time(Map<Long, String> names) {
    if (watermarked == null) {
      return List.of();
    }
    String name = names.get(watermarked.exprId().id());
    if (name == null) {
      throw new OnlySpark("the event time " + watermarked.name() + " is not a column of the files");
    }
    return List.of(name, watermarked.dataType().simpleString());
  }

  /** Of each output of the top, its column's name and its type; no name: all rows are of the moment 0. */
  static List<Object> columns(Seq<Attribute> output, Map<Long, String> names) {
    List<Object> columns = new ArrayList<>();
    for (Attribute attribute : CollectionConverters.asJava(output)) {
      String name = names.get(attribute.exprId().id());
      if (name == null) {
        throw new OnlySpark("the column " + attribute.name() + " is neither of the files nor of a table joined");
      }
      columns.add(List.of(name, attribute.dataType().simpleString()));
    }
    return columns;
  }

  List<Object> filters(Map<Long, String> names) {
    return new FilterText(names).of(filters);
  }

  List<Object> lateFilters(Map<Long, String> names) {
    return new FilterText(names).of(lateFilters);
  }
}
