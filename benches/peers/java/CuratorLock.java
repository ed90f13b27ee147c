import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Contends for one lock through Curator: a client and a thread for each contender.
 *
 * Arguments: HOST:PORT PATH CONTENDERS. Prints READY. For each line "SETTLE_MS SPAN_MS" of its input the contenders
 * run that long; it prints BEGIN and END around the recorded part, then a line of figures.
 */
public class CuratorLock {
    static volatile boolean recording, running;
    static final AtomicInteger inside = new AtomicInteger();
    static final AtomicLong overlaps = new AtomicLong(), released = new AtomicLong();

    public static void main(String[] args) throws Exception {
        int n = Integer.parseInt(args[2]);
        InterProcessMutex[] locks = new InterProcessMutex[n];
        for (int i = 0; i < n; i++) {
            CuratorFramework client = CuratorFrameworkFactory.builder().connectString(args[0])
                .sessionTimeoutMs(10_000).connectionTimeoutMs(5_000)
                .retryPolicy(new ExponentialBackoffRetry(100, 5)).build();
            client.start();
            client.blockUntilConnected();
            locks[i] = new InterProcessMutex(client, args[1]);
        }
        say("READY");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            String[] words = line.split(" ");
            run(locks, Long.parseLong(words[0]), Long.parseLong(words[1]));
        }
        System.exit(0);
    }

    static void run(InterProcessMutex[] locks, long settle, long span) throws Exception {
        AtomicLongArray counts = new AtomicLongArray(locks.length);
        ConcurrentLinkedQueue<Long> handOffs = new ConcurrentLinkedQueue<>();
        Thread[] threads = new Thread[locks.length];
        running = true;
        overlaps.set(0);
        released.set(0);
        for (int i = 0; i < locks.length; i++) {
            int me = i;
            threads[i] = new Thread(() -> {
                try {
                    while (running) cycle(locks[me], me, counts, handOffs);
                } catch (Exception e) {
                    say("FAILED " + e);
                    System.exit(1);
                }
            });
            threads[i].start();
        }
        Thread.sleep(settle);
        say("BEGIN");
        recording = true;
        long began = System.nanoTime();
        Thread.sleep(span);
        recording = false;
        double seconds = (System.nanoTime() - began) / 1e9;
        say("END");
        running = false;
        for (Thread thread : threads) thread.join();
        long total = 0, min = Long.MAX_VALUE, max = 0;
        for (int i = 0; i < locks.length; i++) {
            total += counts.get(i);
            min = Math.min(min, counts.get(i));
            max = Math.max(max, counts.get(i));
        }
        long[] taken = handOffs.stream().mapToLong(x -> x / 1000).toArray();
        Arrays.sort(taken);
        say(total + " " + seconds + " " + at(taken, 50) + " " + at(taken, 99) + " " + min + " " + max + " " + overlaps.get());
    }

    static void cycle(InterProcessMutex lock, int me, AtomicLongArray counts, ConcurrentLinkedQueue<Long> handOffs)
            throws Exception {
        lock.acquire();
        long now = System.nanoTime();
        if (inside.getAndIncrement() != 0) overlaps.incrementAndGet();
        long before = released.getAndSet(0);
        if (recording) {
            counts.incrementAndGet(me);
            if (before != 0) handOffs.add(now - before);
        }
        inside.decrementAndGet();
        released.set(System.nanoTime());
        lock.release();
    }

    static long at(long[] sorted, int percent) {
        return sorted.length == 0 ? 0 : sorted[Math.max(0, (sorted.length * percent + 99) / 100 - 1)];
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
