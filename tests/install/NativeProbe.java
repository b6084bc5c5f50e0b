import io.pyslash.core.Native;
import io.pyslash.core.SlashException;
import java.nio.charset.StandardCharsets;

/** Says the JVM's machine, and what the library in the jar says of a text that is no plan. */
public final class NativeProbe {
  public static void main(String[] arguments) {
    try {
      Native.fields("no plan".getBytes(StandardCharsets.UTF_8));
    } catch (SlashException refused) {
      System.out.println(System.getProperty("os.arch") + ": " + refused.getMessage());
      return;
    }
    throw new IllegalStateException("it was taken for a plan");
  }
}
