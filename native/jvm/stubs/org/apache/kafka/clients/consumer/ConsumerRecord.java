package org.apache.kafka.clients.consumer;

import org.apache.kafka.common.record.TimestampType;

public class ConsumerRecord<K, V> {
  public native K key();

  public native V value();

  public native long offset();

  public native long timestamp();

  public native TimestampType timestampType();
}
