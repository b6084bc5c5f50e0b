package io.pyslash;

import java.io.Serializable;

/** What the driver tells every task of an update job. */
record UpdateOrder(byte[] planText, long watermarkMicros, byte[] query, long epoch, AgentOrder agent)
    implements Serializable {}
