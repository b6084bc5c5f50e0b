package io.pyslash.ingest;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * The end of a stage of Spark's generated code that writes the values of its rows into the task's {@link ColumnPage}, and no
 * rows: Spark's own expressions have computed them. Where Spark does without generated code, rows come after all.
 */
final class ColumnsExec extends StageNode {
  private static final long serialVersionUID = 1L;
  private static final String PLATFORM = Platform.class.getName();

  private transient Names names;

  private ColumnsExec(SparkPlan child) {
    super(child);
  }

  /** The same plan, which hands its values over in columns if there are columns of all of them. */
  static SparkPlan of(SparkPlan plan) {
    if (!(plan instanceof WholeStageCodegenExec stage) || !ColumnPage.takes(plan.schema())) {
      return plan;
    }
    // A node has the session that is its thread's when it is made.
    return plan.session()
        .withActive(
            () -> {
              SparkPlan inColumns = new ColumnsExec(stage.child());
              return stage.withNewChildren(CollectionConverters.asScala(List.of(inColumns)).toSeq());
            });
  }

  /** The code that takes a row: called once for each place in the generated class where rows come from. */
  @Override
  public String doConsume(CodegenContext context, Seq<ExprCode> input, ExprCode row) {
    if (names == null || names.context != context) {
      names = new Names(context, new ColumnSink(schema()), CollectionConverters.asJava(output()));
    }
    List<ExprCode> values = CollectionConverters.asJava(input);
    StringBuilder code = new StringBuilder(evaluateVariables(input)).append('\n');
    code.append(names.room(values));
    for (int i = 0; i < values.size(); i++) {
      code.append(names.put(i, values.get(i)));
    }
    return code.append(names.next()).toString();
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child().execute();
  }

  /** The fields of a generated class, and what it does with them. */
  private static final class Names {
    private final CodegenContext context;
    private final List<Attribute> columns;
    private final String sink;
    private final String table;
    private final String rows;
    private final String used; // bytes of strings
    private final List<String> firsts = new ArrayList<>(); // addresses of values
    private final List<String> presents = new ArrayList<>(); // of what says that they are not null

    Names(CodegenContext context, ColumnSink page, List<Attribute> columns) {
      this.context = context;
      this.columns = columns;
      sink = context.addReferenceObj("columns", page, "java.util.function.LongUnaryOperator");
      table = field("long", "table", sink + ".applyAsLong(0L)");
      rows = field("long", "rows", "0L");
      used = field("long", "used", "0L");
      for (int i = 0; i < columns.size(); i++) {
        int at = ColumnPage.COLUMNS_AT + ColumnPage.COLUMN_BYTES * i;
        firsts.add(field("long", "values", number(at)));
        boolean mayBeNull = columns.get(i).nullable() || columns.get(i).dataType() instanceof DecimalType;
        presents.add(mayBeNull ? field("long", "present", number(at + Long.BYTES)) : null);
      }
    }

    private String field(String type, String name, String value) {
      AbstractFunction1<String, String> set =
          new AbstractFunction1<>() {
            @Override
            public String apply(String field) {
              return field + " = " + value + ";";
            }
          };
      return context.addMutableState(type, name, set, true, true);
    }

    private String number(int at) {
      return "%s.getLong(null, %s + %dL)".formatted(PLATFORM, table, at);
    }

    /** Hands full columns over, before the row is written that they have no room for. */
    String room(List<ExprCode> values) {
      StringBuilder code = new StringBuilder();
      String full = "%s == %dL".formatted(rows, ColumnPage.ROWS);
      String bytes = "0L";
      for (int i = 0; i < values.size(); i++) {
        String size = size(columns.get(i).dataType(), values.get(i).value().toString());
        if (size == null) {
          continue;
        }
        if (bytes.equals("0L")) {
          bytes = context.freshName("bytes");
          code.append("long ").append(bytes).append(" = 0L;\n");
        }
        code.append("if (!%s) %s += %s;\n".formatted(values.get(i).isNull(), bytes, size));
      }
      if (!bytes.equals("0L")) {
        full += " || %s + %s > %s".formatted(used, bytes, number(ColumnPage.TEXT_BYTES_AT));
      }
      return code.append("if (%s) {\n%s.applyAsLong(%s);\n%s = 0L;\n%s = 0L;\n}\n".formatted(full, sink, bytes, rows, used))
          .toString();
    }

