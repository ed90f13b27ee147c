import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Curator's lock, told what to do line by line: {@code acquire MILLISECONDS}, {@code release}. */
public final class CuratorLock {
    public static void main(String[] arguments) throws Exception {
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(arguments[0], 5_000, 5_000, new ExponentialBackoffRetry(100, 5))) {
            client.start();
            client.blockUntilConnected();
            InterProcessMutex lock = new InterProcessMutex(client, arguments[1]);
            System.out.println("ready");
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] words = line.split(" ");
                if (words[0].equals("acquire")) {
                    System.out.println(lock.acquire(Long.parseLong(words[1]), TimeUnit.MILLISECONDS));
                } else {
                    lock.release();
                    System.out.println("released");
                }
            }
        }
    }
}
