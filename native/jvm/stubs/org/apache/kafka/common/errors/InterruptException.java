package org.apache.kafka.common.errors;

import org.apache.kafka.common.KafkaException;

public class InterruptException extends KafkaException {
  private static final long serialVersionUID = 1L;
}