    /** Writes a value, or that there is none: then zero, as in Spark's rows. */
    String put(int column, ExprCode value) {
      DataType type = columns.get(column).dataType();
      String at = "%s + %s * %dL".formatted(firsts.get(column), rows, ColumnPage.width(type));
      String written = written(type, value.value().toString(), at);
      if (presents.get(column) == null) {
        return written;
      }
      String present = "%s.putByte(null, %s + %s, (byte) %%d);\n".formatted(PLATFORM, presents.get(column), rows);
      String zero = "%s.setMemory(%s, (byte) 0, %dL);\n".formatted(PLATFORM, at, ColumnPage.width(type));
      return "if (%s) {\n%s%s} else {\n%s%s}\n"
          .formatted(isNull(type, value), present.formatted(0), zero, present.formatted(1), written);
    }

    /** A decimal that does not fit its type is none, as where Spark writes a row. */
    private static String isNull(DataType type, ExprCode value) {
      return type instanceof DecimalType decimal
          ? "%s || !%s.changePrecision(%d, %d)".formatted(value.isNull(), value.value(), decimal.precision(), decimal.scale())
          : value.isNull().toString();
    }

    String next() {
      return "%s++;\n%s.putLong(null, %s + %dL, %s);\n".formatted(rows, PLATFORM, table, ColumnPage.ROWS_AT, rows);
    }

    /** The bytes of a string or binary; null of other values. */
    private static String size(DataType type, String value) {
      if (type instanceof StringType) {
        return value + ".numBytes()";
      }
      return type instanceof BinaryType ? value + ".length" : null;
    }

    private String written(DataType type, String value, String at) {
      if (type instanceof StringType) {
        return bytes(value + ".getBaseObject()", value + ".getBaseOffset()", size(type, value), at);
      }
      if (type instanceof BinaryType) {
        return bytes(value, PLATFORM + ".BYTE_ARRAY_OFFSET", size(type, value), at);
      }
      if (type instanceof DecimalType && ColumnPage.width(type) > Long.BYTES) {
        String whole = context.freshName("unscaled");
        return "java.math.BigInteger %s = %s.toJavaBigDecimal().unscaledValue();\n".formatted(whole, value)
            + set("Long", at, whole + ".longValue()")
            + set("Long", at + " + 8L", whole + ".shiftRight(64).longValue()");
      }
      if (type instanceof DecimalType) {
        return set("Long", at, value + ".toUnscaledLong()");
      }
      if (type instanceof BooleanType) {
        return set("Byte", at, "(byte) (%s ? 1 : 0)".formatted(value));
      }
      if (type instanceof DoubleType) {
        return set("Double", at, value);
      }
      if (type instanceof FloatType) {
        return set("Float", at, value);
      }
      return switch (ColumnPage.width(type)) {
        case Byte.BYTES -> set("Byte", at, value);
        case Short.BYTES -> set("Short", at, value);
        case Integer.BYTES -> set("Int", at, value);
        default -> set("Long", at, value);
      };
    }

    private String bytes(String base, String offset, String size, String at) {
      String text = context.freshName("text");
      return "long %s = %s + %s;\n".formatted(text, number(ColumnPage.TEXT_AT), used)
          + "%s.copyMemory(%s, %s, null, %s, %s);\n".formatted(PLATFORM, base, offset, text, size)
          + set("Long", at, text)
          + set("Long", at + " + 8L", "(long) " + size)
          + "%s += %s;\n".formatted(used, size);
    }

    private static String set(String type, String at, String value) {
      return "%s.put%s(null, %s, %s);\n".formatted(PLATFORM, type, at, value);
    }
  }

  @Override
  public Seq<Attribute> output() {
    return child().output();
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new ColumnsExec(children.head());
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int index) {
    return child();
  }
}
