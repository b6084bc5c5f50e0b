package io.pyslash.backlog;

import io.pyslash.core.SlashException;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * How a query reads behind a backlog.
 *
 * @param latencyMs how long a micro-batch may take
 * @param expireMs how old debt may become
 * @param sheds whether older debt is let go; else it is an error
 */
public record BacklogRules(Order order, long latencyMs, long expireMs, boolean sheds) {
  /** In which order it reads. Whatever it is, records that were skipped before are read. */
  public enum Order {
    /** As Spark does. */
    ORDERED,
    /** The newest records first. */
    FRESH_FIRST,
    /** As Spark does, but of too many records only a sample. */
    SAMPLED
  }

  private static final Logger LOGGER = LoggerFactory.getLogger(BacklogRules.class);

  /**
   * Lets go of what has waited for too long; throws if that is an error.
   *
   * @param count how many
   * @param what they are
   * @param ms how long one of them has waited
   */
  void letGo(long count, String what, long ms) {
    long seconds = TimeUnit.MILLISECONDS.toSeconds(ms);
    if (!sheds) {
      throw new SlashException(
              "BacklogExpiredError",
              count
                  + " "
                  + what
                  + " have waited for "
                  + seconds
                  + " s to be read behind newer ones, longer than spark.slash.backlog.expire allows. Give the query more"
                  + " executors or a greater spark.slash.backlog.expire, or let it go without them by"
                  + " spark.slash.backlog.expired=shed, and start it again")
          .forDriver();
    }
    LOGGER.warn("{} {} that have waited for {} s behind newer ones will not be read", count, what, seconds);
  }
}
