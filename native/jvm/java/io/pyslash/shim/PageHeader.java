package io.pyslash.shim;

import jakarta.servlet.http.HttpServletRequest;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.spark.ui.SparkUITab;
import org.apache.spark.ui.UIUtils;
import scala.Function0;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.xml.Node;

/** A page of Spark's UI, with the tabs above. */
public final class PageHeader {
  private static final String NAME = "headerSparkPage";
  private static final Method HEADER =
      Stream.of(UIUtils.class.getMethods())
          .filter(method -> method.getName().equals(NAME))
          .findFirst()
          .orElseThrow(() -> Member.missing("method UIUtils." + NAME, null));

  private PageHeader() {}

  public static Seq<Node> page(HttpServletRequest request, String title, Function0<Seq<Node>> content, SparkUITab tab) {
    // Its switches differ between releases; all are off.
    Object[] arguments = new Object[HEADER.getParameterCount()];
    Arrays.fill(arguments, false);
    System.arraycopy(new Object[] {request, title, content, tab, Option.empty()}, 0, arguments, 0, 5);
    return Member.call(HEADER, null, arguments);
  }
}
