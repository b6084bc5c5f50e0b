package io.pyslash.plugin;

import java.util.function.Consumer;
import java.util.function.Function;

/**
 * A Python that is asked.
 *
 * @param starts starts a query
 * @param figures of the epochs of a run, as JSON; null of one that Python does not know
 * @param questions answers a client's question
 */
record Answering(Consumer<PendingQuery> starts, Function<String, String> figures, Consumer<Question> questions) {}
