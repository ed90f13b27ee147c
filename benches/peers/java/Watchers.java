import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;

/** Many instances of CuratorCache on one node, all with one client; another client writes. */
class Watchers implements Peer.Repetition {
    static final String NODE = "/curator-watched";
    final CuratorFramework reader = Peer.client(), writer = Peer.client();
    final int count;

    Watchers(int count) throws Exception {
        this.count = count;
    }

    public String run(long[] numbers) throws Exception {
        int updates = (int) numbers[0];
        long pace = numbers[1] * 1000;
        AtomicLongArray arrived = new AtomicLongArray(updates + 1), seen = new AtomicLongArray(updates + 1);
        CountDownLatch caughtUp = new CountDownLatch(count), armed = new CountDownLatch(count);
        writer.create().orSetData().forPath(NODE, "0".getBytes());
        CuratorCache[] caches = new CuratorCache[count];
        for (int i = 0; i < count; i++) {
            caches[i] = CuratorCache.build(reader, NODE, CuratorCache.Options.SINGLE_NODE_CACHE);
            int[] last = {0};
            caches[i].listenable().addListener(CuratorCacheListener.builder().forInitialized(armed::countDown)
                .forCreatesAndChanges((old, now) -> {
                    int number = Integer.parseInt(new String(now.getData()));
                    long time = System.nanoTime();
                    // With a newer value the watcher has those that it missed, too.
                    for (int i2 = last[0] + 1; i2 <= number; i2++) arrived.accumulateAndGet(i2, time, Math::max);
                    if (number > last[0]) {
                        last[0] = number;
                        seen.incrementAndGet(number);
                        if (number == updates) caughtUp.countDown();
                    }
                }).build());
            caches[i].start();
        }
        if (!armed.await(60, TimeUnit.SECONDS)) throw new Exception("the caches did not start");
        long[] wrote = new long[updates + 1];
        Peer.say("BEGIN");
        long began = System.nanoTime(), next = began;
        for (int i = 1; i <= updates; i++) {
            while (System.nanoTime() < next) Thread.sleep(1);
            next += pace;
            wrote[i] = System.nanoTime();
            writer.setData().forPath(NODE, Integer.toString(i).getBytes());
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        if (!caughtUp.await(60, TimeUnit.SECONDS)) throw new Exception("the caches did not catch up");
        Peer.say("END");
        for (CuratorCache cache : caches) cache.close();
        long[] taken = new long[updates];
        long complete = 0, all = 0;
        for (int i = 1; i <= updates; i++) {
            taken[i - 1] = arrived.get(i) - wrote[i];
            if (seen.get(i) == count) complete++;
            all += seen.get(i);
        }
        return "p50_ms=" + Peer.ms(taken, 0.5) + " p99_ms=" + Peer.ms(taken, 0.99)
            + " complete_percent=" + 100.0 * complete / updates + " seen_percent=" + 100.0 * all / updates / count
            + " updates_s=" + updates / seconds;
    }
}
