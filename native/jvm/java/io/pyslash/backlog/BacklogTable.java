package io.pyslash.backlog;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The connector's table of Kafka topics, as a query reads it that is behind; of samples, with {@link Sampled#WEIGHT}. */
record BacklogTable(SupportsRead kafka, BacklogRules rules) implements SupportsRead {
  @Override
  public String name() {
    return kafka.name();
  }

  @Override
  public Column[] columns() {
    Column[] columns = kafka.columns();
    if (rules.order() != BacklogRules.Order.SAMPLED) {
      return columns;
    }
    Column[] more = Arrays.copyOf(columns, columns.length + 1);
    more[columns.length] = Column.create(Sampled.WEIGHT, DataTypes.DoubleType, false);
    return more;
  }

  @Override
  public Transform[] partitioning() {
    return kafka.partitioning();
  }

  @Override
  public Map<String, String> properties() {
    return kafka.properties();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return kafka.capabilities();
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    return () -> new BacklogScan(kafka.newScanBuilder(options).build(), rules);
  }
}
