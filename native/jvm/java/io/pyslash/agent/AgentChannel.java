package io.pyslash.agent;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.pyslash.core.Native;
import io.pyslash.core.SlashException;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Arrays;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A greeted connection to an agent of this host. `pyslash/protocol/wire.py` says what goes over it. One thread at a time
 * uses it.
 */
public final class AgentChannel implements AutoCloseable {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final byte[] MAGIC = "PYSLASH\2".getBytes(StandardCharsets.US_ASCII);
  private static final int ID_BYTES = 16;
  private static final int NONCE_BYTES = 32;
  private static final int HELLO_BYTES = 64;
  private static final int ANSWER_BYTES = ID_BYTES + NONCE_BYTES;
  private static final int PROOF_BYTES = 32;
  private static final byte[] REFUSAL =
      Arrays.copyOf("PYSLASH\2 has no thread for this connection".getBytes(StandardCharsets.US_ASCII), ANSWER_BYTES);
  private static final long PAUSE_MILLIS = 50;
  private static final int MAC_BYTES = 16;
  private static final int FRAME_BYTES = 8;
  private static final int MOST_BYTES = 4 << 20;
  private static final byte CALL = 1;
  private static final byte RESULT = 2;
  private static final byte ERROR = 3;
  // Of a Unix socket's address, with the final zero.
  private static final int SUN_PATH_BYTES = 108;

  private final Selector selector;
  private SocketChannel socket;
  private Mac sends;
  private Mac receives;
  private long sent;
  private long received;

  /** Within so many seconds. The agent proves first that it is the one that is meant. */
  public AgentChannel(Agent agent, byte[] query, byte[] token, long seconds) {
    try {
      selector = Selector.open();
    } catch (IOException error) {
      throw failed(error);
    }
    try {
      long deadline = deadline(seconds);
      while (!isOpened(agent, query, token, deadline)) {
        pause(deadline);
      }
    } catch (IOException error) {
      close();
      throw failed(error);
    } catch (GeneralSecurityException error) {
      close();
      throw new SlashException("NativeError", "this JVM has no HMAC-SHA256: " + error);
    } catch (RuntimeException error) {
      close();
      throw error;
    }
  }

  /** The answer to a call, within so many seconds; its failure is the agent's own, by the name of its class. */
  public JsonNode call(String action, JsonNode request, long seconds) {
    try {
      byte[] name = (action + " \n").getBytes(StandardCharsets.US_ASCII);
      byte[] asked = JSON.writeValueAsBytes(request);
      byte[] body = Arrays.copyOf(name, name.length + asked.length);
      System.arraycopy(asked, 0, body, name.length, asked.length);
      long deadline = deadline(seconds);
      send(CALL, body, deadline);
      return answer(deadline);
    } catch (IOException error) {
      throw failed(error);
    }
  }

  /** False: the agent has no thread for the connection at this moment, or lives without its socket, which it puts back. */
  private boolean isOpened(Agent agent, byte[] query, byte[] token, long deadline)
      throws IOException, GeneralSecurityException {
    socket = SocketChannel.open(StandardProtocolFamily.UNIX);
    try {
      connect(agent.socket);
    } catch (IOException error) {
      if (Files.exists(agent.socket) || !agent.isAlive()) {
        throw error;
      }
      socket.close();
      return false;
    }
    socket.configureBlocking(false);
    socket.register(selector, 0);
    if (greet(agent.incarnation, query, token, deadline)) {
      return true;
    }
    socket.close();
    return false;
  }

  @Override
  public void close() {
    try {
      selector.close();
      if (socket != null) {
        socket.close();
      }
    } catch (IOException error) {
      throw failed(error);
    }
  }

  private void connect(Path path) throws IOException {
    if (path.toString().getBytes(StandardCharsets.UTF_8).length < SUN_PATH_BYTES) {
      socket.connect(UnixDomainSocketAddress.of(path));
      return;
    }
    int folder = Native.openDirectory(path.getParent().toString());
    try {
      socket.connect(UnixDomainSocketAddress.of("/proc/self/fd/" + folder + "/" + path.getFileName()));
    } finally {
      Native.closeDirectory(folder);
    }
  }

