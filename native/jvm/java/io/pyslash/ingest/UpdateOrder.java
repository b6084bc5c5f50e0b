package io.pyslash.ingest;

import io.pyslash.agent.AgentOrder;
import java.io.Serializable;

/** What the driver tells every task of an update job. */
public record UpdateOrder(byte[] planText, long watermarkMicros, byte[] query, long epoch, AgentOrder agent)
    implements Serializable {}
