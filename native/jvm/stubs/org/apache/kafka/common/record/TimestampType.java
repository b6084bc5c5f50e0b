package org.apache.kafka.common.record;

public enum TimestampType {
  NO_TIMESTAMP_TYPE;

  public final int id;

  TimestampType() {
    id = ordinal(); // no constant, which the compiler would copy
  }
}
