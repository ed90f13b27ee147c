import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;

/** Registers many instances of a service by x-discovery. */
class Registrations implements Peer.Repetition {
    final CuratorFramework client = Peer.client();
    int repetition;

    Registrations() throws Exception {}

    public String run(long[] numbers) throws Exception {
        ServiceDiscovery<Void> discovery =
            ServiceDiscoveryBuilder.builder(Void.class).client(client).basePath("/curator-services").build();
        discovery.start();
        String service = "billing-" + repetition++;
        List<ServiceInstance<Void>> instances = new ArrayList<>();
        for (int i = 0; i < numbers[0]; i++) {
            instances.add(ServiceInstance.<Void>builder().name(service).id("i-" + i).address("10.0.0.1").port(8080).build());
        }
        Peer.say("BEGIN");
        long began = System.nanoTime();
        for (ServiceInstance<Void> instance : instances) discovery.registerService(instance);
        double seconds = (System.nanoTime() - began) / 1e9;
        Peer.say("END");
        discovery.close();
        return "registrations_s=" + numbers[0] / seconds;
    }
}
