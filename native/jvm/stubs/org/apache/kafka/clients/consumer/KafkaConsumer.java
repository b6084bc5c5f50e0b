package org.apache.kafka.clients.consumer;

import java.io.Closeable;
import java.time.Duration;
import java.util.Collection;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

public class KafkaConsumer<K, V> implements Closeable {
  public KafkaConsumer(Map<String, Object> configs) {}

  public native void assign(Collection<TopicPartition> partitions);

  public native void seek(TopicPartition partition, long offset);

  public native ConsumerRecords<K, V> poll(Duration timeout);

  public native long position(TopicPartition partition);

  public native Map<TopicPartition, Long> beginningOffsets(Collection<TopicPartition> partitions);

  @Override
  public native void close();
}
