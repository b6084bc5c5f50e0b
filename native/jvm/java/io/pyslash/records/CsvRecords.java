package io.pyslash.records;

import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.OrderedFilters;
import org.apache.spark.sql.catalyst.StructFilters;
import org.apache.spark.sql.catalyst.csv.CSVHeaderChecker;
import org.apache.spark.sql.catalyst.csv.CSVOptions;
import org.apache.spark.sql.catalyst.csv.UnivocityParser;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/** Lines of CSV. */
final class CsvRecords extends LineRecords {
  private static final long serialVersionUID = 1L;

  private final byte[] schema;
  private final CSVOptions options;
  private final StructType data; // all columns that a line has
  private final StructType named; // the columns that a header is compared with

  /** @throws OnlySpark it depends on what is not known to be read alike */
  CsvRecords(Source source) {
    this(
        source,
        new CSVOptions(
            CollectionConverters.asScala(source.options()).toMap(scala.$less$colon$less$.MODULE$.refl()),
            source.conf().csvColumnPruning(),
            source.conf().sessionLocalTimeZone(),
            source.conf().columnNameOfCorruptRecord()));
  }

  private CsvRecords(Source source, CSVOptions options) {
    super(source, options.columnNameOfCorruptRecord(), source.conf().csvFilterPushDown());
    this.options = options;
    data = withoutCorrupt(source.data());
    named = options.isColumnPruningEnabled(inOrder) ? withoutCorrupt(inOrder) : data;
    schema = new CsvSchema(source.data(), columns, source.optionsOfRecords(), options, source.conf()).text();
  }

  @Override
  byte[] schema() {
    return schema;
  }

  @Override
  boolean hasHeader() {
    return options.headerFlag();
  }

  @Override
  StructFilters newFilters(List<Filter> filters, StructType columns) {
    return new OrderedFilters(CollectionConverters.asScala(filters).toSeq(), columns);
  }

  @Override
  Parser parser(PartitionedFile file) {
    UnivocityParser univocity = new UnivocityParser(data, withoutCorrupt(inOrder), options, filters());
    univocity.tokenizer().parseLine("-"); // of the first line that it gets, it drops an order mark
    String name = "CSV file: " + file.urlEncodedPath();
    CSVHeaderChecker atStart = new CSVHeaderChecker(named, options, name, true);
    CSVHeaderChecker within = new CSVHeaderChecker(named, options, name, false);
    return new Parser() {
      @Override
      public Iterator<InternalRow> parse(byte[] line) {
        return UnivocityParser.parseIterator(one(line), univocity, within, inOrder);
      }

      @Override
      public void checkHeader(byte[] line) {
        UnivocityParser.parseIterator(one(line), univocity, atStart, inOrder);
      }
    };
  }

  private static Iterator<String> one(byte[] line) {
    return CollectionConverters.asScala(List.of(new String(line, StandardCharsets.UTF_8)).iterator());
  }
}
