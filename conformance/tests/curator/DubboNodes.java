import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.NodeExistsException;

/**
 * What Dubbo's client for ZooKeeper does with nodes, told line by line: {@code register CATEGORY URL}, {@code unregister
 * CATEGORY URL}, {@code subscribe CATEGORY}, {@code list CATEGORY}. As Dubbo's, it makes directories one by one, as
 * persistent nodes that hold what Curator puts there: the address of the host.
 */
public final class DubboNodes {
    private static CuratorFramework client;

    public static void main(String[] arguments) throws Exception {
        client = CuratorFrameworkFactory.newClient(arguments[0], 5_000, 5_000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        String service = "/dubbo/" + URLEncoder.encode(arguments[1], "UTF-8");
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", 3);
            String category = service + "/" + words[1];
            String node = words.length < 3 ? null : category + "/" + URLEncoder.encode(words[2], "UTF-8");
            switch (words[0]) {
                case "register":
                    create(category, CreateMode.PERSISTENT);
                    create(node, words[2].contains("dynamic=false") ? CreateMode.PERSISTENT : CreateMode.EPHEMERAL);
                    System.out.println("registered");
                    break;
                case "unregister":
                    client.delete().forPath(node);
                    System.out.println("unregistered");
                    break;
                case "subscribe":
                    create(category, CreateMode.PERSISTENT);
                    System.out.println("subscribed");
                    break;
                default:
                    TreeSet<String> urls = new TreeSet<>();
                    for (String child : client.getChildren().forPath(category)) {
                        urls.add(URLDecoder.decode(child, "UTF-8"));
                    }
                    System.out.println(urls.stream().collect(Collectors.joining(" ")));
            }
        }
    }

    private static void create(String path, CreateMode mode) throws Exception {
        int above = path.lastIndexOf('/');
        if (above > 0) {
            create(path.substring(0, above), CreateMode.PERSISTENT);
        }
        try {
            client.create().withMode(mode).forPath(path);
        } catch (NodeExistsException there) {
            // Somebody was faster.
        }
    }
}
