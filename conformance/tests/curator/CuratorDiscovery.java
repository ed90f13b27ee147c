import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceInstanceBuilder;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/**
 * Curator's discovery of one service, told what to do line by line: {@code register ID TYPE}, {@code unregister ID},
 * {@code list} from the store, {@code cached} from its cache, {@code provided} for what it would choose from, {@code
 * names} of all services.
 */
public final class CuratorDiscovery {
    /** The payload; its name is in what is written. */
    public static final class Metadata {
        public String version;
        public long built;

        @Override
        public String toString() {
            return version + " " + built;
        }
    }

    public static void main(String[] arguments) throws Exception {
        String base = arguments[1], name = arguments[2];
        // Where Jackson looks for Metadata; java has not compiled it to a file.
        Thread.currentThread().setContextClassLoader(CuratorDiscovery.class.getClassLoader());
        // What is read may be of any class; what is written has the field `enabled`.
        JsonInstanceSerializer<Object> serializer = new JsonInstanceSerializer<>(Object.class, false);
        try (CuratorFramework client =
                        CuratorFrameworkFactory.newClient(arguments[0], 5_000, 5_000, new ExponentialBackoffRetry(100, 5));
                ServiceDiscovery<Object> discovery = ServiceDiscoveryBuilder.builder(Object.class)
                        .client(client).basePath(base).serializer(serializer).build();
                ServiceCache<Object> cache = discovery.serviceCacheBuilder().name(name).build();
                ServiceProvider<Object> provider = discovery.serviceProviderBuilder().serviceName(name).build()) {
            client.start();
            client.blockUntilConnected();
            discovery.start();
            cache.start();
            provider.start();
            TreeMap<String, ServiceInstance<Object>> ours = new TreeMap<>();
            System.out.println("ready");
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "register":
                        ours.put(words[1], instance(name, words[1], ServiceType.valueOf(words[2])));
                        discovery.registerService(ours.get(words[1]));
                        System.out.println("registered");
                        break;
                    case "unregister":
                        discovery.unregisterService(ours.remove(words[1]));
                        System.out.println("unregistered");
                        break;
                    case "names":
                        System.out.println(discovery.queryForNames());
                        break;
                    case "list":
                        System.out.println(shown(discovery.queryForInstances(name)));
                        break;
                    case "cached":
                        System.out.println(shown(cache.getInstances()));
                        break;
                    default:
                        System.out.println(shown(provider.getAllInstances()));
                }
            }
        }
    }

    private static ServiceInstance<Object> instance(String name, String id, ServiceType type) throws Exception {
        ServiceInstanceBuilder<Object> builder = ServiceInstance.<Object>builder()
                .name(name).id(id).serviceType(type).address("10.0.0.9").registrationTimeUTC(1_700_000_000_123L);
        if (id.equals("bare")) {
            return builder.build();
        }
        Metadata metadata = new Metadata();
        metadata.version = "1.2";
        metadata.built = 5_000_000_000L;
        return builder.port(8080).sslPort(8443).payload(metadata).enabled(!id.equals("disabled"))
                .uriSpec(new UriSpec("{scheme}://{address}:{ssl-port}/{[}x{]}")).build();
    }

    private static String shown(Iterable<? extends ServiceInstance<?>> instances) {
        TreeMap<String, String> shown = new TreeMap<>();
        for (ServiceInstance<?> i : instances) {
            Object payload = i.getPayload();
            shown.put(i.getId(), String.join(" ", i.getId(), i.getAddress(), String.valueOf(i.getPort()),
                    String.valueOf(i.getSslPort()), i.getServiceType().name(), String.valueOf(i.isEnabled()),
                    "<" + i.buildUriSpec() + ">", (payload == null ? "" : payload.getClass().getSimpleName() + " ") + payload));
        }
        return shown.values().stream().collect(Collectors.joining("; "));
    }
}
