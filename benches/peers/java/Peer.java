import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Curator as one side of a comparison.
 *
 * Arguments: HOST:PORT and what to do: "lock NAME CONTENDERS HOLD_MS THINK_MS", "watch WATCHERS", "register" or
 * "first-lock". Prints READY. Each line of its input is one repetition: "SETTLE_MS SPAN_MS" for locks,
 * "UPDATES PACE_US" for watchers, a number of instances for registrations. It prints BEGIN and END around the part
 * that counts, then a line of figures.
 */
public class Peer {
    /** One repetition: prints BEGIN and END, and returns its figures. */
    interface Repetition {
        String run(long[] numbers) throws Exception;
    }

    static String address;

    public static void main(String[] args) throws Exception {
        address = args[0];
        Repetition repetition;
        switch (args[1]) {
            case "lock":
                repetition = new Locks(args[2], Integer.parseInt(args[3]), Long.parseLong(args[4]), Long.parseLong(args[5]));
                break;
            case "watch":
                repetition = new Watchers(Integer.parseInt(args[2]));
                break;
            case "register":
                repetition = new Registrations();
                break;
            case "first-lock":
                InterProcessMutex lock = new InterProcessMutex(client(), "/curator/first-lock");
                lock.acquire();
                lock.release();
                repetition = numbers -> "";
                break;
            default:
                throw new IllegalArgumentException(args[1]);
        }
        say("READY");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            long[] numbers = Arrays.stream(line.split(" ")).mapToLong(Long::parseLong).toArray();
            say(repetition.run(numbers));
        }
        System.exit(0);
    }

    static CuratorFramework client() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(address)
            .sessionTimeoutMs(10_000).connectionTimeoutMs(5_000)
            .retryPolicy(new ExponentialBackoffRetry(100, 5)).build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    /** What this part (0.99 for the 99th percentile) of the durations did not exceed, in milliseconds; sorts them. */
    static double ms(long[] nanos, double part) {
        if (nanos.length == 0) return Double.NaN;
        Arrays.sort(nanos);
        return nanos[Math.max(0, (int) Math.ceil(nanos.length * part) - 1)] / 1e6;
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