  private boolean greet(byte[] incarnation, byte[] query, byte[] token, long deadline)
      throws IOException, GeneralSecurityException {
    byte[] nonce = new byte[NONCE_BYTES];
    new SecureRandom().nextBytes(nonce);
    ByteBuffer transcript = ByteBuffer.allocate(HELLO_BYTES + ANSWER_BYTES);
    transcript.put(MAGIC).put(token[0]).put(new byte[7]).put(query).put(nonce);
    write(transcript.duplicate().flip(), deadline);
    byte[] said = read(ANSWER_BYTES, deadline);
    byte[] proof = read(PROOF_BYTES, deadline);
    if (Arrays.equals(said, REFUSAL) && Arrays.equals(proof, new byte[PROOF_BYTES])) {
      return false;
    }
    byte[] spoken = transcript.put(said).array();
    Mac key = mac(Arrays.copyOfRange(token, 1, token.length));
    if (!MessageDigest.isEqual(proof, derived(key, "agent proves", spoken))) {
      throw new SlashException("UnauthenticatedError", "who listens there does not prove that it knows this query's token");
    }
    if (!Arrays.equals(incarnation, Arrays.copyOf(said, ID_BYTES))) {
      throw new SlashException("StaleIncarnationError", "another agent listens there now");
    }
    write(ByteBuffer.wrap(derived(key, "client proves", spoken)), deadline);
    sends = mac(derived(key, "client sends", spoken));
    receives = mac(derived(key, "agent sends", spoken));
    return true;
  }

  private static Mac mac(byte[] key) throws GeneralSecurityException {
    Mac made = Mac.getInstance("HmacSHA256");
    made.init(new SecretKeySpec(key, "HmacSHA256"));
    return made;
  }

  private static byte[] derived(Mac key, String purpose, byte[] transcript) {
    key.update(("pyslash-wire " + purpose + "\n").getBytes(StandardCharsets.US_ASCII));
    return key.doFinal(transcript);
  }

  private static byte[] sealed(Mac key, long number, byte[] head, byte[] body) {
    key.update(ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(number).array());
    key.update(head);
    return Arrays.copyOf(key.doFinal(body), MAC_BYTES);
  }

  private void send(byte kind, byte[] body, long deadline) throws IOException {
    if (body.length > MOST_BYTES) {
      throw new SlashException(
          "MessageTooLongError", "a request of " + body.length + " bytes; a frame has at most " + MOST_BYTES);
    }
    byte[] head = ByteBuffer.allocate(FRAME_BYTES).order(ByteOrder.LITTLE_ENDIAN).putInt(body.length).put(kind).array();
    ByteBuffer frame = ByteBuffer.allocate(FRAME_BYTES + MAC_BYTES + body.length);
    frame.put(head).put(sealed(sends, sent++, head, body)).put(body).flip();
    write(frame, deadline);
  }

  private JsonNode answer(long deadline) throws IOException {
    byte[] head = read(FRAME_BYTES, deadline);
    byte[] mac = read(MAC_BYTES, deadline);
    ByteBuffer fields = ByteBuffer.wrap(head).order(ByteOrder.LITTLE_ENDIAN);
    int length = fields.getInt();
    byte kind = fields.get();
    if (length < 0 || length > MOST_BYTES || (kind != RESULT && kind != ERROR)) {
      throw new SlashException("UnauthenticatedError", "a frame of kind " + kind + " and " + length + " bytes");
    }
    byte[] body = read(length, deadline);
    if (!MessageDigest.isEqual(mac, sealed(receives, received++, head, body))) {
      throw new SlashException("UnauthenticatedError", "a frame whose MAC does not match");
    }
    if (kind == ERROR) {
      String[] error = new String(body, StandardCharsets.UTF_8).split("\n", 2);
      throw new SlashException(error[0], error[error.length - 1]);
    }
    return JSON.readTree(body);
  }

  private void write(ByteBuffer bytes, long deadline) throws IOException {
    while (bytes.hasRemaining()) {
      if (socket.write(bytes) == 0) {
        await(SelectionKey.OP_WRITE, deadline);
      }
    }
  }

  private byte[] read(int length, long deadline) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(length);
    while (bytes.hasRemaining()) {
      int count = socket.read(bytes);
      if (count < 0) {
        throw new EOFException("the agent has ended the connection");
      }
      if (count == 0) {
        await(SelectionKey.OP_READ, deadline);
      }
    }
    return bytes.array();
  }

  private void await(int operation, long deadline) throws IOException {
    socket.keyFor(selector).interestOps(operation);
    select(left(deadline));
  }

  /** Before another attempt to connect: nothing is registered that could end it early. */
  private void pause(long deadline) throws IOException {
    select(Math.min(PAUSE_MILLIS, left(deadline)));
  }

  private static long left(long deadline) {
    long left = (deadline - System.nanoTime()) / 1_000_000;
    if (left <= 0) {
      throw new SlashException("AgentTimeoutError", "this executor's agent does not answer in time");
    }
    return left;
  }

  private void select(long millis) throws IOException {
    selector.select(millis);
    selector.selectedKeys().clear();
    if (Thread.currentThread().isInterrupted()) {
      throw new SlashException("AgentTimeoutError", "the task was killed while it waited for its agent");
    }
  }

  private static long deadline(long seconds) {
    return System.nanoTime() + seconds * 1_000_000_000L;
  }

  private static SlashException failed(IOException error) {
    return new SlashException("AgentUnavailableError", "this executor's agent cannot be reached: " + error);
  }
}
