package org.apache.kafka.clients.consumer;

import java.util.List;
import org.apache.kafka.common.TopicPartition;

public class ConsumerRecords<K, V> {
  public native List<ConsumerRecord<K, V>> records(TopicPartition partition);
}
