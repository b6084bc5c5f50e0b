package io.pyslash.connect;

import io.pyslash.plugin.DriverSide;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.connect.proto.Relation;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connect.planner.SparkConnectPlanner;
import org.apache.spark.sql.connect.plugin.RelationPlugin;
import org.sparkproject.connect.protobuf.Any;
import org.sparkproject.connect.protobuf.ByteString;
import org.sparkproject.connect.protobuf.InvalidProtocolBufferException;
import org.sparkproject.connect.protobuf.UnknownFieldSet;

/**
 * What `pyslash.connect` asks of a Spark Connect server. A question is a relation, since a relation has an answer: rows. Its
 * message is the one that `pyslash/connect.py` declares; the number of its form is in its name.
 */
public final class ClientQuestions implements RelationPlugin {
  private static final String PACKAGE = "pyslash.connect.";
  private static final String QUESTION = PACKAGE + "v1.Question";
  private static final int KIND = 1;
  private static final int WORDS = 2;
  private static final int ROWS = 3;

  @Override
  public Optional<LogicalPlan> transform(byte[] relation, SparkConnectPlanner planner) {
    try {
      Any asked = Any.parseFrom(relation);
      String name = asked.getTypeUrl().substring(asked.getTypeUrl().lastIndexOf('/') + 1);
      if (!name.startsWith(PACKAGE)) {
        return Optional.empty(); // another plugin's
      }
      if (!name.equals(QUESTION)) {
        throw new IllegalArgumentException(
            "UnsupportedQueryError: the client asks " + name + ", and this server's pyslash knows " + QUESTION
                + ": install the same pyslash on both");
      }
      return Optional.of(answer(UnknownFieldSet.parseFrom(asked.getValue()), planner));
    } catch (InvalidProtocolBufferException damaged) {
      throw new IllegalArgumentException("InvalidInputError: no message: " + damaged.getMessage(), damaged);
    }
  }

  private static LogicalPlan answer(UnknownFieldSet question, SparkConnectPlanner planner)
      throws InvalidProtocolBufferException {
    SparkSession session = planner.session();
    List<ByteString> kind = values(question, KIND);
    List<ByteString> rows = values(question, ROWS);
    if (kind.size() != 1 || rows.size() > 1) {
      throw new InvalidProtocolBufferException("one kind, and at most one relation");
    }
    Dataset<Row> about =
        rows.isEmpty() ? null : Dataset.ofRows(session, planner.transformRelation(Relation.parseFrom(rows.get(0))));
    Object answer = DriverSide.ask(session, kind.get(0).toStringUtf8(), words(question), about);
    return answer instanceof Dataset<?> table
        ? table.logicalPlan()
        : session.createDataset(List.of((String) answer), Encoders.STRING()).logicalPlan();
  }

  /** A map's entries are messages of a name and a value. */
  private static Map<String, String> words(UnknownFieldSet question) throws InvalidProtocolBufferException {
    Map<String, String> words = new HashMap<>();
    for (ByteString entry : values(question, WORDS)) {
      UnknownFieldSet word = UnknownFieldSet.parseFrom(entry);
      words.put(text(word, 1), text(word, 2));
    }
    return words;
  }

  private static String text(UnknownFieldSet message, int field) {
    List<ByteString> found = values(message, field);
    return found.isEmpty() ? "" : found.get(0).toStringUtf8();
  }

  private static List<ByteString> values(UnknownFieldSet message, int field) {
    UnknownFieldSet.Field found = message.asMap().get(field);
    return found == null ? List.of() : found.getLengthDelimitedList();
  }
}
