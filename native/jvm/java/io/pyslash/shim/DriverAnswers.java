package io.pyslash.shim;

import java.util.UUID;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.function.Function;
import org.apache.spark.SparkEnv;
import org.apache.spark.rpc.RpcCallContext;
import org.apache.spark.rpc.RpcEndpoint;
import org.apache.spark.rpc.RpcEndpointRef;
import org.apache.spark.rpc.RpcEnv;
import org.apache.spark.util.RpcUtils;
import scala.PartialFunction;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/**
 * Answers of the driver to questions that its tasks ask, over Spark's own connections. Both are texts: the driver's threads
 * that read messages know nothing of an added jar.
 */
public final class DriverAnswers implements RpcEndpoint, AutoCloseable {
  private static final int MOST_AT_ONCE = 8;
  private static final Executor THREADS =
      Executors.newFixedThreadPool( // py4j keeps a connection for each thread that has called Python
          MOST_AT_ONCE,
          work -> {
            Thread thread = new Thread(work, "pyslash answers");
            thread.setDaemon(true);
            return thread;
          });

  private final RpcEnv env = SparkEnv.get().rpcEnv();
  private final Function<String, String> answer;
  private final RpcEndpointRef open;

  /** In the driver, until it is closed. {@code answer} gives what it is to tell, and may take its time. */
  public DriverAnswers(Function<String, String> answer) {
    this.answer = answer;
    open = env.setupEndpoint("pyslash-" + UUID.randomUUID(), this);
  }

  /** The name by which tasks ask. */
  public String name() {
    return open.name();
  }

  /** In a task: the driver's answer. */
  public static String ask(String name, String question) {
    SparkEnv env = SparkEnv.get();
    return RpcUtils.makeDriverRef(name, env.conf(), env.rpcEnv()).askSync(question, ClassTag$.MODULE$.apply(String.class));
  }

  @Override
  public RpcEnv rpcEnv() {
    return env;
  }

  @Override
  public PartialFunction<Object, BoxedUnit> receiveAndReply(RpcCallContext context) {
    return new Received() {
      @Override
      public BoxedUnit apply(Object question) {
        THREADS.execute(() -> reply(context, (String) question));
        return BoxedUnit.UNIT;
      }
    };
  }

  private void reply(RpcCallContext context, String question) {
    try {
      context.reply(answer.apply(question));
    } catch (RuntimeException failure) {
      // In a class that every JVM has.
      context.sendFailure(new IllegalStateException(failure.toString()));
    }
  }

  @Override
  public void close() {
    env.stop(open);
  }

  private abstract static class Received extends AbstractPartialFunction<Object, BoxedUnit> {
    @Override
    public boolean isDefinedAt(Object message) {
      return message instanceof String;
    }

    @Override
    public abstract BoxedUnit apply(Object message);
  }
}
