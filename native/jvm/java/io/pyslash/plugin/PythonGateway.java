package io.pyslash.plugin;

import java.io.IOException;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import javax.net.SocketFactory;
import py4j.ClientServerConnection;
import py4j.Gateway;
import py4j.JavaServer;
import py4j.Py4JClientConnection;
import py4j.Py4JJavaServer;
import py4j.Py4JPythonClient;
import py4j.PythonClient;

/**
 * A py4j gateway on the loopback address. Both ends prove that they know its secret: py4j's own forgets it for calls of
 * Python when Python tells its port.
 */
final class PythonGateway implements AutoCloseable {
  private final JavaServer server;

  PythonGateway(Object entryPoint, String secret) {
    Client client = new Client(null, 0, InetAddress.getLoopbackAddress(), null, secret);
    server = new JavaServer(entryPoint, 0, 0, 0, null, client, secret);
    client.setGateway(server.getGateway());
    client.setJavaServer(server);
    start();
  }

  /** py4j's threads are daemons if the one is that starts them; others would keep a JVM alive whose job has failed. */
  private void start() {
    FutureTask<Void> started = new FutureTask<>(() -> server.start(true), null);
    Thread daemon = new Thread(started, "pyslash-gateway");
    daemon.setDaemon(true);
    daemon.start();
    try {
      started.get();
    } catch (ExecutionException failed) {
      throw new IllegalStateException(failed.getCause());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }

  int port() {
    return server.getListeningPort();
  }

  @Override
  public void close() {
    server.shutdown();
  }

  private static final class Client extends PythonClient {
    private final Map<Thread, ClientServerConnection> ofThreads = new HashMap<>();
    private final String secret;

    Client(Gateway gateway, int port, InetAddress address, Py4JJavaServer server, String secret) {
      super(
          gateway,
          null,
          port,
          address,
          DEFAULT_MIN_CONNECTION_TIME,
          TimeUnit.SECONDS,
          SocketFactory.getDefault(),
          server,
          true,
          0,
          secret);
      this.secret = secret;
    }

    /** py4j keeps the connection of each thread, ended or not, and Python a thread for each connection. */
    @Override
    protected Py4JClientConnection getConnection() throws IOException {
      ClientServerConnection connection = (ClientServerConnection) super.getConnection();
      synchronized (ofThreads) {
        if (ofThreads.put(Thread.currentThread(), connection) != connection) {
          ofThreads.entrySet().removeIf(one -> !one.getKey().isAlive() && isClosed(one.getValue()));
        }
      }
      return connection;
    }

    private boolean isClosed(ClientServerConnection ended) {
      connections.remove(ended);
      if (ended.isInitiatedFromClient()) {
        ended.shutdown();
      }
      return true;
    }

    @Override
    public Py4JPythonClient copyWith(InetAddress address, int port) {
      return new Client(gateway, port, address, javaServer, secret);
    }
  }
}
