package io.pyslash.records;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.io.Text;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.StructFilters;
import org.apache.spark.sql.catalyst.json.CreateJacksonParser;
import org.apache.spark.sql.catalyst.json.JSONOptionsInRead;
import org.apache.spark.sql.catalyst.json.JacksonParser;
import org.apache.spark.sql.catalyst.json.JsonFilters;
import org.apache.spark.sql.catalyst.util.FailureSafeParser;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;

/** Records of JSON. */
final class JsonRecords extends LineRecords {
  private static final long serialVersionUID = 1L;

  // Of options, in lower case: what matters only where a schema is inferred.
  private static final Set<String> INFER =
      Set.of("samplingratio", "primitivesasstring", "prefersdecimal", "dropfieldifallnull", "infertimestamp");

  private final byte[] schema;
  private final JSONOptionsInRead options;

  /** @throws OnlySpark it depends on what is not known to be read alike */
  JsonRecords(Source source) {
    this(
        source,
        new JSONOptionsInRead(
            CollectionConverters.asScala(source.options()).toMap(scala.$less$colon$less$.MODULE$.refl()),
            source.conf().sessionLocalTimeZone(),
            source.conf().columnNameOfCorruptRecord()));
  }

  private JsonRecords(Source source, JSONOptionsInRead options) {
    super(source, options.columnNameOfCorruptRecord(), source.conf().jsonFilterPushDown());
    this.options = options;
    schema =
        new JsonSchema(
                "the JSON source",
                columns,
                source.optionsOfRecords(),
                INFER,
                source.conf().sessionLocalTimeZone(),
                source.conf())
            .text();
  }

  @Override
  byte[] schema() {
    return schema;
  }

  @Override
  boolean hasHeader() {
    return false;
  }

  @Override
  StructFilters newFilters(List<Filter> filters, StructType columns) {
    return new JsonFilters(CollectionConverters.asScala(filters).toSeq(), columns);
  }

  @Override
  Parser parser(PartitionedFile file) {
    JacksonParser jackson = new JacksonParser(withoutCorrupt(inOrder), options, true, filters());
    AbstractFunction2<JsonFactory, Text, JsonParser> opened =
        new AbstractFunction2<>() {
          @Override
          public JsonParser apply(JsonFactory factory, Text text) {
            return CreateJacksonParser.text(factory, text);
          }
        };
    AbstractFunction1<Text, UTF8String> literal =
        new AbstractFunction1<>() {
          @Override
          public UTF8String apply(Text text) {
            return UTF8String.fromBytes(text.getBytes(), 0, text.getLength());
          }
        };
    FailureSafeParser<Text> safe =
        new FailureSafeParser<>(
            new AbstractFunction1<>() {
              @Override
              public scala.collection.Iterable<InternalRow> apply(Text text) {
                return jackson.parse(text, opened, literal);
              }
            },
            options.parseMode(),
            inOrder,
            options.columnNameOfCorruptRecord());
    return new Parser() {
      @Override
      public Iterator<InternalRow> parse(byte[] line) {
        return safe.parse(new Text(line));
      }

      @Override
      public void checkHeader(byte[] line) {
        throw new UnsupportedOperationException("files of JSON have no header");
      }
    };
  }
}
