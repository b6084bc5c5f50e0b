package org.apache.kafka.common;

public final class TopicPartition {
  public native String topic();

  public native int partition();
}
